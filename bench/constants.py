"""Measure the sensitivity of the library to each of its tuned constants.

    python bench/constants.py                        # all that the CPU uses
    python bench/constants.py --only window --only '_MAX*'
    python bench/constants.py --only MIN_CELLS --group paths  # with one group of workloads
    python bench/constants.py --gpu                  # all that the GPU uses

The extension is built once, in build/constants; when it is loaded, it reads every constant of the
kernel from the environment (SUPPLE_CONSTANT, "name=value"). A Python constant is set in its
module. Each constant is set to half and twice its value, or to the values of `VALUES`, and all
workloads of constants_workloads.py run with each value, in one process per value, interleaved. The
report lists all measures that change. Counts are deterministic. Processor times are
ratios within a round, and are listed if all rounds agree on whether the time rises or falls.

The build takes about 10 minutes of one core, and each constant about 20 s. A run with all constants
writes its report to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = ROOT / "build/constants"
TREE, SITE = WORK / "tree", WORK / "site"
ROW = re.compile(r"^\| `(\w+)` \| `([\w./]+)` \| `([^`]+)` \|", re.MULTILINE)
ROUNDS = 2
NOTICED = 0.03  # smallest relative change of a count that is listed
NOISE = 0.05  # smallest relative change of a processor time that is listed

# A lower and a higher value for constants whose half and double are not meaningful.
VALUES: dict[str, tuple[float, float]] = {
    "polish_progress": (0.4, 0.9),
    "own_cost_far": (1.0, 1.2),
    "own_cost_near": (1.02, 2.0),
    "nearly_met": (2e-4, 2e-2),
    "min_gain_factor": (3e-3, 0.3),
    "closest_tolerance": (5e-3, 4.5e-2),
    "float_resolution": (2e-6, 2e-4),
    "near_miss": (1e-5, 1e-3),
    "min_posture_gain": (1e-5, 1e-3),
    "posture_tolerance": (1e-5, 1e-3),
    "clipping_weight": (0, 4096),
    "general_largest": (1e3, 1e5),
    "general_growth": (1e7, 1e9),
    "general_real": (1e-5, 1e-3),
    "general_apart": (1e2, 1e4),
    "candidate_error": (1e-5, 1e-3),
    "branch_fine": (1e-5, 1e-3),
    "branch_distinct": (1e-6, 1e-4),
    "wide_rounds": (1, 6),
    "_MIN_REGULAR_SHARE": (0.4, 0.95),
    "_MAX_RECOVERY_ERROR": (1e-4, 1e-2),
    "acceleration_timing._DIVIDED_EXCESS": (1.0005, 1.002),
    "RAMP": (0.125, 0.4),
    "_ACCEPTED_EXCESS": (1.00025, 1.001),
    "jerk_timing._DIVIDED_EXCESS": (1.005, 1.02),
    "acceleration_timing._RESTART_TOLERANCE": (3e-3, 3e-2),
    "jerk_timing._RESTART_TOLERANCE": (1e-4, 1e-3),
}

# C++ code that reads a constant of the kernel from the environment when the library is loaded.
TUNED = """\
#ifndef SUPPLE_TUNED
#define SUPPLE_TUNED
#include <stdlib.h>
#include <string.h>
template <class T>
inline T supple_tuned(const char* key, T usual) {
  const char* const given = getenv("SUPPLE_CONSTANT");
  const size_t length = strlen(key);
  if (!given || strncmp(given, key, length) || given[length] != '=') return usual;
  return T(strtod(given + length + 1, nullptr));
}
#endif
"""


@dataclass(frozen=True)
class Constant:
    """A row of docs/constants.md.

    Attributes:
        key: Unique name: `name`, preceded by the file's name if two files define the same name.
        name: Name in the code.
        file: Path of the file, relative to the repository.
        value: Value as written in that file.
    """

    key: str
    name: str
    file: Path
    value: str

    @property
    def language(self) -> str:
        """The suffix that stands for the language of the file, in which the value is replaced.

        Headers of CUDA sources, which the package compiles at run time, have the language ".cu".
        """
        header = self.file.suffix == ".hpp" and "gpu" in self.file.parts
        return ".cu" if header else self.file.suffix

    def used_by(self, gpu: bool) -> bool:
        """Return whether the code for a GPU (if `gpu`) or for a CPU uses the constant."""
        own = self.language == ".cu" or "gpu" in self.file.parts
        return (gpu and self.key == "_GPU_SEED_TABLE_SIZE") or gpu == own

    @property
    def definition(self) -> re.Pattern[str]:
        """Return a pattern for `name = value`, with the value as a group."""
        return re.compile(rf"(?<![\w.]){self.name}\s*=\s*({re.escape(self.value)})(?![\w.])")

    def span(self, text: str) -> tuple[int, int]:
        """Return the position of the value in the text of the file.

        Raises:
            ValueError: The constant is not defined exactly once.
        """
        found = list(self.definition.finditer(text))
        if len(found) != 1:
            raise ValueError(
                f"{self.name} = {self.value} must be defined once in {self.file}; "
                f"found: {len(found)}. docs/constants.md may be stale"
            )
        return found[0].span(1)

    def values(self) -> tuple[float, float, float]:
        """Return a lower value, the usual value and a higher value."""
        usual = _number(self.value)
        if self.key in VALUES:
            low, high = VALUES[self.key]
        elif isinstance(usual, int):
            low, high = max(1, usual // 2), 2 * usual
        else:
            low, high = usual / 2, 2 * usual
        return low, usual, high


def _number(text: str) -> float:
    """Return the value of a numeric literal, or of a quotient of two literals."""
    plain = re.sub(r"[T()_ f]", "", text)
    over, _, under = plain.partition("/")
    return int(plain) if plain.isdigit() else float(over) / float(under or 1)


def constants() -> dict[str, Constant]:
    """Return the constants of docs/constants.md, by key."""
    rows = ROW.findall((ROOT / "docs/constants.md").read_text(encoding="utf-8"))
    names = [name for name, _, _ in rows]
    made = {}
    for name, file, value in rows:
        key = name if names.count(name) == 1 else f"{Path(file).stem}.{name}"
        made[key] = Constant(key, name, Path(file), value)
    return made


def changed(text: str, constant: Constant, value: float) -> str:
    """Return a source in which the constant has another value."""
    first, last = constant.span(text)
    return f"{text[:first]}{value:g}{text[last:]}"


def tunable(text: str, several: Iterable[Constant]) -> str:
    """Return a C++ source in which constants are read from the environment.

    The declarations of these constants become `const`. An array size that the same declaration
    derives from such a constant keeps its value.
    """
    declarations: dict[tuple[int, int], list[Constant]] = {}
    for constant in several:
        first, last = constant.span(text)
        begin = text.rindex("constexpr", 0, first)
        if ";" in text[begin:first]:
            raise ValueError(f"{constant.key}: its declaration must be constexpr")
        declarations.setdefault((begin, text.index(";", last)), []).append(constant)
    for begin, end in sorted(declarations, reverse=True):
        made = text[begin:end]
        for one in declarations[begin, end]:
            made = re.sub(rf"(?<![\w.]){one.name}\b(?!\s*=)", one.value, made)
        for one in declarations[begin, end]:
            first, last = one.span(made)
            made = f'{made[:first]}supple_tuned("{one.key}", {one.value}){made[last:]}'
        # Inside a function, a constant is static, so that it is read once and not in every call.
        kind = "const" if text[:begin].endswith("inline ") else "static const"
        text = text[:begin] + made.replace("constexpr", kind, 1) + text[end:]
    return TUNED + text


def sources() -> dict[Path, str]:
    """Return the sources of the extension with constants from the environment, by their paths."""
    by_file: dict[Path, list[Constant]] = {}
    for constant in constants().values():
        if constant.language in (".hpp", ".cpp"):
            by_file.setdefault(constant.file, []).append(constant)
    paths = [Path("CMakeLists.txt")]
    for folder in ("include", "src/core"):
        paths += [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()]
    made = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    for path, several in by_file.items():
        made[path] = tunable(made[path], several)
    return made


def build() -> None:
    """Build the package in SITE: links to the Python sources, and the tunable extension."""
    from supple import _core

    package = SITE / "supple"
    shutil.rmtree(package / "include", ignore_errors=True)
    (package / "include").mkdir(parents=True)
    for path in [*(ROOT / "src/supple").iterdir(), ROOT / "papers"]:
        link(path, package / path.name)
    link(ROOT / "include/supple", package / "include/supple")
    for path, text in sources().items():
        if path.name == "isa.txt":  # build only the instruction set in use
            text = "\n".join(line for line in text.splitlines() if f" {_core.isa()} " in line)
        to = TREE / path
        # Unchanged files are not written, so that they are not compiled again.
        if not to.is_file() or to.read_text(encoding="utf-8") != text:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(text, encoding="utf-8")
    options = [
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={package}",
    ]
    setup = ["cmake", "-S", str(TREE), "-B", str(WORK / "build"), "-G", "Ninja", *options]
    search = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in (setup, ["cmake", "--build", str(WORK / "build"), "--target", "_core"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | search)


def link(source: Path, to: Path) -> None:
    """Create a link, replacing an existing one."""
    to.unlink(missing_ok=True)
    to.symlink_to(source)


# ---- measuring ---------------------------------------------------------------------------------

Measured = Mapping[str, Mapping[str, float]]  # workload -> measure -> value


def run(site: Path, *arguments: str, setting: str = "") -> Measured:
    """Run all workloads in a new process with the package in a folder."""
    command = [sys.executable, str(HERE / "constants_workloads.py"), str(WORK / "targets.npz")]
    places = os.pathsep.join([str(site), str(ROOT / "tests/support")])
    environment = os.environ | {"PYTHONPATH": places, "SUPPLE_CONSTANT": setting}
    done = subprocess.run(
        [*command, *arguments], stdout=subprocess.PIPE, encoding="utf-8", env=environment
    )
    if done.returncode:
        sys.exit(done.returncode)  # the process has printed the error
    return json.loads(done.stdout)


def on_cpu(constant: Constant, value: float, groups: Sequence[str] = ()) -> Measured:
    """Run groups of workloads (by default, all for a CPU) with a constant set to a value."""
    if constant.language != ".py":
        return run(SITE, *groups, setting=f"{constant.key}={value}")
    module = ".".join(constant.file.with_suffix("").parts[1:])
    return run(SITE, *groups, f"{module}.{constant.name}={value}")


def on_gpu(constant: Constant, value: float) -> Measured:
    """Run the GPU workloads with a constant set to a value.

    The package compiles its CUDA sources at run time, so a copy of the package has the new value.
    """
    import supple

    site = WORK / "gpu"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(Path(supple.__file__).parent, site / "supple")
    file = site / constant.file.relative_to("src")
    file.write_text(changed(file.read_text(encoding="utf-8"), constant, value), encoding="utf-8")
    return run(site, "gpu")


def measured(
    constant: Constant, rounds: int, where: Callable[[Constant, float], Measured] = on_cpu
) -> list[list[Measured]]:
    """Return the measures of each round for a constant's lower, usual and higher value."""
    return [[where(constant, value) for value in constant.values()] for _ in range(rounds)]


