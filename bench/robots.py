"""Inverse kinematics of every robot in a set of wheels: solved and verified targets.

    python bench/robots.py                      on the CPU; writes bench/results/robots.<machine>.md
    python bench/robots.py --device cuda        the same targets on an NVIDIA GPU
    python bench/robots.py --pack DIR           copies the robot files, without meshes

Targets are poses of configurations inside the limits, random ones and hard ones. Solutions are
checked by the forward kinematics of Pinocchio or MuJoCo. If these libraries are not
installed, solutions are checked by supple's own kinematics on the CPU, and MJCF files are omitted.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import measure
import robots_gpu
from robots_files import ROOTS, End, bases, ends, load, robot_files, root_of
from robots_judge import Outcome, Reading, Row, measured, read
from robots_laws import broken
from supple.errors import SuppleError

# Numbers of random targets, of hard targets of each kind, and of targets solved in single calls.
COUNT, HARD, SINGLES = 20_000, 4_000, 100


def readings(files: Sequence[tuple[str, Path]], jobs: int) -> list[Reading]:
    """Read every file, and compare its forward kinematics with another library's."""
    with _pool(jobs) as pool:
        return list(pool.map(read, *zip(*files, strict=True), chunksize=4))


def distinct(read: Iterable[Reading]) -> list[tuple[str, Path, str]]:
    """Return (file, path, frame) of one end effector for each distinct chain of joints."""
    seen, found = set(), []
    for one in read:
        for frame, key in one.ends:
            if key not in seen:
                seen.add(key)
                found.append((one.file, one.path, frame))
    return found


def rows(
    work: Sequence[tuple[str, Path, str]], jobs: int, count: int = COUNT, hard: int = HARD
) -> list[Row]:
    """Solve the targets of end effectors on the CPU, in one process for each core."""
    with _pool(jobs) as pool:
        made = [pool.submit(_on_cpu, *one, count, hard) for one in work]
        return [one.result() for one in made]


def base_rows(count: int = COUNT) -> list[Row]:
    """Solve targets of an arm on sliders with ranges of 100 m and more, or without limits."""
    return [measured(name, text, end, count, 0, SINGLES, wide) for name, text, end, wide in bases()]


def on_gpu(work: Iterable[tuple[str, Path, str]]) -> list[robots_gpu.Work]:
    """Return end effectors and arms on long sliders, ready to be solved on a GPU."""
    found: list[robots_gpu.Work] = [
        (file, path, _end(path, frame), None) for file, path, frame in work
    ]
    return found + list(bases())


def _on_cpu(file: str, path: Path, frame: str, count: int, hard: int) -> Row:
    end = _end(path, frame)
    row = measured(file, path, end, count, hard, SINGLES)
    row.compiled = robots_gpu.compiles(end)
    return row


def _end(path: Path, frame: str) -> End:
    return next(end for end in ends(load(path).robot) if end.frame == frame)


def _pool(jobs: int) -> ProcessPoolExecutor:
    """Return a pool of single-threaded processes, so that work in Python runs in parallel too."""
    os.environ["SUPPLE_THREADS"] = "1"
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


