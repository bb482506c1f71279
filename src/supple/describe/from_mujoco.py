"""Descriptions from models of MuJoCo that are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from supple.describe._mjcf_equality import Equality, TreeLoop
from supple.describe._mjcf_tree import Tree, TreeBody, TreeJoint
from supple.describe._pose import from_wxyz, translation
from supple.describe.description import Description
from supple.describe.mjcf import MjcfReader
from supple.describe.tips import with_tips
from supple.errors import InputError, MissingExtraError, short_repr

if TYPE_CHECKING:
    import mujoco

_KINDS = ("free", "ball", "slide", "hinge")  # in the order of mjtJoint


def from_mujoco(
    model: mujoco.MjModel,
    *,
    fixed: str | Iterable[str] = (),
    tips: str | Iterable[str] | None = None,
) -> Description:
    """Return the description of an `MjModel` of MuJoCo; see `Robot.from_mujoco`."""
    try:
        import mujoco
    except ModuleNotFoundError as error:
        raise MissingExtraError("mujoco", "reading a model of MuJoCo") from error
    if not isinstance(model, mujoco.MjModel):
        raise InputError(f"from_mujoco takes an MjModel; given: {short_repr(model)}")

    def named(kind: Any, index: int) -> str:
        return mujoco.mj_id2name(model, kind, index) or ""

    kinds = mujoco.mjtObj
    joints = [
        TreeJoint(
            # MjcfReader names the joints that have no name.
            name=named(kinds.mjOBJ_JOINT, i),
            kind=_KINDS[model.jnt_type[i]],
            anchor=model.jnt_pos[i].copy(),
            axis=model.jnt_axis[i].copy(),
            ref=float(model.qpos0[model.jnt_qposadr[i]]) if model.jnt_type[i] > 1 else 0.0,
            range=tuple(model.jnt_range[i].tolist()) if model.jnt_limited[i] else None,
        )
        for i in range(model.njnt)
    ]
    bodies = [
        TreeBody(
            named(kinds.mjOBJ_BODY, i),
            int(model.body_parentid[i]) if i else -1,
            from_wxyz(model.body_pos[i], model.body_quat[i]),
            [joint for joint, body in zip(joints, model.jnt_bodyid, strict=True) if body == i],
            masses=[
                (
                    float(model.body_mass[i]),
                    from_wxyz(model.body_ipos[i], model.body_iquat[i]),
                    np.diag(model.body_inertia[i]),
                )
            ],
            mocap=bool(model.body_mocapid[i] >= 0),
        )
        for i in range(model.nbody)
    ]
    for i in range(model.nsite):
        name = named(kinds.mjOBJ_SITE, i)
        if name:
            placement = from_wxyz(model.site_pos[i], model.site_quat[i])
            bodies[model.site_bodyid[i]].sites.append((name, placement))
    name = bytes(model.names).partition(b"\0")[0].decode()  # the model's name comes first
    loops = list(_loops(mujoco, model, bodies))
    reader = MjcfReader(Tree(bodies, [], [], loops, []), name or "MuJoCo Model", "the given model")
    names = [reader.joints[joint] for joint in joints]
    reader.tree.equalities.extend(
        Equality(
            names[model.eq_obj1id[i]],
            names[model.eq_obj2id[i]] if model.eq_obj2id[i] >= 0 else None,
            tuple(model.eq_data[i, :5].tolist()),
        )
        for i in range(model.neq)
        if model.eq_type[i] == mujoco.mjtEq.mjEQ_JOINT and model.eq_active0[i]
    )
    return with_tips(reader.description(fixed), tips)


def _loops(mujoco: Any, model: Any, bodies: list[TreeBody]) -> Iterator[TreeLoop]:
    """Yield the active connections and welds of a model, except connections of mocap bodies."""
    kinds: dict[int, Literal["point", "weld"]] = {
        int(mujoco.mjtEq.mjEQ_CONNECT): "point",
        int(mujoco.mjtEq.mjEQ_WELD): "weld",
    }
    for i in range(model.neq):
        kind = kinds.get(int(model.eq_type[i]))
        if kind is None or not model.eq_active0[i]:
            continue
        pair = (int(model.eq_obj1id[i]), int(model.eq_obj2id[i]))
        data = model.eq_data[i]
        if model.eq_objtype[i] == mujoco.mjtObj.mjOBJ_SITE:
            one, two = (from_wxyz(model.site_pos[j], model.site_quat[j]) for j in pair)
            poses = one, two
            pair = (int(model.site_bodyid[pair[0]]), int(model.site_bodyid[pair[1]]))
        elif kind == "point":
            poses = translation(*data[:3]), translation(*data[3:6])
        else:
            poses = from_wxyz(data[3:6], data[6:10]), translation(*data[:3])
        if not any(bodies[body].mocap for body in pair):
            name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_EQUALITY, i)
            yield TreeLoop(name or f"loop{i}", kind, pair, poses)
