"""The robot: an immutable kinematic tree with named frames, and its kinematics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._core import AXES_BODY, AXES_SPATIAL, AXES_WORLD
from supple.describe import Description, Frame
from supple.describe.tips import with_tips
from supple.describe.weld import names_to_weld, welded
from supple.errors import InputError, join_names, short_repr, unknown_name_error
from supple.kinematics import dynamics
from supple.kinematics.arrays import FloatArray, coordinates, finite_array, names_of, number, pose
from supple.kinematics.chain import WORLD, FixedFrame, Matrix, chain
from supple.kinematics.environment import DEFAULT_THREADS, thread_count
from supple.kinematics.frozen import FullConfiguration
from supple.kinematics.joint_limits import JointValues, joint_values, moved_limits, with_limits
from supple.kinematics.orientation import check_parameters, rate_map
from supple.kinematics.tree import Tree, tree

FrameNames: TypeAlias = str | Sequence[str] | None

ROWS = ("x", "y", "z", "rx", "ry", "rz")
AXES = {"world": AXES_WORLD, "body": AXES_BODY, "spatial": AXES_SPATIAL}  # besides frames


class Robot:
    """An immutable kinematic tree: joints, limits, named frames; poses and Jacobians.

    Made by `supple.load`, `urdf`, `mjcf` or `dh`; safe to share between threads.

    A configuration q has shape (..., n): one position [rad or m] for each joint that moves and does
    not mimic another one, in the order of `joint_names`. Leading axes are batch axes; batches run
    on SIMD lanes and threads. float32 in gives float32 out; every other type is computed in
    float64.

    A frame is the name of a link or of an extra frame. If `frame` is omitted it is the robot's end
    effector, or all of `tips` if there are several. One name gives results without a frame axis, a
    sequence of k names an axis of length k before the matrix axes.

    A twist is [v; w]: the velocity [m/s] of the frame's origin and the angular velocity [rad/s],
    relative to the world. `axes` selects the axes in which it is expressed: "world", "body" (the
    frame's own) or the name of any frame. With "spatial" it is in world axes and v is the velocity
    of the point of the frame's body that is at the world's origin. (World axes at the frame's
    origin are also called hybrid coordinates.)

    Attributes:
        name: Name of the robot.
        dof: Number of degrees of freedom n.
        joint_names: Names of the n joints of a configuration.
        lower, upper: Position limits (n,) [rad or m]; infinite if there are none.
        max_speed: Speed limits (n,) [rad/s or m/s]; infinite if unknown.
        prismatic: Mask (n,) of the joints whose position is a length, bool. A screw joint's is an
            angle.
        frames: Names of all frames: links from the root on, then extra frames.
        tips: Names of the end effectors.
        base: Pose (4, 4) of the root link in the world [m].
        frozen: Names and positions [rad or m] of the joints fixed by `freeze`.
        description: Joints, links and frames as plain data.
    """

    if TYPE_CHECKING:  # so that help() does not list them a second time
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
        frozen: Mapping[str, float]
        description: Description
        _full: FullConfiguration
        _tree: Tree
        _chains: dict[tuple[FrameNames, str, Sequence[str] | None], _core.Chain]

    def __init__(self, description: Description, *, base: ArrayLike | None = None) -> None:
        """Place a description in the world.

        Args:
            description: Joints, links and frames of the robot.
            base: Pose (4, 4) of the root link in the world [m]; the identity by default.
        """
        if not isinstance(description, Description):
            raise InputError(
                "Robot takes a Description (supple.load, urdf, mjcf and dh make robots from names, "
                f"files and tables); given: {short_repr(description)}"
            )
        placed = np.eye(4) if base is None else pose(base, "base")
        placed.flags.writeable = False
        folded = tree(description, placed)
        vars(self).update(
            name=description.name,
            dof=len(folded.names),
            joint_names=folded.names,
            lower=folded.lower,
            upper=folded.upper,
            max_speed=folded.max_speed,
            prismatic=folded.prismatic,
            frames=tuple(folded.frames),
            tips=description.tips or description.leaves,
            base=placed,
            frozen=MappingProxyType({}),
            description=description,
            _full=FullConfiguration(folded.names, {}),
            _tree=folded,
            _chains={},
        )
        EVERY_ROBOT.add(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Robot is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Robot is immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (self.description, self.base, self._full))

    def _changed(
        self,
        description: Description,
        *,
        base: ArrayLike | None = None,
        full: FullConfiguration | None = None,
    ) -> Robot:
        """Return a robot of another description that remembers the same frozen joints."""
        return _rebuilt(description, self.base if base is None else base, full or self._full)

    # ---- text ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        plural = "s" if len(self.tips) > 1 else ""
        return (
            f"Robot({self.name!r}: {self.dof} degrees of freedom, "
            f"end effector{plural} {join_names(self.tips)})"
        )

    def summary(self) -> str:
        """Return a table of the joints with their limits, and the end effectors."""
        width = max(len(name) for name in self.joint_names)
        plural = "s" if len(self.tips) > 1 else ""
        tips = ", ".join(self.tips)
        lines = [f"{self.name}: {self.dof} degrees of freedom, end effector{plural}: {tips}"]
        screws = {joint.name for joint in self.description.joints if joint.kind == "screw"}
        for name, slides, low, high, speed in zip(
            self.joint_names, self.prismatic, self.lower, self.upper, self.max_speed, strict=True
        ):
            unit = "m" if slides else "rad"
            kind = "prismatic" if slides else "screw" if name in screws else "revolute"
            limits = f"[{low:8.4f}, {high:8.4f}] {unit:<4}"
            lines.append(f"  {name:<{width}}  {kind:<9}  {limits} {speed:8.4f} {unit}/s")
        return "\n".join(lines)

    def plot(
        self,
        q: ArrayLike | None = None,
        *,
        target: ArrayLike | None = None,
        ax: Any = None,
        title: str | None = None,
    ) -> Any:
        """Return a Matplotlib figure of the robot, drawn from its kinematics.

        Joints are orange, sliding ones light blue; the axes of an end effector are vermilion (x),
        green (y) and blue (z). `figure.savefig("robot.png")` writes it.

        Args:
            q: Configuration (n,) [rad or m], or several (k, n): the last in full, those before
                pale. The neutral one by default.
            target: Poses (..., 4, 4) in the world [m] to draw as dotted axes.
            ax: Axes with projection="3d" to draw into; those of a new figure by default.
            title: Title of the axes; the robot's name by default.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        from supple.plot.figures import robot_figure

        return robot_figure(self, q, target=target, ax=ax, title=title)

    def _repr_html_(self) -> str:
        from supple.plot.html import robot_html

        return robot_html(self)

    # ---- other robots from this one ------------------------------------------------------------

    def freeze(self, joints: str | Sequence[str] | Mapping[str, float]) -> Robot:
        """Return the robot with some joints fixed, and thus fewer degrees of freedom.

        `full_q` and `reduced_q` of the result convert between its configurations and those of this
        robot.

        Args:
            joints: Names of joints to fix at zero, or a mapping from names to positions
                [rad or m], which may be outside the joint limits. Joints that mimic a frozen one
                are fixed too.
        """
        values = dict(joints) if isinstance(joints, Mapping) else {}
        names = names_to_weld(values or joints, self.joint_names, what="joints")
        still = {name: number(values.get(name, 0.0), f"the value of {name!r}") for name in names}
        described = replace(self.description, joints=welded(self.description.joints, still))
        full = FullConfiguration(self._full.names, {**self._full.frozen, **still})
        return self._changed(described, full=full)

    def with_base(self, base: ArrayLike) -> Robot:
        """Return the robot placed at `base`: the pose (4, 4) of its root link in the world [m]."""
        return self._changed(self.description, base=pose(base, "base"))

    def with_frame(self, name: str, parent: str, placement: ArrayLike) -> Robot:
        """Return the robot with another frame, at `placement` (4, 4) [m] in the frame `parent`."""
        if type(parent) is not str or parent not in self._tree.frames:
            raise unknown_name_error("frame", parent, self.frames)
        placed = pose(placement, "placement")
        for frame in self.description.frames:
            if frame.name == parent:
                parent, placed = frame.link, frame.placement @ placed
        frames = (*self.description.frames, Frame(name, parent, placed))
        return self._changed(replace(self.description, frames=frames))

    def with_tips(self, tips: str | Sequence[str]) -> Robot:
        """Return the robot with other end effectors: the name of any frame, or several."""
        return self._changed(with_tips(self.description, names_of(tips, "tips")))

    def with_tool(
        self, placement: ArrayLike, *, parent: str | None = None, name: str = "tool"
    ) -> Robot:
        """Return the robot with a tool, whose frame replaces the end effector.

        The other end effectors of a robot with several stay.

        Args:
            placement: Pose (4, 4) of the tool in the frame `parent` [m].
            parent: Frame that the tool is mounted on; the end effector by default, if the robot
                has only one. If it has several, the tool replaces those on the same rigid body.
            name: Name of the new frame.
        """
        if parent is None:
            if len(self.tips) != 1:
                raise InputError(
                    f"parent must name the frame to mount the tool on: {self.name} has several end "
                    f"effectors, {join_names(self.tips)}; given: none"
                )
            parent = self.tips[0]
        mounted = self.with_frame(name, parent, placement)
        body = self._tree.frames[parent].joint
        replaced = {
            tip
            for tip in self.tips
            if len(self.tips) == 1
            or tip == parent
            or (parent not in self.tips and self._tree.frames[tip].joint == body)
        }
        if not replaced:
            raise InputError(
                f"parent must be on the same rigid body as one of the end effectors, "
                f"{join_names(self.tips)}, which the tool replaces (with_frame and with_tips add "
                f"one); given: {short_repr(parent)}"
            )
        tips = dict.fromkeys(name if tip in replaced else tip for tip in self.tips)
        return self._changed(replace(mounted.description, tips=tuple(tips)))

    def with_limits(
        self,
        *,
        lower: JointValues = None,
        upper: JointValues = None,
        max_speed: JointValues = None,
        margin: JointValues = None,
    ) -> Robot:
        """Return the robot with other joint limits.

            robot.with_limits(max_speed=0.5)                    every joint
            robot.with_limits(upper={"elbow_joint": 2.0})       one joint
            robot.with_limits(margin=0.05)                      0.05 inside the present limits

        Each argument is one number for all joints, an array (n,), or a mapping from joint names to
        numbers that leaves the other joints as they are. Infinite means no limit.

        Args:
            lower: Lower position limits [rad or m].
            upper: Upper position limits [rad or m].
            max_speed: Speed limits [rad/s or m/s].
            margin: Distance by which both position limits move inwards [rad or m].

        Raises:
            InputError: Not numbers of one of these shapes, a lower limit above the upper one, or a
                speed limit that is not positive.
            UnknownNameError: A name that is not a joint of a configuration.
        """
        names = self.joint_names
        low = joint_values(lower, self.lower, names, "lower")
        high = joint_values(upper, self.upper, names, "upper")
        inwards = joint_values(margin, np.zeros(self.dof), names, "margin")
        low, high = moved_limits(low, high, inwards)
        speed = joint_values(max_speed, self.max_speed, names, "max_speed")
        return self._changed(with_limits(self.description, names, low, high, speed))

    # ---- configurations ------------------------------------------------------------------------

    def neutral(self) -> Matrix:
        """Return the configuration (n,) nearest to zero inside the joint limits."""
        return np.clip(np.zeros(self.dof), self.lower, self.upper)

    def full_q(self, q: ArrayLike) -> FloatArray:
        """Return configurations (..., N) of the robot before `freeze` from configurations (..., n).

        Frozen joints have the positions they are frozen at. Without frozen joints it is a copy.
        """
        return self._full.full(q)

    def reduced_q(self, q: ArrayLike) -> FloatArray:
        """Return configurations (..., n) from configurations (..., N) of the robot before `freeze`.

        The inverse of `full_q`; positions of the frozen joints are ignored.
        """
        return self._full.reduced(q)

    def random(
        self,
        count: int | tuple[int, ...] | None = None,
        *,
        seed: int | np.random.Generator | None = None,
    ) -> Matrix:
        """Return uniform random configurations inside the joint limits, (n,) or (count, n).

            robot.random()                 one configuration (n,)
            robot.random(5, seed=0)        five of them (5, n), the same in every run

        Joints without limits: angles in ±π [rad], lengths in ±1 [m]. Joints with one limit: within
        2π or 2 m of it.

        Args:
            count: Number of configurations, or the shape of a batch of them; one without a batch
                axis if None.
            seed: Seed or NumPy generator; different numbers in every call if None.
        """
        shape = () if count is None else count if isinstance(count, tuple) else (count,)
        try:
            share = np.random.default_rng(seed).random(size=(*shape, self.dof))
        except MemoryError:
            raise
        except Exception as error:  # raised by NumPy, or by an object's own conversion
            raise InputError(
                "random takes a count (or a shape) and seed=, a seed or a generator; "
                f"given: {short_repr(count)}, seed={short_repr(seed)} ({error})"
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
            q: Configurations (..., n) [rad or m].
            frame: Name of a frame, or several; the end effectors by default.
            threads: Maximum number of threads; all cores by default.
            out: Array for the result, of its shape and type, to avoid new memory for large batches.
                After an error it may be partly overwritten.
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

        Column j is the twist [v; w] of the frame for unit speed of joint j [m or rad, per rad or
        m]. Wampler calls J the partial-velocity matrix.

        Args:
            q: Configurations (..., n) [rad or m].
            frame: Name of a frame, or several; the end effectors by default.
            axes: Axes of v and w: "world", "body", "spatial" or the name of any frame.
            threads: Maximum number of threads; all cores by default.
            out: Array for the result, of its shape and type.

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
        """Return the results of `fk` and `jacobian` in one pass; `out` is a pair of arrays."""
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

    def analytic_jacobian(
        self,
        q: ArrayLike,
        frame: FrameNames = None,
        *,
        orientation: str = "rpy",
        threads: int | None = None,
    ) -> FloatArray:
        """Return the Jacobian ∂x/∂q of position and orientation parameters, (..., 3 + k, n).

            x = [p; parameters]          d/dt x = J_x q̇,  J_x = blockdiag(1, Ω) J

        The first three rows are those of `jacobian`. Several frames have an axis before the matrix
        axes.

        Args:
            q: Configurations (..., n) [rad or m].
            frame: Name of a frame, or several; the end effectors by default.
            orientation: The parameters: "rpy"; Euler angles about moving or fixed axes, such as
                "intrinsic zyz" or "extrinsic xyz"; a unit quaternion "wxyz" or "xyzw"; or
                "direction_cosines", the nine entries of R row by row. `supple.poses` computes the
                parameters (`rpy`, `euler`, `wxyz`) and Ω (`rate_map`).
            threads: Maximum number of threads; all cores by default.

        Raises:
            InputError: The first and the last axis of the Euler angles are parallel at one of the
                configurations, where their rates are not defined. Quaternions and direction cosines
                have no such singularities.

        References:
            Wampler 1986, eqs. (2), (3), (9) and (10).
        """
        parameters = check_parameters(orientation)
        T, J = self.fk_jacobian(q, frame, threads=threads)
        rates = rate_map(T[..., :3, :3], parameters).astype(J.dtype, copy=False)
        return np.concatenate([J[..., :3, :], rates @ J[..., 3:, :]], axis=-2)

    def joint_torques(
        self,
        q: ArrayLike,
        wrench: ArrayLike,
        frame: FrameNames = None,
        *,
        axes: str = "world",
        threads: int | None = None,
    ) -> FloatArray:
        """Return the joint torques (..., n) that correspond to wrenches at frames:  τ = Jᵀ f.

        The power is the same on both sides: τ·q̇ = f·twist. A wrench that the robot exerts on its
        surroundings takes these torques [N m, or N for a slide]; one that acts on the robot is
        balanced by their negatives. Weights and friction are not included.

        Args:
            q: Configurations (..., n) [rad or m].
            wrench: Force and moment [f; m] [N, N m] (..., 6), or (..., k, 6) for k frames, in the
                coordinates of `axes`: the force at the frame's origin, or at the world's origin if
                spatial. Leading axes broadcast.
            frame: Name of a frame, or several; the end effectors by default.
            axes: Axes of the wrench: "world", "body", "spatial" or the name of any frame.
            threads: Maximum number of threads; all cores by default.

        References:
            Wampler 1986, eq. (24).
        """
        J = self.jacobian(q, frame, axes=axes, threads=threads)
        many = J.ndim > 2 and J.ndim == np.ndim(q) + 2
        shape = J.shape[-3:-1] if many else (6,)
        f = finite_array(wrench, shape, "wrench", batch=True).astype(J.dtype, copy=False)
        try:
            return np.asarray(np.einsum("...kij,...ki->...j" if many else "...ij,...i->...j", J, f))
        except ValueError:
            lead = J.shape[: -len(shape) - 1]
            raise InputError(
                f"wrench must have the leading axes of q, {lead}, or broadcast to them; "
                f"given: an array of shape {f.shape}"
            ) from None

    def bias_acceleration(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        frame: FrameNames = None,
        *,
        axes: str = "world",
        threads: int | None = None,
    ) -> FloatArray:
        """Return the bias acceleration J̇q̇, (..., 6) or (..., k, 6): d/dt of the twist if q̈ = 0.

            d/dt twist = J q̈ + J̇ q̇

        In "world" axes it is the acceleration [m/s²] of the frame's origin and the angular
        acceleration [rad/s²], otherwise the derivative of the twist's components.

        Args:
            q: Configurations (..., n) [rad or m].
            qd: Joint velocities [rad/s or m/s], of the shape of q or broadcast to it.
            frame: Name of a frame, or several; the end effectors by default.
            axes: Axes of the twist: "world", "body", "spatial" or the name of any frame.
            threads: Maximum number of threads; all cores by default.

        References:
            Wampler 1986, eq. (51): the forward pass of Newton and Euler without its q̈ terms.
        """
        return self._chain(frame, axes).bias_acceleration(q, qd, thread_count(threads))

    def bias_jerk(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        frame: FrameNames = None,
        *,
        axes: str = "world",
        threads: int | None = None,
    ) -> FloatArray:
        """Return the bias jerk, (..., 6) or (..., k, 6): d²/dt² of the twist if q⃛ = 0.

            d²/dt² twist = J q⃛ + 2 J̇ q̈ + J̈ q̇

        In "world" axes it is the jerk [m/s³] of the frame's origin and the derivative of the
        angular acceleration [rad/s³], otherwise the second derivative of the twist's components.

        Args:
            q: Configurations (..., n) [rad or m].
            qd: Joint velocities [rad/s or m/s], of the shape of q or broadcast to it.
            qdd: Joint accelerations [rad/s² or m/s²], likewise.
            frame: Name of a frame, or several; the end effectors by default.
            axes: Axes of the twist: "world", "body", "spatial" or the name of any frame.
            threads: Maximum number of threads; all cores by default.

        References:
            Wampler 1986, after eq. (51): solutions of any higher-order derivative.
        """
        at, faster = coordinates(q, self.dof, "q"), coordinates(qdd, self.dof, "qdd")
        if not np.isfinite(faster).all():
            raise InputError(f"qdd must be finite; given: {short_repr(qdd)}")
        try:
            faster = np.array(np.broadcast_to(faster, at.shape), at.dtype)
        except ValueError:
            raise InputError(
                f"qdd must have the shape of q, {at.shape}, or broadcast to it; "
                f"given: {faster.shape}"
            ) from None
        return self._chain(frame, axes).bias_jerk(at, qd, faster, thread_count(threads))

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

        For several frames their Jacobians are stacked. At a singularity the smallest is zero. They
        mix metres and radians and thus depend on the unit of length.

        Args:
            q: Configurations (..., n) [rad or m].
            frame: Name of a frame, or several; the end effectors by default.
            rows: Rows used of each frame, from "x", "y", "z", "rx", "ry", "rz"; all by default.
            axes: Axes of these rows: "world", "body", "spatial" or the name of any frame.
            threads: Maximum number of threads; all cores by default.
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

            w = sqrt(det(J Jᵀ)),  or sqrt(det(Jᵀ J)) if J has more rows than columns

        Zero at a singularity. The arguments are those of `singular_values`.
        """
        w = self._chain(frame, axes, rows).manipulability(q, thread_count(threads))
        return w if w.ndim else w[()]

    # ---- masses --------------------------------------------------------------------------------

    @property
    def mass(self) -> float:
        """The total mass of all links [kg]; NaN if that of a link is not known."""
        return float(sum(inertia.mass for inertia in self.description.inertias))

    def with_inertia(
        self,
        link: str,
        mass: float,
        center: ArrayLike = (0.0, 0.0, 0.0),
        matrix: ArrayLike | None = None,
    ) -> Robot:
        """Return the robot with another mass of a link, in place of what its file says.

        Args:
            link: Name of the link.
            mass: Mass [kg], not negative.
            center: Center of mass (3,) in the link's frame [m].
            matrix: Inertia matrix (3, 3) about the center of mass, in the link's axes [kg m²]; that
                of a point if None.
        """
        links = self.description.links
        if link not in links:
            raise unknown_name_error("link", link, links)
        inertias = dynamics.with_inertia(self, link, mass, center, matrix)
        return self._changed(replace(self.description, inertias=inertias))

    def inertia_matrix(self, q: ArrayLike, *, threads: int | None = None) -> FloatArray:
        """Return the joint-space inertia matrix M(q), (..., n, n) [kg m², kg m or kg].

        The kinetic energy is ½ q̇ᵀ M q̇. Symmetric; positive definite if every joint moves a mass or
        an inertia about its axis. As weight of a step it minimizes the kinetic energy instead of
        ‖q̇‖²: `WeightedDLS(rule, joint_weight=robot.inertia_matrix(q))`.

        Args:
            q: Configurations (..., n) [rad or m].
            threads: Maximum number of threads; all cores by default.

        Raises:
            DescriptionError: The mass of a link is not known, or no link has one.

        References:
            Whitney 1969; Wampler 1986, after eq. (32); Deo & Walker 1995, section 4.
        """
        return dynamics.inertia_matrix(self, q, thread_count(threads))

    def gravity_torques(
        self,
        q: ArrayLike,
        *,
        gravity: ArrayLike = dynamics.GRAVITY,
        threads: int | None = None,
    ) -> FloatArray:
        """Return the joint torques that hold the robot against gravity, (..., n) [N m or N].

        The gradient of the potential energy with respect to q.

        Args:
            q: Configurations (..., n) [rad or m].
            gravity: Acceleration of free fall (3,) in world axes [m/s²].
            threads: Maximum number of threads; all cores by default.

        Raises:
            DescriptionError: The mass of a link is not known, or no link has one.
        """
        return dynamics.gravity_torques(self, q, gravity, thread_count(threads))

    def center_of_mass(self, q: ArrayLike, *, threads: int | None = None) -> FloatArray:
        """Return the center of mass of all links in the world, (..., 3) [m].

        Args:
            q: Configurations (..., n) [rad or m].
            threads: Maximum number of threads; all cores by default.

        Raises:
            DescriptionError: The mass of a link is not known, or no link has one.
        """
        return dynamics.center_of_mass(self, q, thread_count(threads))

    # ---- cost ----------------------------------------------------------------------------------

    def operations(self, frame: FrameNames = None) -> tuple[int, int]:
        """Return the numbers of multiplications and additions of one `fk_jacobian`.

        Counted by running the kernel on numbers that count operations. A fused multiply-add is one
        of each; sines, cosines and signs are not counted.

        Args:
            frame: Name of a frame, or several; the end effectors by default.
        """
        return self._chain(frame).operations()

    # ---- chains --------------------------------------------------------------------------------

    def _chain(
        self, frame: FrameNames, axes: str = "world", rows: Sequence[str] | None = None
    ) -> _core.Chain:
        try:
            return self._chains[frame, axes, rows]
        except (KeyError, TypeError, ValueError):  # new, or a list, which is not hashable
            return self._new_chain(frame, axes, rows)

    def _new_chain(self, frame: FrameNames, axes: str, rows: Sequence[str] | None) -> _core.Chain:
        names = self.tips if frame is None else names_of(frame, "frame")
        stack = len(self.tips) > 1 if frame is None else not isinstance(frame, str)
        picked = ROWS if rows is None else names_of(rows, "rows")
        for row in picked:
            if row not in ROWS:
                raise unknown_name_error("row", row, ROWS)
        if not isinstance(axes, str):
            raise InputError(f"axes must be the name of a frame; given: {short_repr(axes)}")
        which = None if frame is None else names if stack else names[0]
        key = (which, axes, None if rows is None else picked)
        made = self._chains.get(key)
        if made is None:
            known = self._tree.frames
            for name in names:
                if name not in known:
                    raise unknown_name_error("frame", name, self.frames)
            if axes not in AXES and axes not in known:
                raise unknown_name_error("frame for axes=", axes, (*AXES, *self.frames))
            made = chain(
                self._tree.joints,
                [known[name] for name in names],
                coordinates=self.dof,
                stack=stack,
                axes=AXES[axes] if axes in AXES else known[axes],
                rows=[6 * k + ROWS.index(row) for k in range(len(names)) for row in picked],
            )
            self._chains[key] = made
        return made


EVERY_ROBOT: WeakSet[Robot] = WeakSet()  # whose chains are released at exit


def check_robot(given: object) -> None:
    """Raise InputError unless the argument is a Robot."""
    if not isinstance(given, Robot):
        raise InputError(f"robot must be a Robot; given: {short_repr(given)}")


def chain_of(robot: Robot, frames: Sequence[FixedFrame]) -> _core.Chain:
    """Return the kernel's chain for frames on a robot: those of `placed`, possibly rotated."""
    return chain(
        robot._tree.joints, frames, coordinates=robot.dof, stack=True, axes=AXES_WORLD, rows=[0]
    )


def placed(robot: Robot, frame: str, what: str = "frame") -> FixedFrame:
    """Return the placement of a frame on a robot.

    Raises:
        UnknownNameError: The robot does not have the frame; the message lists its frames.
    """
    found = robot._tree.frames.get(frame) if type(frame) is str else None
    if found is None:
        raise unknown_name_error(what, frame, robot.frames)
    return found


def ancestors(robot: Robot, frame: str) -> dict[int, int]:
    """Return the moving joints that carry a frame, each with its index in q."""
    joints, j = robot._tree.joints, placed(robot, frame).joint
    found = {}
    while j != WORLD:
        found[j] = joints[j].coordinate
        j = joints[j].parent
    return found


def link_lengths(robot: Robot, frames: Sequence[str]) -> list[float]:
    """Return the lengths of the links that carry some frames [m], between successive joints.

    The last link ends at the frame, the first one begins at the first joint. Links without length,
    as between the axes of a spherical joint, are left out.
    """
    joints = robot._tree.joints
    lengths: dict[str | int, float] = {}
    for frame in frames:
        on = placed(robot, frame)
        lengths[frame] = float(np.linalg.norm(on.placement[:3, 3])) if on.joint != WORLD else 0.0
        for j in ancestors(robot, frame):
            moved = joints[j].parent != WORLD
            lengths[j] = float(np.linalg.norm(joints[j].placement[:3, 3])) if moved else 0.0
    longest = max(lengths.values(), default=0.0)
    return [length for length in lengths.values() if length > 1e-9 * longest]


def may_turn(robot: Robot) -> NDArray[np.bool_]:
    """Return the mask (n,) of angles for which a 2π wrap leaves every frame in place."""
    found = ~robot.prismatic
    for joint in robot._tree.joints:
        if joint.prismatic or joint.scale != round(
            joint.scale
        ):  # possibly of a joint that mimics it
            found[joint.coordinate] = False
    return found


def only_tip(robot: Robot) -> str:
    """Return the end effector of a robot that has only one.

    Raises:
        InputError: The robot has several end effectors; the message lists them.
    """
    if len(robot.tips) != 1:
        raise InputError(
            f"frame must name a frame: {robot.name} has several end effectors, "
            f"{join_names(robot.tips)}; given: none"
        )
    return robot.tips[0]


def _rebuilt(description: Description, base: ArrayLike, full: FullConfiguration) -> Robot:
    """Return a robot that keeps the record of previously frozen joints."""
    robot = Robot(description, base=base)
    vars(robot).update(_full=full, frozen=MappingProxyType(full.frozen))
    return robot
