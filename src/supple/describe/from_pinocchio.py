"""Descriptions from models of Pinocchio that are in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from supple.describe._pose import Array
from supple.describe._validate import MAX_SIZE
from supple.describe.description import Description
from supple.describe.inertia import Inertia
from supple.describe.joint import Frame, Joint, Kind, Mimic
from supple.describe.tips import with_tips
from supple.describe.weld import names_to_weld, welded
from supple.errors import DescriptionError, InputError, MissingExtraError, short_repr

if TYPE_CHECKING:
    import pinocchio

_SEVERAL: dict[str, Kind] = {  # kinds with several degrees of freedom
    "JointModelFreeFlyer": "floating",
    "JointModelSpherical": "ball",
    "JointModelPlanar": "planar",
}


def from_pinocchio(
    model: pinocchio.Model,
    *,
    fixed: str | Iterable[str] = (),
    tips: str | Iterable[str] | None = None,
) -> Description:
    """Return the description of a `pinocchio.Model`; see `Robot.from_pinocchio`."""
    try:
        import pinocchio
    except ModuleNotFoundError as error:
        raise MissingExtraError("pinocchio", "reading a model of Pinocchio") from error
    if not isinstance(model, pinocchio.Model):
        raise InputError(f"from_pinocchio takes a pinocchio.Model; given: {short_repr(model)}")
    reader = _Reader(model, pinocchio)
    joints, frames, inertias = reader.joints(), reader.frames(), reader.inertias()
    weld = names_to_weld(fixed, [joint.name for joint in joints])
    still = welded(joints, dict.fromkeys(weld, 0.0))
    made = Description(model.name or "robot", still, frames=frames, inertias=inertias)
    return with_tips(made, tips)


class _Motion(NamedTuple):
    """Kind, axis and pitch of a joint."""

    kind: Kind
    axis: Array
    pitch: float = 0.0


class _Reader:
    """The parts of a model; `links` has the name of the link at the frame of each joint."""

    def __init__(self, model: Any, pinocchio: Any) -> None:
        self.model, self.pinocchio = model, pinocchio
        self.q = pinocchio.neutral(model)
        types = pinocchio.FrameType
        self.bodies = [frame for frame in model.frames if frame.type == types.BODY]
        self.points = [f for f in model.frames if f.type in (types.OP_FRAME, types.SENSOR)]
        taken = {frame.name for frame in (*self.bodies, *self.points)}
        self.links: list[str] = []
        for i in range(model.njoints):
            here = [
                frame.name
                for frame in self.bodies
                if frame.parentJoint == i and (frame.placement.homogeneous == np.eye(4)).all()
            ]
            rooted = [f for f in self.bodies if f.parentJoint == 0 and f.parentFrame == 0]
            if not here or (i == 0 and len(rooted) > 1):
                here = [_unused(model.names[i], taken)]
                taken.add(here[0])
            self.links.append(here[0])
        leaders = zip(model.mimicking_joints, model.mimicked_joints, strict=True)
        self.leaders = {int(one): int(other) for one, other in leaders}

    def joints(self) -> list[Joint]:
        """Return all joints, fixed ones included."""
        names = list(self.model.names)
        made = [self._joint(i) for i in range(1, len(names))]
        taken = set(names)
        for body in self.bodies:
            above = self.links[body.parentJoint]
            if body.name == above:
                continue
            joint = self.model.frames[body.parentFrame]
            fixed = joint.type == self.pinocchio.FrameType.FIXED_JOINT and body.parentFrame != 0
            name = _unused(joint.name if fixed else f"{body.name}/fixed", taken)
            taken.add(name)
            made.append(Joint(name, "fixed", above, body.name, body.placement.homogeneous))
        return made

    def frames(self) -> tuple[Frame, ...]:
        """Return the frames that are not links."""
        links = {*self.links, *(body.name for body in self.bodies)}
        return tuple(
            Frame(each.name, self.links[each.parentJoint], each.placement.homogeneous)
            for each in self.points
            if each.name not in links
        )

    def inertias(self) -> tuple[Inertia, ...]:
        """Return the inertia of each joint that has one."""
        return tuple(
            Inertia(link, each.mass, each.lever, each.inertia)
            for link, each in zip(self.links, self.model.inertias, strict=True)
            if each.mass != 0 or each.inertia.any()
        )

    def _joint(self, i: int) -> Joint:
        model, joint = self.model, self.model.joints[i]
        parent = self.links[model.parents[i]]
        origin = model.jointPlacements[i].homogeneous
        made = Joint(model.names[i], "fixed", parent, self.links[i], origin)
        if i in self.leaders:
            mimic = joint.extract()
            scale, offset = float(mimic.scaling), float(mimic.offset)
            if scale == 0:  # the axis is unknown: pinocchio only has scale * axis
                return replace(made, origin=origin @ self._data(i).M.homogeneous)
            kind, axis, pitch = self._motion(i, scale)
            follows = Mimic(model.names[self.leaders[i]], scale, offset)
            return replace(made, kind=kind, axis=axis, pitch=pitch, mimic=follows)
        kind, axis, pitch = self._motion(i, 1.0)
        if kind in _SEVERAL.values():
            return replace(made, kind=kind)
        if joint.nq == 2:  # cosine and sine
            return replace(made, kind="continuous", axis=axis, **self._rates(joint.idx_v))
        lower, upper = model.lowerPositionLimit, model.upperPositionLimit
        return replace(
            made,
            kind=kind,
            axis=axis,
            pitch=pitch,
            lower=float(lower[joint.idx_q]),
            upper=float(upper[joint.idx_q]),
            **self._rates(joint.idx_v),
        )

    def _rates(self, index: int) -> dict[str, Any]:
        speed = float(self.model.velocityLimit[index])
        return {"max_speed": speed if 0 < speed <= MAX_SIZE else math.inf}

    def _data(self, i: int) -> Any:
        joint = self.model.joints[i]
        data = joint.createData()
        joint.calc(data, self.q)
        return data

    def _motion(self, i: int, scale: float) -> _Motion:
        """Return the motion of a joint; for one degree of freedom, from its twist at unit speed."""
        joint = self.model.joints[i]
        name = joint.shortname()
        if name in _SEVERAL:
            return _Motion(_SEVERAL[name], np.array((0.0, 0.0, 1.0)))
        if joint.nv != 1 and i not in self.leaders:
            raise DescriptionError(
                f"joint {short_repr(self.model.names[i])} is a {name}, which supple does not read; "
                "build the model from several joints of one degree of freedom."
            )
        v, w = np.split(np.array(self._data(i).S, dtype=np.float64).ravel() / scale, 2)
        if not w.any():
            return _Motion("prismatic", v)
        return _Motion("screw" if v.any() else "revolute", w, float(v @ w))


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
