"""Compare position IK with other libraries: one pose, called from Python, on one core.

    python bench/position.py [--quick] [--no-peers] [--busy] [--seconds S] [ROBOT ...]

Every library solves the same targets in its own process (`position_peers.py`), in interleaved
rounds; `make bench-position` makes their environments. A solution counts if Pinocchio's forward
kinematics and the limits confirm it, regardless of what the library reports. Prints tables and
writes them to bench/results/.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

import arms
import measure
import supple as sp
from position_judge import CLOSE, Answers, Judge, judged
from position_problem import Problem
from position_targets import Situation, posture, situations
from worker import OWN, Worker

COUNT = 10_000  # maximum number of random targets of an arm; slow libraries solve fewer
ROUNDS = 5
SECONDS = 1.0  # time that a library gets for one kind of targets, in all rounds together [s]
CLOCKS = {"perf_counter_ns": "wall time", "process_time_ns": "processor time"}
ENVIRONMENTS = {
    "supple": OWN,
    "Robotics Toolbox": "position",
    "OptIK": "position",
    "TRAC-IK": "position",
    "Klampt": "position",
    "ssik": "position",
    "EAIK": "position",
    "ik-geo": "position",
    "Pinocchio loop": OWN,
    "Pink": "qp",
    "mink": "qp",
    "placo": "placo",
}


@dataclass(frozen=True)
class Row:
    """A line of a table; times in [µs]."""

    name: str
    count: int
    success: float
    false: float
    mean: float
    median: float
    p99: float
    ratio: float
    left: float  # median position error that remains at the returned configurations [m]


def compare(
    judge: Judge,
    workers: dict[str, Worker],
    key: str,
    situation: Situation,
    gate: tuple[float, float],
    options: argparse.Namespace,
) -> list[Row]:
    """Run all libraries on one kind of targets."""
    count, rounds = len(situation.targets), options.rounds
    given = {name: Answers() for name in workers}
    names = list(workers)
    for r in range(rounds):
        first, end = count * r // rounds, count * (r + 1) // rounds
        for name in names[r % len(names) :] + names[: r % len(names)]:
            if given[name].failed:
                continue
            question = {"ask": "solve", "in": key, "gate": gate, "from": first, "to": end}
            question |= {"seconds": options.seconds / rounds, "clock": options.clock}
            given[name].add(first, workers[name].ask(**question))
    reference = np.full(count, np.nan)  # time of supple for the same targets
    rows = []
    for name, answers in given.items():
        if answers.failed or not answers.ns:
            workers[name].missing = answers.failed or "it answered nothing"
            continue
        us = np.array(answers.ns) / 1e3
        if name == names[0]:
            reference[answers.which] = us
        right, left = judged(judge, situation, gate, answers)
        claims = np.array(answers.claims)
        false = claims & ~right if situation.reachable else claims
        shown = left[np.isfinite(left)]
        rows.append(
            Row(
                name,
                len(us),
                100 * right.mean(),
                100 * false.mean(),
                us.mean(),
                float(np.median(us)),
                float(np.percentile(us, 99)),
                us.mean() / np.nanmean(reference[answers.which]),
                float(np.median(shown)) if len(shown) else np.nan,
            )
        )
    return rows


def table(title: str, rows: list[Row], reachable: bool) -> list[str]:
    """Return the table of one kind of targets."""
    last = "" if reachable else " left, median [mm] |"
    lines = [
        f"### {title}",
        "",
        "| | targets | success % | false claims % | mean µs | median | p99 | against supple |"
        + last,
        "|---|---:|---:|---:|---:|---:|---:|---:|" + ("" if reachable else "---:|"),
    ]
    for row in rows:
        more = "" if reachable else f" {1e3 * row.left:.1f} |"
        lines.append(
            f"| {row.name} | {row.count} | {row.success:.2f} | {row.false:.2f} | {row.mean:.1f} "
            f"| {row.median:.1f} | {row.p99:.1f} | {row.ratio:.1f} |{more}"
        )
    return [*lines, ""]


def prepared(name: str, arm: arms.Arm, folder: Path, count: int) -> tuple[Problem, dict]:
    """Write the files that all contenders read; raise an error if two kinematics differ."""
    file = folder / "robot.urdf"
    file.write_text(arm.urdf)
    robot = sp.urdf(file)
    problem = Problem(
        urdf=str(file),
        joints=robot.joint_names,
        frames=arm.frames,
        transforms=arm.transforms,
        lower=np.array(robot.lower),
        upper=np.array(robot.upper),
        seed=posture(robot, arm.frames),
        axis=arm.axis,
        name=name,
    )
    problem.write(folder, arm.urdf)
    q = robot.random(20, seed=0)
    ours = robot.fk(q, list(arm.frames))
    np.testing.assert_allclose(Judge(problem).poses(q), ours, atol=1e-9)
    if len(arm.transforms):
        np.testing.assert_allclose([problem.fk(one) for one in q], ours[:, 0], atol=1e-9)
    made = situations(robot, arm.frames, count)
    arrays = {key: one.targets for key, one in made.items()}
    arrays |= {f"{key} start": one.starts for key, one in made.items() if one.starts is not None}
    np.savez(folder / "targets.npz", **arrays)
    return problem, made


def run(name: str, arm: arms.Arm, options: argparse.Namespace) -> tuple[list[str], list, dict]:
    """Run one robot; return its tables, rows for the summary, and notes on its contenders."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        problem, made = prepared(name, arm, folder, options.count)
        everyone = {}
        for contender, environment in ENVIRONMENTS.items():
            if contender == "supple" or options.peers:
                args = (contender, folder)
                everyone[contender] = Worker(environment, "position_peers.py", args)
                stack.callback(everyone[contender].close)
        workers = {key: worker for key, worker in everyone.items() if not worker.missing}
        judge, lines, summary = Judge(problem), [f"## {arm.title}", ""], []
        for key, situation in made.items():
            for gate in situation.gates:
                rows = compare(judge, workers, key, situation, gate, options)
                title = situation.title
                if situation.reachable:
                    title += f"; {gate[0]:g} m, {gate[1]:g} rad"
                text = table(title, rows, situation.reachable)
                print("\n".join([f"{arm.title}", *text]), flush=True)
                lines += text
                summary.append((arm.title, title, rows))
        left_out = [f"{key}: {w.missing}" for key, w in everyone.items() if w.missing]
        if left_out:
            lines += ["Left out: " + "; ".join(left_out) + ".", ""]
        notes = {key: worker.line for key, worker in everyone.items() if not worker.missing}
        return lines, summary, notes


