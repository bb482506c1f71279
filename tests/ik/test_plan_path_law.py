"""Laws of `plan_path` over robots, tasks and paths drawn from a seed.

Every path has a result: configurations and splines without NaN, inside the limits everywhere, with
the reported deviation, and a reason where the path ends early. SUPPLE_PATHS sets the number of
paths (default 24).
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.interpolate import PPoly

import supple as sp
from drawn_paths import Drawn
from generated import seeds
from solving import solve
from supple.tasks.layout import compile_tasks

Array = np.ndarray

PATHS = int(os.environ.get("SUPPLE_PATHS", "24"))
ROUNDING = 1e-12
# Seeds, among 10^4, with paths on which errors are likely: a solution of a misaligned arm that is
# off the path, a target within the tolerances that is called out of reach, a joint that turns
# beyond its limit.
HARD = (406, 623, 1491, 4069, 9307)
PARTS = 6  # number of tests among which the paths are divided


def errors(case: Drawn, q: Array, x: Array) -> Array:
    """Return the largest position and rotation errors (2,) of configurations q at places x of the
    path.
    """
    worst = np.zeros(2)
    for task, target in zip(case.tasks, case.between(x), strict=True):
        layout = compile_tasks(case.robot, (task,))
        e = layout.error(q, layout.targets((target,))) / layout.weights
        turning = isinstance(task, sp.AxisTask | sp.OrientationTask)
        turns = np.array([turning or row.split(".")[-1].startswith("r") for row in layout.rows])
        for k, rows in enumerate((e[:, ~turns], e[:, turns])):
            worst[k] = max(worst[k], np.linalg.norm(rows, axis=1).max(initial=0.0))
    return worst


def extremes(piece: sp.paths.JointPath) -> tuple[Array, Array]:
    """Return the least and the largest value of each joint of a path, from SciPy's roots of q'."""
    low, high = piece.q.min(axis=0), piece.q.max(axis=0)
    if len(piece) == 1:
        return low, high
    for j, each in enumerate(np.moveaxis(piece.spline.coefficients, 2, 0)):
        curve = PPoly(each[::-1], piece.spline.s)
        at = curve.derivative().roots(extrapolate=False)
        values = curve(at[np.isfinite(at)])
        low[j], high[j] = values.min(initial=low[j]), values.max(initial=high[j])
    return low, high


def complaints(case: Drawn, found: sp.paths.PlannedPath) -> list[str]:
    """Return descriptions of the laws that a result breaks."""
    robot, said = case.robot, []
    lower, upper = robot.lower, robot.upper
    there = np.isfinite(found.q).all(axis=1)
    if found.success != (found.obstacle is None) or (found.success and not there.all()):
        said.append("success and obstacle disagree")
    if not found.success and there.all():
        said.append("an obstacle at no target")
    if not (there | np.isnan(found.q).all(axis=1)).all():
        said.append("a configuration is partly NaN")
    if bool(found.pieces) != bool(there.any()):
        said.append("targets without pieces")
    reported = np.array([found.position_deviation, found.rotation_deviation])
    if (reported > case.tolerances).any():
        said.append(f"reported deviations {reported} above the tolerances")
    for piece in found.pieces:
        x = np.linspace(piece.s[0], piece.s[-1], 10 * len(piece) + 1)
        q = piece.at(x)
        if not np.isfinite(q).all():
            said.append("NaN")
            continue
        if (q < lower).any() or (q > upper).any():
            said.append("outside the limits at a sample")
        low, high = extremes(piece)
        slack = 1e-12 * np.maximum(1, np.maximum(np.abs(low), np.abs(high)))
        if (low < lower - slack).any() or (high > upper + slack).any():
            said.append(
                f"outside the limits by {max((lower - low).max(), (high - upper).max()):.1e}"
            )
        off = errors(case, q, x)
        if (off > reported + ROUNDING * np.array([case.size, 1])).any():
            said.append(f"deviations {off}, reported {reported}")
    if there.any():
        off = errors(case, found.q[there], case.places[there])
        if (off > reported + ROUNDING * np.array([case.size, 1])).any():
            said.append(f"errors {off} at the targets, reported {reported}")
    outside = "q0" in case.options and bool(
        ((case.q[0] < lower - 1e-6 * case.size) | (case.q[0] > upper + 1e-6 * case.size)).any()
    )
    if found.pieces and len(found.reconfigurations) - len(found.pieces) + 1 not in (0, outside):
        said.append("reconfigurations do not fit the pieces")
    for change in found.reconfigurations:
        if not change.reason or not np.isfinite([change.before, change.after]).all():
            said.append(f"no reason for a change at {change.at}")
    if found.success and case.timed:
        limits = sp.Limits.for_robot(robot, max_speed=1.0, max_acceleration=10.0)
        motion = found.timed(limits, dt=0.01).q
        out = ((motion < lower) | (motion > upper)).any(axis=1)
        if not np.isfinite(motion).all() or out[int(np.argmin(out)) :].any():
            said.append("the timed motion leaves the limits")
    if found.obstacle is not None and "out of reach" in found.obstacle:
        first = int(there.sum())
        target = [each[first] for each in case.targets]
        position, rotation = 0.01 * case.tolerances
        again = solve(
            robot,
            target,
            tasks=case.tasks,
            position_tolerance=position,
            rotation_tolerance=rotation,
        )
        reachable = case.kind in ("joints", "closed", "repeated", "folds")
        if reachable or again.success:
            said.append(f"a reachable target is called out of reach: {found.obstacle}")
    return said


@pytest.mark.parametrize("part", range(PARTS))
def test_results_of_plan_path_for_random_paths_obey_all_laws(part: int) -> None:
    broken = {}
    for seed in (*HARD[part::PARTS], *seeds(PATHS)[part::PARTS]):
        case = Drawn(seed)
        found = case.plan_path()
        if said := complaints(case, found):
            broken[seed] = said
    assert not broken, broken
