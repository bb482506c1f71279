"""How sensitive `solve` is to each of its tuned constants.

    python bench/constants.py [--rounds N] [CONSTANT ...]

For every constant of docs/constants.md that is named (default: those of `DEFAULT`), two variants
of the package are made in a temporary folder, with half and with twice the value. A constant of the
kernel is compiled, which takes a few minutes; one of the Python sources is not. All variants
then solve the same fixed targets, one process each, interleaved, and the table shows the ratio to
the package as it is: solved targets, restarts and processor time. Targets are poses of random
configurations, and poses 5 cm beyond the edge of the workspace, whose closest pose is known.
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
import tempfile
import time
from pathlib import Path

import numpy as np

import supple

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| `(\w+)` \| `([\w./]+)` \| `([^`]+)` \|", re.MULTILINE)
ARMS = ("panda", "ur5e", "iiwa14")
DEFAULT = ("_DAMPING", "_TABLE", "_TURN", "_NEWTON_GAIN")
FACTORS = {"half": 0.5, "same": 1.0, "double": 2.0}


def constants() -> dict[str, tuple[Path, str]]:
    """The file and the value of each constant of docs/constants.md."""
    rows = ROW.findall((ROOT / "docs/constants.md").read_text(encoding="utf-8"))
    return {name: (Path(file), value) for name, file, value in rows}


def definition(name: str, value: str) -> re.Pattern[str]:
    """Match the definition of a constant: `name = value` or, in C++, `name{value}`."""
    return re.compile(rf"(?<![\w.]){name}(\s*=\s*|\{{){re.escape(value)}(?![\w.])")


def changed(text: str, name: str, value: str, factor: float) -> str:
    """Return a source with the constant times the factor; whole numbers stay whole."""
    whole = value.isdigit()
    new = f"{max(1, round(int(value) * factor))}" if whole else f"{factor} * {value}"
    pattern = definition(name, value)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"{name} = {value} must be defined once; docs/constants.md may be stale")
    return pattern.sub(lambda found: f"{name}{found[1]}{new}", text)


def variant(folder: Path, name: str, factor: float) -> Path:
    """Make a package with one constant changed; return the folder to import it from."""
    file, value = constants()[name]
    made = folder / f"{name}-{factor}"
    package = made / "supple"
    shutil.copytree(Path(supple.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc"))
    text = changed((ROOT / file).read_text(encoding="utf-8"), name, value, factor)
    if file.suffix == ".py":
        (package / file.relative_to("src/supple")).write_text(text, encoding="utf-8")
        return made
    tree = folder / "tree"  # one build folder for all variants: each compiles only what it changes
    tree.mkdir(exist_ok=True)
    for part in ("CMakeLists.txt", "include", "src"):
        target = tree / part
        if not target.exists():
            (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, target)
    before = (tree / file).read_text(encoding="utf-8")
    (tree / file).write_text(text, encoding="utf-8")
    python = f"-DPython_EXECUTABLE={sys.executable}"
    setup = ["cmake", "-S", str(tree), "-B", str(tree / "build"), "-G", "Ninja", python]
    search = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in (setup, ["cmake", "--build", str(tree / "build"), "--target", "_core"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | search)
    (tree / file).write_text(before, encoding="utf-8")
    for built in (tree / "build").glob("_core*.so"):
        shutil.copy(built, package / built.name)
    return made


def targets(folder: Path, count: int) -> Path:
    """Write the fixed targets of each arm: random ones, and some 5 cm beyond the edge."""
    sys.path.insert(0, str(ROOT / "tests/support"))
    from targets import boundary

    arrays = {}
    for arm in ARMS:
        robot = supple.load(arm)
        rng = np.random.default_rng(1)
        lower, upper = np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)
        q = rng.uniform(lower, upper, (count, robot.dof))
        arrays[f"{arm} random"] = robot.fk(q)
        arrays[f"{arm} beyond"] = boundary(robot, count // 20)[2]
    np.savez(folder / "targets.npz", **arrays)
    return folder / "targets.npz"


def solve_all(file: str) -> None:
    """Solve the targets of a file and print what came out as JSON: the work of one process."""
    found = {}
    for key, T in np.load(file).items():
        robot = supple.load(key.split()[0])
        supple.solve(robot, T[:50], threads=1)  # builds the table of seeds
        start = time.process_time()
        solution = supple.solve(robot, T, threads=1)
        used = time.process_time() - start
        found[key] = {
            "solved": float(np.mean(solution.success)),
            "restarts": float(np.mean(solution.restarts)),
            "error": float(np.mean(solution.position_error)),
            "us": 1e6 * used / len(T),
        }
    print(json.dumps(found))


def measured(places: dict[str, Path], file: Path, rounds: int) -> dict[str, dict[str, dict]]:
    """Return the medians of each variant, from interleaved rounds."""
    runs: dict[str, list[dict]] = {name: [] for name in places}
    for _ in range(rounds):
        for name, place in places.items():
            command = [sys.executable, __file__, "--worker", str(file)]
            run = subprocess.run(
                command,
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"PYTHONPATH": str(place)},
            )
            runs[name].append(json.loads(run.stdout))
    return {
        name: {
            key: {
                field: statistics.median(run[key][field] for run in several)
                for field in several[0][key]
            }
            for key in several[0]
        }
        for name, several in runs.items()
    }


def main() -> None:
    """Measure and print a table for each constant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="CONSTANT", default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--targets", type=int, default=2000)
    parser.add_argument("--worker", metavar="FILE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        solve_all(given.worker)
        return
    unknown = set(given.names) - set(constants())
    if unknown:
        parser.error(f"unknown constants {sorted(unknown)}. Available: {sorted(constants())}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = targets(folder, given.targets)
        for constant in given.names:
            places = {k: variant(folder, constant, f) for k, f in FACTORS.items()}
            found = measured(places, file, given.rounds)
            print(f"\n{constant} = {constants()[constant][1]}\n")
            print("| targets | value | solved | restarts | closest [mm] | CPU time |")
            print("|---|---|---:|---:|---:|---:|")
            for key in found["same"]:
                usual = found["same"][key]["us"]
                for name in FACTORS:
                    row = found[name][key]
                    print(
                        f"| {key} | {name} | {row['solved']:.2%} | {row['restarts']:.2f} | "
                        f"{1e3 * row['error']:.3f} | {row['us'] / usual:.2f} |"
                    )
            for place in places.values():
                shutil.rmtree(place)


if __name__ == "__main__":
    main()
