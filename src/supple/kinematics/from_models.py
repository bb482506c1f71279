"""Robots from models of MuJoCo and Pinocchio in memory: class methods of `Robot`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from supple import describe

if TYPE_CHECKING:
    import mujoco
    import pinocchio

    from supple.kinematics.robot import Robot


def from_mujoco(
    cls: type[Robot],
    model: mujoco.MjModel,
    *,
    fixed: str | Iterable[str] = (),
    tips: str | Iterable[str] | None = None,
) -> Robot:
    """Return a robot from an `MjModel` of MuJoCo.

    Joints, names and q are those of `supple.mjcf`; masses are those that MuJoCo has computed.
    Shapes are left out.

    Args:
        model: The model.
        fixed: Names of joints to weld at qpos0; joints that mimic them are welded too.
        tips: Name or names of the end effectors (any bodies or sites). By default one frame at the
            end of each branch of joints: see `supple.describe.tips`.

    Raises:
        InputError: The argument is not an `MjModel`.
        DescriptionError: The model has no joint that moves.
        MissingExtraError: MuJoCo is not installed.
        UnknownNameError: A name in `fixed` or `tips` does not exist.
    """
    return cls(describe.from_mujoco(model, fixed=fixed, tips=tips))


def from_pinocchio(
    cls: type[Robot],
    model: pinocchio.Model,
    *,
    fixed: str | Iterable[str] = (),
    tips: str | Iterable[str] | None = None,
) -> Robot:
    """Return a robot from a `pinocchio.Model`.

    Frames of type BODY are links, those of types OP_FRAME and SENSOR are extra frames. A joint
    without a body at its frame gets a link with the joint's name. The root is "universe" unless
    exactly one body is attached to the universe, at its origin. The inertia of a joint, to which
    Pinocchio adds the inertias of bodies that are fixed to it, is assigned to the joint's first
    link. Mimic joints are read as such.

    q may differ from Pinocchio's: angles of continuous and planar joints are one number instead of
    cosine and sine, quaternions are (w, x, y, z) instead of (x, y, z, w), and linear velocities of
    floating and planar joints are in the axes of the joint, not of the body. Joints have the order
    of the tree, which is also the order in the model if the model was made from a file.

    Args:
        model: The model.
        fixed: Names of joints to weld at zero; joints that mimic them are welded too.
        tips: Name or names of the end effectors (any links or frames). By default one frame at the
            end of each branch of joints: see `supple.describe.tips`.

    Raises:
        InputError: The argument is not a `pinocchio.Model`.
        DescriptionError: A joint is of another type than revolute, prismatic, helical, spherical,
            planar, free or mimic.
        MissingExtraError: Pinocchio is not installed.
        UnknownNameError: A name in `fixed` or `tips` does not exist.
    """
    return cls(describe.from_pinocchio(model, fixed=fixed, tips=tips))
