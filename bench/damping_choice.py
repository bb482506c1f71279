"""Compare all damping rules in `solve` on the same targets, on one core, in interleaved rounds.

python bench/damping_choice.py [ROUNDS [TARGETS]] prints two tables and writes them to
bench/results/. Random targets are poses of random configurations. At the edge of the workspace, T0
is the farthest pose of a hand along a random direction, and T5 is 5 cm farther, so that the closest
pose is T0. All targets are solved as a batch with the default tolerances, 1e-6 m and rad. Times are
processor times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import measure
import supple as sp
from supple.damping import RULES, ErrorNorm
from supple.damping.rule import KernelRule
from supple.ik.problem import compile_problem

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))
from targets import apart, boundary

ARMS = ("panda", "ur5e", "iiwa14", "puma560")
Rules = dict[str, KernelRule]


def rules(robot: sp.Robot) -> Rules:
    """Return the default rule, weaker and stronger variants of this rule, and all other rules."""
    usual = compile_problem(robot, None).rule
    assert isinstance(usual, ErrorNorm)
    made: Rules = {"default: `ErrorNorm`": usual}
    for factor in (0.1, 10):
        made[f"`ErrorNorm`, {factor} times that"] = ErrorNorm(factor * usual.gain)
    others = (rule for rule in RULES if rule is not ErrorNorm)
    return made | {f"`{rule.__name__}`": rule.for_robot(robot) for rule in others}


def timed(
    robot: sp.Robot, T: np.ndarray, rule: KernelRule, kept: dict[str, sp.Solutions], key: str
) -> float:
    """Return microseconds per target; store the solutions in `kept`."""
    start = time.process_time()
    kept[key] = sp.Solver(robot, damping=rule, threads=1).batch(T)
    return (time.process_time() - start) / len(T) * 1e6


def measured(
    robots: dict[str, sp.Robot], targets: dict[str, np.ndarray], rounds: int
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, sp.Solution]]]:
    """Return the median times and the solutions for each arm and rule."""
    times, found = {}, {}
    for arm, robot in robots.items():
        kept: dict[str, sp.Solution] = {}
        contenders: dict[str, Callable[[], float]] = {
            key: partial(timed, robot, targets[arm], rule, kept, key)
            for key, rule in rules(robot).items()
        }
        times[arm] = measure.medians(measure.interleaved(contenders, rounds))
        found[arm] = kept
    return times, found


def table(head: str, rows: list[str], cell: Callable[[str, str], str]) -> str:
    """Return a table with a row for each rule and a column for each arm."""
    lines = [f"| {head} | " + " | ".join(ARMS) + " |", "|---" * (len(ARMS) + 1) + "|"]
    lines += [f"| {row} | " + " | ".join(cell(row, arm) for arm in ARMS) + " |" for row in rows]
    return "\n".join(lines)


def main(rounds: int, count: int) -> None:
    """Measure all rules; print the tables and write them to bench/results/."""
    measure.one_core()
    robots = {arm: sp.load(arm) for arm in ARMS}
    edges = {arm: boundary(robot, count // 20) for arm, robot in robots.items()}
    at_random = {arm: robot.fk(robot.random(count, seed=1)) for arm, robot in robots.items()}
    rows = list(rules(robots["panda"]))
    t, found = measured(robots, at_random, rounds)
    t0, found0 = measured(robots, {arm: edges[arm][1] for arm in ARMS}, rounds)
    t5, found5 = measured(robots, {arm: edges[arm][2] for arm in ARMS}, rounds)

    def random_cell(row: str, arm: str) -> str:
        one = found[arm][row]
        return f"{t[arm][row]:.1f} µs, {one.iterations.mean():.1f}, {one.success.mean():.2%}"

    def edge_cell(row: str, arm: str) -> str:
        far, off = apart(robots[arm].fk(found5[arm][row].q), edges[arm][1])
        closest = ((far < 1e-3) & (off < 1e-2)).mean()
        reached = found0[arm][row].success.mean()
        return f"{reached:.1%}, {t0[arm][row]:.0f} µs; {closest:.1%}, {t5[arm][row]:.0f} µs"

    text = "\n\n".join(
        [
            f"{count} random targets: µs and iterations per target, and fraction solved; one core, "
            f"medians of {rounds} rounds.",
            table("rule", rows, random_cell),
            f"{count // 20} targets T0 at the edge of the workspace: fraction solved, µs per "
            "target. The same targets moved 5 cm outward (T5): fraction within 1 mm and 0.01 rad "
            "of the closest pose, µs per target.",
            table("rule", rows, edge_cell),
            measure.provenance(("numpy", "supple")),
        ]
    )
    print(text)
    measure.write("damping_choice", text + "\n")


if __name__ == "__main__":
    numbers = [int(x) for x in sys.argv[1:]]
    main(*(numbers + [3, 2000][len(numbers) :]))