@dataclass(frozen=True)
class Change:
    """A measure that depends on a constant, with its value for each value of the constant."""

    workload: str
    measure: str
    values: tuple[float, float, float]

    @property
    def size(self) -> float:
        """The larger of two relative changes: with the lower and with the higher value."""
        low, usual, high = self.values
        return max(abs(low - usual), abs(high - usual)) / (abs(usual) or 1)


def changes(rounds: Sequence[Sequence[Measured]]) -> list[Change]:
    """Return the measures that change with a constant.

    Counts are taken from the first round, because all rounds have the same counts. Times are
    medians over all rounds, relative to the time with the usual value. A time is listed if, with
    the lower or with the higher value, all rounds take longer or all rounds take less time.
    """
    made = []
    for workload, measures in rounds[0][1].items():
        for measure in measures:
            each = [[one[workload][measure] for one in several] for several in rounds]
            if measure != "µs":
                change = Change(workload, measure, (each[0][0], each[0][1], each[0][2]))
                if change.size > (0 if measure == "solved [%]" else NOTICED):
                    made.append(change)
                continue
            ratios = [[x / several[1] for x in several] for several in each]
            low, high = ([one[k] for one in ratios] for k in (0, 2))
            if any(min(x) > 1 + NOISE or max(x) < 1 - NOISE for x in (low, high)):
                middle = statistics.median(low), 1.0, statistics.median(high)
                made.append(Change(workload, "time, relative", middle))
    return made


