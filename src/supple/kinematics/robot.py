"""The robot: an immutable kinematic tree with named frames, and its kinematics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._core import AXES_BODY, AXES_WORLD
from supple.describe import Description, Frame
from supple.describe.weld import names_to_weld, welded
from supple.errors import InputError, short_repr, unknown
from supple.kinematics.arrays import FloatArray, names_of, number, pose
from supple.kinematics.chain import WORLD, FixedFrame, Matrix, chain
from supple.kinematics.environment import DEFAULT_THREADS, thread_count
from supple.kinematics.tree import Tree, tree

FrameNames: TypeAlias = str | Sequence[str] | None

ROWS = ("x", "y", "z", "rx", "ry", "rz")


class Robot:
    """An immutable kinematic tree: joints, limits, named frames; poses, Jacobians, J̇q̇.

    Made by `supple.load`, `urdf`, `mjcf` or `dh`; safe to share between threads.

    Coordinates q have shape (..., n): one for each joint that moves and does not mimic another,
    in `joint_names` order, [rad] or [m]. Leading axes are batch axes; batches run on SIMD lanes and
    threads. float32 in gives float32 out, everything else is computed in float64.

    A frame is the name of a link or of an extra frame. Where `frame` is left out it is the robot's
    end frame, or all of `tips` if it has several. One name gives results without a frame axis, a
    sequence of k names an axis of length k before the matrix axes.

    A twist is [v; w]: the velocity [m/s] of the frame's origin and the angular velocity [rad/s],
    relative to the world. `axes` says in whose axes it is written: "world", "body" (the frame's
    own) or the name of any frame. Kinematics are regular functions of q: nothing special happens at
    a singularity but that singular values vanish.

    Attributes:
        name: Of the robot.
        dof: Number of coordinates n.
        joint_names: Names of the n coordinates.
        lower, upper: Position limits (n,) [rad or m], infinite where there are none.
        max_speed: Speed limits (n,) [rad/s or m/s], infinite where there are none.
        prismatic: Which coordinates are lengths (n,), bool.
        frames: Names of all frames: links first, root first, then extra frames.
        tips: Names of the end frames.
        base: Pose (4, 4) of the root link in the world [m].
        description: The joints, links and frames it was made from, as plain data.
    """

    name: str
    dof: int
    joint_names: tuple[str, ...]
    lower: Matrix
    upper: Matrix
    max_speed: Matrix
    prismatic: NDArray[np.bool_]
    frames: tuple[str, ...]
    tips: tuple[str, ...]
    base: Matrix
    description: Description
    _tree: Tree
    _chains: dict[tuple[FrameNames, str, Sequence[str] | None], _core.Chain]
    _every: ClassVar[WeakSet[Robot]] = WeakSet()

    def __init__(self, description: Description, *, base: ArrayLike | None = None) -> None:
        """Stand the described robot at `base`: the pose (4, 4) of its root link in the world."""
        if not isinstance(description, Description):
            raise InputError(
                "Robot takes a Description (supple.load, urdf, mjcf and dh make robots of names, "
                f"files and tables); given: {short_repr(description)}"
            )
        placed = np.eye(4) if base is None else pose(base, "base")
        placed.flags.writeable = False
        folded = tree(description, placed)
        parents = {joint.parent for joint in description.joints}
        leaves = tuple(link for link in description.links if link not in parents)
        vars(self).update(
            name=description.name,
            dof=len(folded.names),
            joint_names=folded.names,
            lower=folded.lower,
            upper=folded.upper,
            max_speed=folded.max_speed,
            prismatic=folded.prismatic,
            frames=tuple(folded.frames),
            tips=description.tips or leaves,
            base=placed,
            description=description,
            _tree=folded,
            _chains={},
        )
        self._every.add(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Robot does not change: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Robot does not change: cannot delete {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_stand, (self.description, self.base))

    # ---- what it is ----------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Robot({self.name!r}: {self.dof} coordinates, {len(self.frames)} frames)"

    def summary(self) -> str:
        """A table of the coordinates with their limits, and the end frames."""
        width = max(len(name) for name in self.joint_names)
        lines = [f"{self.name}: {self.dof} coordinates, end frames: {', '.join(self.tips)}"]
        for name, slides, low, high, speed in zip(
            self.joint_names, self.prismatic, self.lower, self.upper, self.max_speed, strict=True
        ):
            unit = "m" if slides else "rad"
            kind = "prismatic" if slides else "revolute"
            limits = f"[{low:8.4f}, {high:8.4f}] {unit:<4}"
            lines.append(f"  {name:<{width}}  {kind:<9}  {limits} {speed:8.4f} {unit}/s")
        return "\n".join(lines)

    # ---- other robots from this one ------------------------------------------------------------

    def freeze(self, joints: str | Sequence[str] | Mapping[str, float]) -> Robot:
        """Return the robot with some joints fixed, and so with fewer coordinates.

        Args:
            joints: Names of joints to fix at zero, or a mapping from name to value [rad or m].
                Joints that mimic a frozen one stand still too. Limits do not bind these values.
        """
        values = dict(joints) if isinstance(joints, Mapping) else {}
        names = names_to_weld(values or joints, self.joint_names, what="joints")
        still = {name: number(values.get(name, 0.0), f"the value of {name!r}") for name in names}
        described = replace(self.description, joints=welded(self.description.joints, still))
        return Robot(described, base=self.base)

    def with_base(self, base: ArrayLike) -> Robot:
        """Return the robot standing at `base`: the pose (4, 4) of its root link in the world."""
        return Robot(self.description, base=pose(base, "base"))

    def with_frame(self, name: str, parent: str, placement: ArrayLike) -> Robot:
        """Return the robot with one more frame, at `placement` (4, 4) [m] in the frame `parent`."""
        if type(parent) is not str or parent not in self._tree.frames:
            raise unknown("frame", parent, self.frames)
        placed = pose(placement, "placement")
        for frame in self.description.frames:
            if frame.name == parent:
                parent, placed = frame.link, frame.placement @ placed
        frames = (*self.description.frames, Frame(name, parent, placed))
        return Robot(replace(self.description, frames=frames), base=self.base)

    def with_tool(
        self, placement: ArrayLike, *, parent: str | None = None, name: str = "tool"
    ) -> Robot:
        """Return the robot with a tool, whose frame becomes the end frame.

        Args:
            placement: Pose (4, 4) of the tool in the frame `parent` [m].
            parent: Where it is mounted; the end frame, if the robot has just one.
            name: Of the new frame.
        """
        if parent is None:
            if len(self.tips) != 1:
                raise InputError(f"parent= must name one of several end frames: {self.tips}")
            parent = self.tips[0]
        mounted = self.with_frame(name, parent, placement)
        tips = tuple(name if tip == parent else tip for tip in self.tips)
        if name not in tips:
            tips = (*tips, name)
        return Robot(replace(mounted.description, tips=tips), base=self.base)

    # ---- configurations ------------------------------------------------------------------------

    def neutral(self) -> Matrix:
        """Return the configuration (n,) nearest to zero inside the limits."""
        return np.clip(np.zeros(self.dof), self.lower, self.upper)

    def random(self, rng: np.random.Generator | int, *shape: int) -> Matrix:
        """Return uniform random configurations (*shape, n) inside the limits.

        Where a joint has no limits: angles in ±π [rad], lengths in ±1 [m]. Where it has only one:
        within 2π or 2 m of it.
        """
        try:
            share = np.random.default_rng(rng).random(size=(*shape, self.dof))
        except (TypeError, ValueError) as error:
            given = f"random({short_repr(rng)}, {', '.join(map(short_repr, shape))})"
            raise InputError(
                f"random takes a generator or a seed and sizes from 0 on; given: {given} ({error})"
            ) from None
        reach = np.where(self.prismatic, 1.0, np.pi)
        low = np.where(np.isfinite(self.upper), self.upper - 2 * reach, -reach)
        low = np.where(np.isfinite(self.lower), self.lower, low)
        high = np.where(np.isfinite(self.upper), self.upper, low + 2 * reach)
        return np.clip((1 - share) * low + share * high, low, high)

    # ---- kinematics ----------------------------------------------------------------------------

    def fk(
        self,
        q: ArrayLike,
        frame: FrameNames = None,
        *,
        threads: int | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the poses of frames in the world, (..., 4, 4) or (..., k, 4, 4) [m].

        Args:
            q: Coordinates (..., n) [rad or m].
            frame: A frame's name, or several; the end frames if left out.
            threads: How many to use at most; all cores if left out.
            out: An array of the result's shape and type to write into: large batches need no new
                memory then. If an error is raised, part of it may have been written.
        """
        try:  # as in `_chain`, without the cost of a call
            found = self._chains[frame, "world", None]
        except (KeyError, TypeError, ValueError):
            found = self._chain(frame)
        return found.poses(q, DEFAULT_THREADS if threads is None else thread_count(threads), out)

    def jacobian(
        self,
        q: ArrayLike,
        frame: FrameNames = None,
        *,
        axes: str = "world",
        threads: int | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the Jacobian, (..., 6, n) or (..., k, 6, n): twist = J q̇.

        It is Wampler's partial-velocity matrix: column j is the twist [v; w] of the frame at unit
        speed of coordinate j, [m or rad, per rad or m].

        Args:
            q: Coordinates (..., n) [rad or m].
            frame: A frame's name, or several; the end frames if left out.
            axes: "world", "body" or the name of any frame: the axes v and w are written in.
            threads: How many to use at most; all cores if left out.
            out: An array of the result's shape and type to write into.

        References:
            Wampler 1986, eq. (6), Theorems 1 and 2.
        """
        try:  # as in `_chain`, without the cost of a call
            found = self._chains[frame, axes, None]
        except (KeyError, TypeError, ValueError):
            found = self._chain(frame, axes)
        return found.jacobian(q, DEFAULT_THREADS if threads is None else thread_count(threads), out)

    def fk_jacobian(
        self,
        q: ArrayLike,
        frame: FrameNames = None,
        *,
        axes: str = "world",
        threads: int | None = None,
        out: tuple[FloatArray, FloatArray] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return what `fk` and `jacobian` return, in one pass; `out` is a pair of arrays."""
        try:  # as in `_chain`, without the cost of a call
            found = self._chains[frame, axes, None]
        except (KeyError, TypeError, ValueError):
            found = self._chain(frame, axes)
        count = DEFAULT_THREADS if threads is None else thread_count(threads)
        if out is None:
            return found.poses_and_jacobian(q, count)
        try:
            poses, jacobian = out
        except (TypeError, ValueError):
            raise InputError(
                f"out must be a pair of arrays (poses, jacobian); given: {short_repr(out)}"
            ) from None
        return found.poses_and_jacobian(q, count, poses, jacobian)

    def bias_acceleration(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        frame: FrameNames = None,
        *,
        axes: str = "world",
        threads: int | None = None,
    ) -> FloatArray:
        """Return J̇q̇, (..., 6) or (..., k, 6): what the twist's derivative is when q̈ = 0.

            d/dt twist = J q̈ + J̇ q̇

        In "world" axes this is the acceleration [m/s²] of the frame's origin and the angular
        acceleration [rad/s²]. In other axes it is the derivative of the twist's components there.

        Args:
            q: Coordinates (..., n) [rad or m].
            qd: Speeds (..., n) [rad/s or m/s], of the shape of q or broadcast to it.
            frame: A frame's name, or several; the end frames if left out.
            axes: "world", "body" or the name of any frame.
            threads: How many to use at most; all cores if left out.

        References:
            Wampler 1986, eq. (51): the forward pass of Newton and Euler without its q̈ terms.
        """
        return self._chain(frame, axes).bias_acceleration(q, qd, thread_count(threads))

    def singular_values(
        self,
        q: ArrayLike,
        frame: FrameNames = None,
        *,
        rows: Sequence[str] | None = None,
        axes: str = "world",
        threads: int | None = None,
    ) -> FloatArray:
        """Return the singular values of the Jacobian, (..., min(m, n)), largest first.

        With several frames, of their Jacobians stacked. Zero where a direction of the task is lost.
        Metres and radians mix in them: they depend on the unit of length.

        Args:
            q: Coordinates (..., n) [rad or m].
            frame: A frame's name, or several; the end frames if left out.
            rows: Which of "x", "y", "z", "rx", "ry", "rz" to take of each frame; all if left out.
            axes: The axes those rows are in: "world", "body" or the name of any frame.
            threads: How many to use at most; all cores if left out.
        """
        return self._chain(frame, axes, rows).singular_values(q, thread_count(threads))

    def manipulability(
        self,
        q: ArrayLike,
        frame: FrameNames = None,
        *,
        rows: Sequence[str] | None = None,
        axes: str = "world",
        threads: int | None = None,
    ) -> FloatArray | np.floating[Any]:
        """Return Yoshikawa's manipulability w, (...): the product of the singular values.

            w = sqrt(det(J Jᵀ))     or sqrt(det(Jᵀ J)), where J has more rows than columns

        Zero at a singularity. Arguments as in `singular_values`.
        """
        w = self._chain(frame, axes, rows).manipulability(q, thread_count(threads))
        return w if w.ndim else w[()]

    def operations(self, frame: FrameNames = None) -> tuple[int, int]:
        """Return how many multiplications and additions one `fk_jacobian` takes.

        Counted in the kernel itself, on numbers that keep a tally. A fused multiply-add is one of
        each; sines, cosines and signs are not counted.

        Args:
            frame: A frame's name, or several; the end frames if left out.
        """
        return self._chain(frame).operations()

    # ---- chains --------------------------------------------------------------------------------

    def _chain(
        self, frame: FrameNames, axes: str = "world", rows: Sequence[str] | None = None
    ) -> _core.Chain:
        try:
            return self._chains[frame, axes, rows]
        except (KeyError, TypeError, ValueError):  # not met before, or a list, which is no key
            return self._new_chain(frame, axes, rows)

    def _new_chain(self, frame: FrameNames, axes: str, rows: Sequence[str] | None) -> _core.Chain:
        names = self.tips if frame is None else names_of(frame, "frame")
        stack = len(self.tips) > 1 if frame is None else not isinstance(frame, str)
        picked = ROWS if rows is None else names_of(rows, "rows")
        for row in picked:
            if row not in ROWS:
                raise unknown("row", row, ROWS)
        if not isinstance(axes, str):
            raise InputError(f"axes must be the name of a frame; given: {short_repr(axes)}")
        which = None if frame is None else names if stack else names[0]
        key = (which, axes, None if rows is None else picked)
        made = self._chains.get(key)
        if made is None:
            known = self._tree.frames
            for name in names:
                if name not in known:
                    raise unknown("frame", name, self.frames)
            if axes not in ("world", "body") and axes not in known:
                raise unknown("frame for axes=", axes, ("world", "body", *self.frames))
            made = chain(
                self._tree.joints,
                [known[name] for name in names],
                coordinates=self.dof,
                stack=stack,
                axes={"world": AXES_WORLD, "body": AXES_BODY}.get(axes) or known[axes],
                rows=[6 * k + ROWS.index(row) for k in range(len(names)) for row in picked],
            )
            self._chains[key] = made
        return made


def check_robot(given: object) -> None:
    """Refuse what is no robot."""
    if not isinstance(given, Robot):
        raise InputError(f"robot must be a Robot; given: {short_repr(given)}")


def chain_of(robot: Robot, frames: Sequence[FixedFrame]) -> _core.Chain:
    """The kernel's chain for frames anywhere on a robot: those of `placed`, perhaps turned."""
    return chain(
        robot._tree.joints, frames, coordinates=robot.dof, stack=True, axes=AXES_WORLD, rows=[0]
    )


def placed(robot: Robot, frame: str, what: str = "frame") -> FixedFrame:
    """Where a frame sits on a robot.

    Raises:
        UnknownNameError: the robot has no such frame; lists those it has.
    """
    found = robot._tree.frames.get(frame) if type(frame) is str else None
    if found is None:
        raise unknown(what, frame, robot.frames)
    return found


def ancestors(robot: Robot, frame: str) -> dict[int, int]:
    """The joints that carry a frame, each with its coordinate."""
    joints, j = robot._tree.joints, placed(robot, frame).joint
    found = {}
    while j != WORLD:
        found[j] = joints[j].coordinate
        j = joints[j].parent
    return found


def may_turn(robot: Robot) -> NDArray[np.bool_]:
    """Which coordinates (n,) are angles whose whole turns leave every frame where it is."""
    found = ~robot.prismatic
    for joint in robot._tree.joints:
        if joint.prismatic or joint.scale != round(joint.scale):  # one that mimics it
            found[joint.coordinate] = False
    return found


def only_tip(robot: Robot) -> str:
    """The end frame of a robot that has just one.

    Raises:
        InputError: it has several; lists them.
    """
    if len(robot.tips) != 1:
        raise InputError(
            f"frame must name a frame: {robot.name} has several end frames, "
            f"{', '.join(map(repr, robot.tips))}; given: none"
        )
    return robot.tips[0]


def _stand(description: Description, base: Matrix) -> Robot:
    return Robot(description, base=base)
