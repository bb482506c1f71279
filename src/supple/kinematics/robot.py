"""The robot: an immutable kinematic tree with named frames, and its kinematics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._arrays.checks import FloatArray, pose
from supple._runtime.environment import DEFAULT_THREADS, thread_count
from supple._runtime.leaving import OWNERS
from supple.describe import Coupling, Description, Group, Loop
from supple.describe.shapes import Shape
from supple.errors import InputError, join_names, short_repr
from supple.gpu.arrays import on_gpu
from supple.kinematics import (
    displacements,
    dynamics,
    from_models,
    jacobians,
    loops,
    semantics,
    variants,
)
from supple.kinematics.chain import Matrix, balls
from supple.kinematics.configuration import from_kernel, uniform_rotation
from supple.kinematics.frames import owners
from supple.kinematics.frozen import FullConfiguration
from supple.kinematics.named_chain import named_chain
from supple.kinematics.other_names import attribute_error
from supple.kinematics.structure import Structure, structure_of
from supple.kinematics.to_mujoco import to_mujoco
from supple.kinematics.to_pinocchio import to_pinocchio
from supple.kinematics.to_urdf import to_urdf
from supple.kinematics.tree import Tree, tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FrameNames: TypeAlias = str | Sequence[str] | None


class Robot:
    """An immutable kinematic tree with joint limits and named frames, and its kinematics.

    Robots are created by `supple.load`, `urdf`, `mjcf` or `dh`, or from models of other libraries
    by `Robot.from_mujoco` and `from_pinocchio`. They can be shared between threads.

    A configuration q has shape (..., n): one position [rad or m] for each joint that moves and does
    not mimic another one, in the order of `joint_names`. Leading axes are batch axes; batches run
    on SIMD lanes and threads. float32 in gives float32 out; every other type is computed in
    float64.

    A frame is given by its name: that of a link or of an extra frame. If `frame` is omitted it is
    the robot's end effector, or all of `tips` if there are several. With one name, results have no
    frame axis; with a sequence of k names, they have an axis of length k before the matrix axes.

    A twist is [v; w]: the velocity [m/s] of the frame's origin and the angular velocity [rad/s],
    relative to the world. `axes` selects the axes in which it is expressed: "world", "body" (the
    frame's own) or the name of any frame. With "spatial" it is in world axes and v is the velocity
    of the point of the frame's body that is at the world's origin. (World axes at the frame's
    origin are also called hybrid coordinates.)

    Attributes:
        name: Name of the robot.
        dof: Number of degrees of freedom n; the same as nv.
        nq: Length of a configuration: n, and one more for each unit quaternion.
        nv: Length of a velocity, n.
        joint_names: Names of the n degrees of freedom. A joint with several degrees of freedom has
            several names, such as "base/x" to "base/rz".
        position_names: Names of the nq numbers of a configuration. They are `joint_names`, except
            that a quaternion has "base/qw", "base/qx", "base/qy" and "base/qz".
        lower, upper: Position limits (n,) [rad or m]; infinite if there are none.
        max_speed: Speed limits (n,) [rad/s or m/s]; infinite if unknown.
        max_acceleration: Acceleration limits (n,) [rad/s² or m/s²]; infinite if unknown.
        max_jerk: Jerk limits (n,) [rad/s³ or m/s³]; infinite if unknown.
        prismatic: Mask (n,) of the joints whose position is a length, bool. The position of a screw
            joint is an angle.
        frames: Names of all frames: links from the root on, then extra frames.
        tips: Names of the end effectors.
        base: Pose (4, 4) of the root link in the world [m].
        frozen: Names and positions [rad or m] of the joints fixed by `freeze`.
        description: Joints, links and frames as plain data.
    """

    if TYPE_CHECKING:  # only for type checkers, so that help() does not list them twice
        name: str
        dof: int
        nq: int
        nv: int
        joint_names: tuple[str, ...]
        position_names: tuple[str, ...]
        lower: Matrix
        upper: Matrix
        max_speed: Matrix
        max_acceleration: Matrix
        max_jerk: Matrix
        prismatic: NDArray[np.bool_]
        frames: tuple[str, ...]
        tips: tuple[str, ...]
        base: Matrix
        frozen: Mapping[str, float]
        description: Description
        _full: FullConfiguration
        _balls: tuple[int, ...]  # index of the first velocity of each ball joint
        _tree: Tree
        _chains: dict[tuple[FrameNames, str, Sequence[str] | None], _core.Chain]
        _structures: dict[str, Structure]
        _solvers: Any  # the solvers of `supple.solve` (ik/position.py)

    def __init__(self, description: Description, *, base: ArrayLike | None = None) -> None:
        """Make a robot from a description, placed in the world.

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
            nq=len(folded.positions),
            nv=len(folded.names),
            joint_names=folded.names,
            position_names=folded.positions,
            lower=folded.lower,
            upper=folded.upper,
            max_speed=folded.max_speed,
            max_acceleration=folded.max_acceleration,
            max_jerk=folded.max_jerk,
            prismatic=folded.prismatic,
            frames=tuple(folded.frames),
            tips=description.tips or description.leaves,
            base=placed,
            frozen=MappingProxyType({}),
            description=description,
            _full=FullConfiguration(folded.positions, {}),
            _balls=tuple(balls(folded.joints)),
            _tree=folded,
            _chains={},
            _structures={},
            _solvers=None,
        )
        OWNERS.add(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Robot is immutable: cannot set {name!r}")

    if not TYPE_CHECKING:  # type checkers report unknown attributes

        def __getattr__(self, name: str) -> NoReturn:
            raise attribute_error(self, name)

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
        """Return a robot with another description; by default, base and frozen joints stay."""
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
        kinds = {joint.name: joint.kind for joint in self.description.joints}
        of = owners(self)
        for j, name in enumerate(self.joint_names):
            unit = "m" if self.prismatic[j] else "rad"
            limits = f"[{self.lower[j]:8.4f}, {self.upper[j]:8.4f}] {unit:<4}"
            rates = f"{self.max_speed[j]:8.4f} {unit}/s"
            for rate, power in ((self.max_acceleration[j], "²"), (self.max_jerk[j], "³")):
                rates += f" {rate:8.4g} {unit}/s{power}" if np.isfinite(rate) else ""
            lines.append(f"  {name:<{width}}  {kinds[of[j]]:<10}  {limits} {rates}")
        return "\n".join(lines)

    def plot(
        self,
        q: ArrayLike | None = None,
        *,
        target: ArrayLike | None = None,
        ax: Axes | None = None,
        title: str | None = None,
    ) -> Figure:
        """Return a Matplotlib figure of the robot, drawn from its kinematics.

        Joints are orange, prismatic ones light blue; the axes of an end effector are vermilion (x),
        green (y) and blue (z). `figure.savefig("robot.png")` writes the figure to a file.

        Args:
            q: Configuration (n,) [rad or m], or several (k, n); the last one is drawn in full
                color, the others pale. The neutral configuration by default.
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

    # ---- other robots from this one (variants.py) ----------------------------------------------

    freeze = variants.freeze
    with_base = variants.with_base
    with_frame = variants.with_frame
    with_tips = variants.with_tips
    with_tool = variants.with_tool
    with_limits = variants.with_limits
    with_loop = variants.with_loop
    without_loops = variants.without_loops
    with_inertia = variants.with_inertia

    # ---- groups of joints (semantics.py) -------------------------------------------------------

    with_group = semantics.with_group
    group_state = semantics.group_state

    @property
    def groups(self) -> Mapping[str, Group]:
        """Groups of joints by name, from an SRDF file: `supple.urdf(file, srdf=...)`."""
        return MappingProxyType({group.name: group for group in self.description.groups})

    # ---- closed loops (loops.py) ---------------------------------------------------------------

    loop_error = loops.loop_error
    loop_jacobian = loops.loop_jacobian
    close_loops = loops.close_loops

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Pairs of frames that coincide in every closed configuration."""
        return self.description.loops

    @property
    def couplings(self) -> tuple[Coupling, ...]:
        """Joints that follow others by polynomials in every closed configuration."""
        return self.description.couplings

    @property
    def is_tree(self) -> bool:
        """Whether the robot has neither loops nor couplings: every configuration is valid."""
        return not (self.description.loops or self.description.couplings)

    # ---- other formats (from_models.py, to_urdf.py, to_mujoco.py, to_pinocchio.py) ---------------

    from_mujoco = classmethod(from_models.from_mujoco)
    from_pinocchio = classmethod(from_models.from_pinocchio)
    to_urdf = to_urdf
    to_mujoco = to_mujoco
    to_pinocchio = to_pinocchio

    # ---- configurations ------------------------------------------------------------------------

    def neutral(self) -> Matrix:
        """Return the configuration (nq,) nearest to zero inside the joint limits.

        With loops, the result is the closed configuration that `close_loops` finds from this one
        or, if it finds none, from random configurations.
        """
        q = np.asarray(from_kernel(self, np.clip(np.zeros(self.nv), self.lower, self.upper)))
        return q if self.is_tree else loops.neutral_closed(self, q)

    integrate = displacements.integrate
    difference = displacements.difference

    def full_q(self, q: ArrayLike) -> FloatArray:
        """Convert configurations (..., n) to configurations of the robot before `freeze` (..., N).

        Frozen joints have the positions at which they are frozen. Without frozen joints, the result
        is a copy.
        """
        return self._full.full(q)

    def reduced_q(self, q: ArrayLike) -> FloatArray:
        """Convert configurations (..., N) of the robot before `freeze` to those of this robot.

        This is the inverse of `full_q`: the result is (..., n), without the frozen joints.
        """
        return self._full.reduced(q)

    def random(
        self,
        count: int | tuple[int, ...] | None = None,
        *,
        seed: int | np.random.Generator | None = None,
    ) -> Matrix:
        """Return uniform random configurations inside the joint limits, (nq,) or (count, nq).

            robot.random()                 one configuration (n,)
            robot.random(5, seed=0)        five of them (5, n), the same in every run

        Joints without limits are drawn from ±π [rad] or ±1 [m]; joints with one limit are drawn
        within 2π or 2 m of it. Orientations of ball joints are uniform. With loops, the result is
        `close_loops` of such configurations, and thus closed; it is then not uniform.

        Args:
            count: Number of configurations, or the shape of a batch; if None, one configuration
                without a batch axis.
            seed: Seed or NumPy generator; if None, every call returns different configurations.
        """
        shape = () if count is None else count if isinstance(count, tuple) else (count,)
        try:
            share = np.random.default_rng(seed).random(size=(*shape, self.nv))
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
        drawn = np.clip((1 - share) * low + share * high, low, high)
        for ball in self._balls:
            three = slice(ball, ball + 3)
            drawn[..., three] = uniform_rotation(share[..., three])
        made = np.asarray(from_kernel(self, drawn))
        return made if self.is_tree else loops.random_closed(self, made)

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
            frame: Name of a frame, or a sequence of names; the end effectors by default.
            threads: Maximum number of threads; all cores by default.
            out: Array for the result, of matching shape and type, which avoids allocating large
                results. After an error it may be partly overwritten.
        """
        try:  # the body of `_chain`, inlined to save the cost of a call
            found = self._chains[frame, "world", None]
        except (KeyError, TypeError, ValueError):
            found = self._chain(frame)
        try:
            return found.poses(
                q, DEFAULT_THREADS if threads is None else thread_count(threads), out
            )
        except InputError:
            if not on_gpu(q):
                raise
        from supple.kinematics.gpu_frames import resolve  # NVIDIA's packages are optional

        poses: FloatArray = resolve(self, q, frame, "world", (True, False), threads, (out, None))[0]
        return poses

    # ---- Jacobians and their derivatives (jacobians.py) ----------------------------------------

    jacobian = jacobians.jacobian
    fk_jacobian = jacobians.fk_jacobian
    analytic_jacobian = jacobians.analytic_jacobian
    joint_torques = jacobians.joint_torques
    bias_acceleration = jacobians.bias_acceleration
    bias_jerk = jacobians.bias_jerk
    singular_values = jacobians.singular_values
    manipulability = jacobians.manipulability

    # ---- masses (dynamics.py) ------------------------------------------------------------------

    inertia_matrix = dynamics.inertia_matrix
    gravity_torques = dynamics.gravity_torques
    center_of_mass = dynamics.center_of_mass
    momentum_matrix = dynamics.momentum_matrix
    momentum = dynamics.momentum
    capture_point = dynamics.capture_point

    @property
    def mass(self) -> float:
        """The total mass of all links [kg]; NaN if the mass of a link is unknown."""
        return float(sum(inertia.mass for inertia in self.description.inertias))

    # ---- shapes --------------------------------------------------------------------------------

    @property
    def shapes(self) -> Mapping[str, tuple[Shape, ...]]:
        """Shapes of the links for collision checks, by name of the link.

        The shapes are read from the file on first use. `supple.World` checks them against each
        other and against obstacles.

        Raises:
            DescriptionError: A shape of the file is invalid.
        """
        return self.description.shapes

    # ---- structure (structure.py) ---------------------------------------------------------------

    @property
    def structure(self) -> Structure:
        """The joint axes that move the end effector (the first one, if there are several).

        It tells which axes are parallel or intersect, and whether the solutions of a pose have a
        closed form; `print(robot.structure)` describes it in words.
        """
        return self._structure(self.tips[0])

    def _structure(self, frame: str) -> Structure:
        found = self._structures.get(frame)
        if found is None:
            found = self._structures[frame] = structure_of(self, frame)
        return found

    # ---- cost ----------------------------------------------------------------------------------

    def operations(self, frame: FrameNames = None) -> tuple[int, int]:
        """Return the numbers of multiplications and additions of one `fk_jacobian`.

        The kernel is run with a number type that counts operations. A fused multiply-add counts as
        one multiplication and one addition; sines, cosines and sign changes are not counted.

        Args:
            frame: Name of a frame, or a sequence of names; the end effectors by default.
        """
        return self._chain(frame).operations()

    # ---- chains --------------------------------------------------------------------------------

    def _chain(
        self, frame: FrameNames, axes: str = "world", rows: Sequence[str] | None = None
    ) -> _core.Chain:
        try:
            return self._chains[frame, axes, rows]
        except (KeyError, TypeError, ValueError):  # a new chain, or a list, which is not hashable
            return named_chain(self, frame, axes, rows)

    def _release(self) -> None:
        self._chains.clear()


def check_robot(given: object) -> None:
    """Raise InputError unless the argument is a Robot."""
    if not isinstance(given, Robot):
        raise InputError(f"robot must be a Robot; given: {short_repr(given)}")


def _rebuilt(description: Description, base: ArrayLike, full: FullConfiguration) -> Robot:
    """Return a robot that keeps the record of previously frozen joints."""
    robot = Robot(description, base=base)
    vars(robot).update(_full=full, frozen=MappingProxyType(full.frozen))
    return robot