def report(constant: Constant, found: Sequence[Change]) -> str:
    """Return a table of the measures that depend on a constant."""
    low, _, high = constant.values()
    lines = [f"## `{constant.key}` = {constant.value}", "", f"`{constant.file}`", ""]
    if not found:
        return "\n".join([*lines, f"Nothing changes with {low:g} or {high:g}.", ""])
    lines += [f"| workload | | {low:g} | {constant.value} | {high:g} |", "|---|---|---:|---:|---:|"]
    for one in found:
        cells = " | ".join(f"{x:.4g}" for x in one.values)
        lines.append(f"| {one.workload} | {one.measure} | {cells} |")
    return "\n".join([*lines, ""])


def summary(rounds: int) -> list[str]:
    """Return the introduction of the report."""
    import measure

    return [
        "# Sensitivity to tuned constants",
        "",
        "The measures that change with the constants of docs/constants.md: counts that change by "
        f"more than {NOTICED:.0%}, and processor times that change by more than {NOISE:.0%} in "
        f"each of {rounds} interleaved rounds. Counts are means per target, and means over three "
        "arms where a workload does not name a robot.",
        "",
        measure.provenance(["numpy", "supple"]),
        "",
    ]


def main() -> None:
    """Measure constants and print a table for each; save the report if all were measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="a name or a pattern")
    parser.add_argument(
        "--group", action="append", choices=["solve", "control", "paths"], help="workloads to run"
    )
    parser.add_argument("--gpu", action="store_true", help="constants of the GPU, measured there")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    every = {key: one for key, one in constants().items() if one.used_by(given.gpu)}
    patterns = given.only or ["*"]
    chosen = [one for key, one in every.items() if any(fnmatch(key, p) for p in patterns)]
    if not chosen:
        parser.error(f"no constant is named {patterns}. Available: {sorted(every)}")
    if not given.gpu:
        build()
    WORK.mkdir(parents=True, exist_ok=True)
    where = on_gpu if given.gpu else partial(on_cpu, groups=given.group or ())
    lines = summary(given.rounds)
    for constant in chosen:
        rounds = measured(constant, given.rounds, where)
        lines.append(report(constant, changes(rounds)))
        print(lines[-1], flush=True)
    if len(chosen) == len(every) and not given.group:
        import measure

        print(measure.write("constants_gpu" if given.gpu else "constants", "\n".join(lines)))


if __name__ == "__main__":
    main()