def table(rows: Iterable[Row]) -> str:
    """Return the results as a table in Markdown."""
    kinds = ("random", "limits", "singular", "half turn", "far")
    head = ["file", "end effector", "joints", "task", "targets", "met", "µs each", *kinds[1:]]
    head += ["met alone", "false", "outside", "FK", "for a GPU"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        main = row.batch["random"]
        every = [*row.batch.values(), *([row.single] if row.single else [])]
        line = [row.file, row.frame, str(row.joints), row.kind, f"{main.count:,}", _share(main)]
        line += [f"{1e6 * main.seconds / main.count:.1f}"]
        line += [_share(row.batch.get(kind)) for kind in kinds[1:]]
        line += [_share(row.single)]
        line += [str(sum(one.false for one in every)), str(sum(one.outside for one in every))]
        line += ["none" if math.isnan(row.fk_error) else f"{row.fk_error:.0e}"]
        line += [row.compiled[:40].replace("\n", " ")]
        lines.append(line)
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _share(one: Outcome | None) -> str:
    """Return a result as text: "all", or the percentage of targets met and the number missed."""
    if one is None:
        return ""
    missed = len(one.missed)
    return "all" if not missed else f"{100 * one.share:.3f} % ({missed} of {one.count:,} missed)"


def report(rows: Sequence[Row], read: Sequence[Reading], packages: Iterable[str]) -> str:
    """Return the text of the results file."""
    loaded = [one for one in read if not one.error]
    total = sum(one.count for row in rows for one in row.batch.values())
    met = sum(one.converged for row in rows for one in row.batch.values())
    chains = sum(len(one.ends) for one in read)
    text = f"# Many robots\n\n{measure.provenance(packages)}\n\n"
    text += (
        f"{len(read)} files, {len(loaded)} read, {len(read) - len(loaded)} refused. {chains} end "
        f"effectors with enough joints for a pose, a position and an axis, or a position. One is "
        f"measured for each of {len(rows)} distinct chains (the same arm on another base, in "
        "another file or with another tool is left out, and so are all fingers of a hand but one). "
        "Default tolerances, 1e-6 m and 1e-6 rad. Times are processor times on a CPU and wall "
        f"times on a GPU. Of {total:,} targets in batches {met:,} were met.\n\n"
        "Random targets have random configurations; *limits*: every joint at one of its limits; "
        "*singular*: the task's Jacobian loses rank; *half turn*: the start differs from a "
        "solution by half a turn of one joint; *far*: the start has all joints at their lower "
        "limits, or at 1000 rad. *False*: reported as met, but not met according to the other "
        "library's kinematics. FK: the largest difference between the poses of both libraries, "
        "relative to the robot's size; none: the other library does not read the file, and "
        "supple's own kinematics are used.\n\n"
    )
    if unread := [one for one in loaded if one.no_oracle]:
        text += f"{len(unread)} of the files read have no other library to compare with:\n\n"
        text += "".join(f"- {one.file}: {_line(one.no_oracle)}\n" for one in unread) + "\n"
    return text + table(rows)


def _line(text: str) -> str:
    return text.splitlines()[0].strip()


def _measured(results: Path) -> set[tuple[str, str]]:
    """Return the file and the end effector of each row in a results file."""
    cells = [line.split(" | ") for line in results.read_text("utf-8").splitlines()]
    return {(line[0].removeprefix("| "), line[1]) for line in cells if len(line) > 2}


def pack(folder: Path, given: Sequence[str]) -> int:
    """Copy the robots' files, without meshes, and return their number."""
    files = [(name, path) for name, path in robot_files(given) if root_of(path) in ROOTS]
    for name, path in files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return len(files)


def main() -> None:
    """Measure all robots; print the tables and write them to bench/results/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--files", action="append", default=[], help="folder of robot files")
    parser.add_argument("--out", type=Path, help="results file")
    parser.add_argument("--pack", type=Path, help="only copy the robot files to this folder")
    parser.add_argument("--only", default="*", help="pattern of file names")
    parser.add_argument("--count", type=int, default=COUNT, help="random targets per end effector")
    parser.add_argument("--hard", type=int, default=HARD, help="hard targets of each kind")
    parser.add_argument("--skip", type=Path, help="results file whose rows are not measured")
    parser.add_argument("--part", default="1/1", help="2/3 for the second third of the robots")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.pack:
        print(f"{pack(given.pack, given.files)} files copied to {given.pack}")
        return
    began = time.perf_counter()
    files = [pair for pair in robot_files(given.files) if fnmatch.fnmatch(pair[0], given.only)]
    if not files:
        sys.exit("no robot files: make test-robots installs them, --files names a folder")
    read = readings(files, given.jobs)
    part, parts = map(int, given.part.split("/"))
    done = _measured(given.skip) if given.skip else set()
    work = [one for one in distinct(read) if (one[0], one[2]) not in done][part - 1 :: parts]
    packages = ["numpy"]
    if given.device == "cpu":
        made = rows(work, given.jobs, given.count, given.hard) + base_rows(given.count)
        packages += ["pin", "mujoco"]
        name = f"robots.{platform.machine()}.md"
    else:
        some = on_gpu(work)
        made = []
        for row in robots_gpu.rows(some, given.device, given.count, given.hard):
            made.append(row)
            # Print each row at once, in case the run is interrupted.
            print(table([row]).splitlines()[-1], flush=True)
        name = f"robots_gpu.{platform.machine()}.md"
    text = report(made, read, packages)
    out = given.out or measure.HERE / "results" / name
    out.write_text(text, "utf-8")
    print(text, f"\n{out}, {time.perf_counter() - began:.0f} s")
    found = broken(made)
    sys.exit("\n".join([f"{len(found)} laws broken:", *found]) if found else 0)


if __name__ == "__main__":
    try:
        main()
    except SuppleError as error:
        sys.exit(str(error))
