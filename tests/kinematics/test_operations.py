"""The counts of `Robot.operations` are the costs per joint in docs/kernel.md."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each

RIGHT, ASKEW = np.pi / 2, 0.7


def costs(n: int, twist: float) -> np.ndarray:
    """Return the multiplications and additions for the poses and Jacobian of an arm with n equal
    links and a tool.
    """
    rows = [(0.4, twist, 0.3, 0.0)] * n
    tool = np.eye(4)
    tool[:3, 3] = 0.1, 0.2, 0.3
    return np.array(supple.dh(rows).with_tool(tool).operations())


@each(
    ("twist", "each"),
    [
        # Products: offset 2 × 3, twist 6 (by ±1), rotation 12, column 6. Sums: offset 6, rotation
        # 6, column 3 + 3.
        (RIGHT, (6 + 6 + 12 + 6, 6 + 6 + 6)),
        # A twist by any other angle takes 12 products and 6 sums.
        (ASKEW, (6 + 12 + 12 + 6, 6 + 6 + 6 + 6)),
    ],
)
@each("n", [2, 3, 6])
def test_a_revolute_joint_costs_the_documented_operations(
    n: int, twist: float, each: tuple[int, int]
) -> None:
    assert tuple(costs(n + 1, twist) - costs(n, twist)) == each


def test_operations_grow_with_the_number_of_frames() -> None:
    robot = supple.load("double_y")
    one, two = (np.array(robot.operations(frames)) for frames in ("E0", ["E0", "E1"]))
    assert (two > one).all()
    assert (np.array(robot.operations()) > two).all()


def test_operations_of_an_unknown_frame_are_refused() -> None:
    with pytest.raises(supple.errors.UnknownNameError, match="elbow"):
        supple.load("panda").operations("elbow")