def short(summary: list) -> list[str]:
    """Return the summary of supple and the fastest other library that solves nearly all targets."""
    lines = [
        "| robot | targets | supple: success %, mean µs, p99 | fastest peer | its success %, mean "
        "| ratio of means |",
        "|---|---|---:|---|---:|---:|",
    ]
    for title, kind, (first, *peers) in summary:
        able = [row for row in peers if row.success >= 90.0]
        best = min(able, key=lambda row: row.mean, default=None)
        ours = f"{first.success:.2f}, {first.mean:.1f}, {first.p99:.1f}"
        rest = "none over 90 % | | |"
        if best is not None:
            rest = f"{best.name} | {best.success:.2f}, {best.mean:.1f} | {best.ratio:.1f} |"
        lines.append(f"| {title} | {kind} | {ours} | {rest}")
    return [*lines, ""]


def main() -> None:
    """Measure all robots; print the tables and write them to bench/results/."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("robots", nargs="*", help="short names; default: all")
    parser.add_argument("--quick", action="store_true", help="few targets, nothing is written")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="per library and situation")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument(
        "--busy",
        dest="clock",
        action="store_const",
        const="process_time_ns",
        default="perf_counter_ns",
        help="measure processor time instead of wall time, on a busy machine",
    )
    options = parser.parse_args()
    options.count = 100 if options.quick else COUNT
    options.rounds = 2 if options.quick else ROUNDS
    options.seconds = 0.1 if options.quick else options.seconds
    every = arms.arms() | {"g1": arms.humanoid()}
    chosen = {name: every[name] for name in options.robots or every}
    lines, summary, notes = [], [], {}
    for name, arm in chosen.items():
        text, rows, about = run(name, arm, options)
        lines, summary, notes = lines + text, summary + rows, notes | about
    head = [
        "# One pose from Python",
        "",
        f"Position inverse kinematics, one call, one core, {options.rounds} interleaved rounds; "
        f"{CLOCKS[options.clock]} of each call, failures too. A library solves as many of "
        f"{options.count} random targets, or 1000 of another kind, as fit into "
        f"{options.seconds:g} s. Success: "
        "Pinocchio's forward kinematics of the answer is within the gate and the joints within "
        "their limits. False claims: the library reports success, but the target is not met. For "
        f"targets beyond the boundary, success is the closest pose, within {CLOSE[0]:g} m and "
        f"{CLOSE[1]:g} rad (or a pose that is nearer to the target), inside the limits. Ratios are "
        "of means over the same targets. If a library needs a start and none is given, it gets one "
        "that is far from limits and singularities.",
        measure.provenance(("supple", "pin", "numpy")) + f" {date.today().isoformat()}.",
        "",
    ]
    tail = [*(f"- {name}: {note}" for name, note in notes.items()), ""]
    everything = [*head, *short(summary), *lines, *tail]
    print("\n".join([*short(summary), *tail]))
    if not options.quick and not options.robots:
        print("written to", measure.write("position", "\n".join(everything)))


if __name__ == "__main__":
    main()
