"""Measure the cost of every step relative to plain damped least squares, for J (6, 7).

python bench/steps.py [rounds]

A step is timed in three ways: alone, on a batch of (J, e); in a batch with kinematics
(`step.velocities`); and in a `Servo` that is called from Python, one update at a time. Rounds are
interleaved on one core. Results are ratios to `DLS(Constant)`: medians over the rounds of the ratio
within a round. Thresholds are such that a rule acts on about half of the random configurations.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import measure
import supple as sp

PAIRS = 40_000  # number of pairs (J, e) in a batch
CALLS = 400  # number of calls of a Servo in a round
PLAIN = "DLS(Constant)"
LIMIT = (
    "SDLS, and TruncatedSVD where it truncates, need all singular vectors. Plain DLS takes 287 "
    "multiplications for 6 × 7; the symmetric QR algorithm with eigenvectors takes about 9n³ "
    "operations (Golub & Van Loan, section 8.3), 972 multiplications, and J Jᵀ and UᵀJ 399 more: "
    "4.8 times as much; we know of no method that takes less than twice. TrackingBound and the "
    "rules of Mayorga damp little near a singularity, or divide by σ_min: where rounding errors of "
    "J Jᵀ would be visible they compute an SVD, and the other lanes of the SIMD vector wait for it."
)


def steps(J: np.ndarray, e: np.ndarray) -> dict[str, Any]:
    """Return the steps by name; a threshold is the median of the quantity that it limits."""
    d, s = sp.damping, sp.steps
    sigma = np.linalg.svd(J, compute_uv=False)
    least = float(np.median(sigma[:, -1]))
    w = float(np.median(sigma.prod(axis=1)))
    free = np.linalg.norm(s.Pseudoinverse()(sp.Linearization(J, e)), axis=1)
    gain = 1 / least
    rules = {
        "Manipulability": d.Manipulability(0.01, w),
        "ManipulabilityRate": d.ManipulabilityRate(0.01, 0.9, 0.01, w),
        "ErrorDamped": d.ErrorDamped(0.01),
        "SpeedBound": d.SpeedBound(gain),
        "TrackingBound": d.TrackingBound(0.1),
        "ConditionBound": d.ConditionBound(400.0),
        "Region": d.Region(0.01, least),
        "MayorgaCondition": d.MayorgaCondition(
            0.01, float(np.median((sigma[:, 0] / sigma[:, -1]) ** 2)), 0.04
        ),
        "MayorgaRank": d.MayorgaRank(0.01, 0.04),
        "Curvature": d.Curvature(least**2 / float(np.median(np.linalg.norm(e, axis=1)))),
        "Optimal": d.Optimal(float(np.median(free))),
        "ResidualOptimal": d.ResidualOptimal(0.1),
    }
    return {
        PLAIN: sp.DLS(d.Constant(0.01)),
        "Transpose": s.Transpose(),
        "Pseudoinverse": s.Pseudoinverse(),
        "TruncatedSVD": s.TruncatedSVD(float(np.median(sigma[:, -1] / sigma[:, 0]))),
        **{f"DLS({name})": sp.DLS(rule) for name, rule in rules.items()},
        "EstimatedDLS(SpeedBound)": s.EstimatedDLS(d.SpeedBound(gain)),
        "NumericalFilter": s.NumericalFilter(gain),
        "NumericalFilter, printed": s.NumericalFilter(gain, printed=True),
        "SDLS": s.SDLS(),
    }


def timed(work: Callable[[], object], count: int) -> Callable[[], float]:
    """Return a function that runs the work and returns its time per item [µs]."""

    def measured() -> float:
        begin = time.process_time()
        work()
        return (time.process_time() - begin) / count * 1e6

    return measured


def updates(robot: sp.Robot, step: Any, q: np.ndarray, twists: np.ndarray) -> Callable[[], object]:
    """Return a function that calls a Servo once for each configuration and twist."""
    servo = sp.Servo(robot, sp.PoseTask(), dt=0.001, step=step, limits=sp.Limits.none(robot))
    out = q[0].copy()

    def work() -> None:
        for at, twist in zip(q, twists, strict=True):
            servo(at, twist, out=out)

    return work


def ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Return the ratio of each time to that of plain DLS, as the median over the rounds."""
    return {
        name: statistics.median(a / b for a, b in zip(values, times[PLAIN], strict=True))
        for name, values in times.items()
    }


def main(rounds: int) -> None:
    """Time each step alone, with kinematics and in a Servo; print and save the table."""
    measure.one_core()
    robot = sp.load("panda")
    q = robot.random(PAIRS, seed=0)
    J = np.ascontiguousarray(robot.jacobian(q))
    e = np.random.default_rng(1).standard_normal((PAIRS, 6))
    every = steps(J, e)
    # A slow motion between two random configurations suits steps that keep values between calls.
    along = np.linspace(0, 1, CALLS)[:, None]
    path = (1 - along) * q[3] + along * q[4]
    many = sp.Linearization(J, e)
    alone, batch, servo = {}, {}, {}
    for name, step in every.items():
        servo[name] = timed(updates(robot, step, path, e[:CALLS]), CALLS)
        if hasattr(step, "velocities"):
            alone[name] = timed(lambda step=step: step(many), PAIRS)
            batch[name] = timed(
                lambda step=step: step.velocities(robot, q, e, sp.PoseTask(), threads=1), PAIRS
            )
    columns = [measure.interleaved(each, rounds) for each in (alone, batch, servo)]
    middles, relative = [measure.medians(x) for x in columns], [ratios(x) for x in columns]
    lines = [
        f"J of 6 × 7, {PAIRS} pairs or {CALLS} updates, one core, {rounds} interleaved rounds: "
        "medians of the times [µs] and of their ratios to plain DLS within a round.",
        "",
        "| step | alone | | with kinematics | | `Servo` from Python | |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in every:
        cells = [
            f"{found[name]:.3g} | {ratio[name]:.2f}" if name in found else "– | –"
            for found, ratio in zip(middles, relative, strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", LIMIT]
    text = "\n".join([*lines, "", measure.provenance(["numpy", "supple"]), ""])
    print(text)
    if "--print" not in sys.argv:
        print("written to", measure.write("steps", text))


if __name__ == "__main__":
    main(int(next((x for x in sys.argv[1:] if x.isdigit()), 15)))
