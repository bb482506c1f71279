"""Texts print errors in units that suit their sizes, and only errors that a task has."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each
from solving import solve
from supple.motion.unit_text import error_text, joint_unit

PANDA = supple.load("panda")
T = PANDA.fk(PANDA.neutral())


@each(
    ("position", "rotation", "text"),
    [
        (0.0123, 0.0045, "12.3 mm and 4.5 mrad"),
        (646.8698, 1.57, "646.9 m and 1.57 rad"),
        (1.0, 0.9996, "1 m and 999.6 mrad"),
        (0.0123, 0.0, "12.3 mm"),
        (0.0, 2.0, "2 rad"),
        (0.0, 0.0, "0"),
    ],
)
def test_errors_are_printed_in_units_that_suit_their_size(
    position: float, rotation: float, text: str
) -> None:
    assert error_text(position, rotation) == text


def test_the_printed_unit_of_joints_is_rad_or_m_or_both() -> None:
    slide = supple.dh([(0.0, 0.0, 0.0, 0.0)], kinds="P")
    mixed = supple.dh([(0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)], kinds="PR")
    assert [joint_unit(robot) for robot in (PANDA, slide, mixed)] == ["rad", "m", "rad or m"]


@pytest.mark.parametrize("target", [[0.4, 0.1, 0.5], [640.0, 0.1, 0.5]])
def test_the_text_of_a_position_solution_has_no_rotation_error(target: list[float]) -> None:
    found = solve(PANDA, target, tasks=supple.PositionTask(), explain=True)
    assert "rad" not in str(found).splitlines()[0]
    assert "mrad" not in str(found)
    assert "rad" in str(solve(PANDA, supple.pose(target, rpy=[np.pi, 0, 0])))


def test_a_solution_with_zero_error_is_printed_as_such() -> None:
    found = supple.Solution(PANDA.neutral(), supple.SolveStatus.CONVERGED, 0.0, 0.0, 4, 0)
    assert str(found) == "converged in 4 iterations, no error"


def test_errors_of_a_motion_are_printed_in_millimeters() -> None:
    goal = T.copy()
    goal[0, 3] += 0.1
    motion = supple.simulate(PANDA, PANDA.neutral(), target=goal, dt=0.01, duration=0.2)
    p, r = (np.linalg.norm(motion.error[:, rows], axis=1) for rows in (slice(3), slice(3, 6)))
    last = f"{1e3 * p[-1]:.3g} mm and {1e3 * r[-1]:.3g} mrad at the end"
    expected = f"  error: at most {1e3 * p.max():.3g} mm and {1e3 * r.max():.3g} mrad, {last}"
    assert expected in str(motion).splitlines()


def test_errors_of_a_posture_are_printed_as_a_norm() -> None:
    q = PANDA.neutral()
    posture = supple.PostureTask()
    motion = supple.simulate(PANDA, q, target=q + 0.1, tasks=posture, dt=0.01, duration=0.2)
    errors = np.linalg.norm(motion.error, axis=1)
    assert f"  error: at most {errors.max():.3g}, {errors[-1]:.3g} at the end" in str(motion)
