"""Errors about attributes that a `Robot` does not have, for users who know other libraries."""

from __future__ import annotations

_LIMITS = "its position limits are lower and upper"
_NO_STATE = "a Robot has no state: configurations are arguments, as in robot.fk(q)"
_SOLVE = "supple.solve(robot, target) finds q for a pose"
# What to use instead of attributes of robots in other libraries.
_INSTEAD = {
    **dict.fromkeys(("fkine", "forward_kinematics", "forwardKinematics"), "it is called fk"),
    **dict.fromkeys(
        ("jacob0", "jacobe", "compute_jacobian"),
        'it is called jacobian: jacobian(q), or jacobian(q, axes="body")',
    ),
    **dict.fromkeys(("ikine", "ikine_LM", "ik_LM", "inverse_kinematics", "ik", "solve"), _SOLVE),
    **dict.fromkeys(("n", "njoints", "num_joints", "n_joints", "num_dof"), "it is called dof"),
    **dict.fromkeys(("qlim", "limits", "joint_limits"), _LIMITS),
    **dict.fromkeys(("q", "qd", "qpos", "data"), _NO_STATE),
    **dict.fromkeys(("joints", "links"), "they are in robot.description; see also joint_names"),
    **dict.fromkeys(("inertia", "mass_matrix", "crba"), "it is called inertia_matrix"),
    **dict.fromkeys(("gravload", "gravity"), "it is called gravity_torques"),
    **dict.fromkeys(("end_effector", "ee_links"), "the names of the end effectors are tips"),
}


def attribute_error(robot: object, name: str) -> AttributeError:
    """Return the error about an attribute that a robot does not have."""
    instead = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
    return AttributeError(f"a Robot has no attribute {name!r}{instead}", name=name, obj=robot)
