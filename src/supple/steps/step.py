"""The interface of a step: a function from a Linearization to q̇.

A step is a small frozen class that is called with a `Linearization` and returns joint velocities,
or joint displacements, (n,). Called with a batch it returns (..., n), computed by the kernel
(`include/supple/step/step.hpp`). The basic steps are in `basic.py`, steps that wrap another step in
`clamp.py`, and those with memory in `filtering.py`, `estimated.py` and `stateful.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import FloatArray, number
from supple._arrays.types import AnyArray, GpuArrayLike, TargetLike
from supple._core import Rule, StepSpec
from supple.damping import DampingRule
from supple.errors import InputError, short_repr
from supple.motion.linearization import TINY, Array, Linearization
from supple.motion.readable import name_of
from supple.steps.batch import run_batch, threes
from supple.steps.stateful import has_memory

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    from supple.gpu.arrays import GpuArray
    from supple.kinematics import Robot
    from supple.kinematics.robot import FrameNames
    from supple.motion.limits import Limits
    from supple.steps.velocities import Velocities
    from supple.tasks import TaskLike

    class VelocityOptions(TypedDict, total=False):
        """Arguments of `BatchStep.velocities` that have no effect on the type of its result."""

        target: TargetLike | None
        gain: float | None
        frame: FrameNames
        limits: Limits | None
        dt: float | None
        qd: AnyArray | None
        threads: int | None
        device: str | None
        stream: object
        out: FloatArray | GpuArrayLike | None


class Step(Protocol):
    """A callable that returns the joint velocities q̇ for a linearization."""

    def __call__(self, linearization: Linearization, /) -> Array:
        """Return q̇ (n,), finite."""
        ...


def batched(formula: Callable[[Any, Linearization], Array]) -> Callable[..., Array]:
    """Decorate a formula for one linearization, so that batches run in the kernel."""

    @wraps(formula)
    def call(self: Any, linearization: Linearization) -> Array:
        there = getattr(linearization, "stepped", None)  # exists for arrays in GPU memory
        if there is not None:
            return there(self)  # type: ignore[no-any-return]
        if linearization.J.ndim > 2:
            return run_batch(kernel_of(self), linearization)[0]
        return formula(self, linearization)

    return call


def _first_velocities(*given: Any, **options: Any) -> FloatArray | GpuArray | Velocities:
    """Import the function behind `BatchStep.velocities`, which replaces this one, and call it."""
    import_module("supple.control.velocities")
    return BatchStep._velocities(*given, **options)


class BatchStep:
    """Base class of the steps that the kernel implements; these steps also take batches."""

    _velocities: ClassVar[Callable[..., FloatArray | GpuArray | Velocities]] = staticmethod(
        _first_velocities
    )

    @overload
    def velocities(
        self,
        robot: Robot,
        q: ArrayLike,
        velocity: TargetLike | None = None,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        explain: Literal[False] = False,
        **options: Unpack[VelocityOptions],
    ) -> FloatArray: ...

    @overload
    def velocities(
        self,
        robot: Robot,
        q: ArrayLike,
        velocity: TargetLike | None = None,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        explain: Literal[True],
        **options: Unpack[VelocityOptions],
    ) -> Velocities: ...

    @overload
    def velocities(
        self,
        robot: Robot,
        q: GpuArrayLike,
        velocity: TargetLike | None = None,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        explain: Literal[False] = False,
        **options: Unpack[VelocityOptions],
    ) -> GpuArray: ...

    @overload
    def velocities(
        self,
        robot: Robot,
        q: AnyArray,
        velocity: TargetLike | None = None,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        explain: bool,
        **options: Unpack[VelocityOptions],
    ) -> FloatArray | GpuArray | Velocities: ...

    def velocities(
        self,
        robot: Robot,
        q: AnyArray,
        velocity: TargetLike | None = None,
        tasks: TaskLike | Sequence[TaskLike] | None = None,
        *,
        target: TargetLike | None = None,
        gain: float | None = None,
        frame: FrameNames = None,
        limits: Limits | None = None,
        dt: float | None = None,
        qd: AnyArray | None = None,
        threads: int | None = None,
        device: str | None = None,
        stream: object = None,
        out: FloatArray | GpuArrayLike | None = None,
        explain: bool = False,
    ) -> FloatArray | GpuArray | Velocities:
        """Return the joint velocities q̇ (..., n) [rad/s or m/s] for task velocities at q.

            step.velocities(robot, q, velocity)                         J q̇ ≈ velocity
            step.velocities(robot, q, velocity, limits=limits, dt=0.01) the same, inside limits
            step.velocities(robot, q, velocity, explain=True)           also λ² and the status
            step.velocities(robot, q, target=target, tasks=tasks)       J q̇ ≈ gain (target - pose)

        The result is the first step of a `Servo` with order=1, for a batch of robots. It runs on
        SIMD lanes and threads, or on a GPU with one thread per robot. Nothing is kept between
        calls, so rules that compare with the previous step act as in a first step. float32 input is
        computed in and returned as float32, any other type as float64.

        Args:
            robot: The model shared by all rows of the batch.
            q: Configurations (..., n) [rad or m].
            velocity: Desired twists [v; w] (..., 6) [m/s, rad/s] of the frame, with v at its
                origin, in world axes unless the task specifies others; (..., k, 6) for k tasks.
                Components without a row in the task are ignored. If one of the tasks is not of a
                frame, or its class converts velocities itself, a sequence with one velocity per
                task, in the form of each task.
            tasks: A task of a frame, or a sequence of tasks; by default the poses of all end
                effectors. Without targets, a task with `alternate=True` has the
                ordinary J, as in a `Servo` without a target.
            target: Targets instead of velocities, for the whole body of a robot with many joints
                (docs/humanoids.md): the target of a single task, or a sequence with one target per
                task, each in the form of its task and with or without batch axes. An entry may be
                None. Tasks are poses, positions, orientations and axes of frames in the world, a
                center of mass, and postures. The step is `DLS` with `Constant` damping, above zero
                unless the tasks determine q̇. float32 input is computed in float64.
            gain: Gain of the error to the target [1/s]; by default 20/s, at most 1/dt.
            frame: Name of a frame, or a sequence of names: their poses are the tasks.
            limits: Joint limits; None for no limits.
            dt: Length of a step [s], required with limits.
            qd: Previous joint speeds (..., n), required if limits bound the accelerations.
            threads: Maximum number of threads; all cores if None.
            device: "cpu", or a GPU of `supple.gpu.devices()` ("cuda": the first); the device that
                holds q if None. For arrays in GPU memory (CuPy, PyTorch, JAX), all float32 or all
                float64, the result is in GPU memory too, and the call is asynchronous.
            stream: CUDA stream for arrays in GPU memory; if None, the stream that an array
                specifies, or the default stream.
            out: Array of the result's shape and type to write into; may be qd. With `out` a
                call allocates nothing and, on a GPU, can be captured in a CUDA graph after a first
                call outside the graph.
            explain: Whether to return `Velocities`, with the damping, the active limits and the
                status of each robot; only on the CPU, where the call then takes six to seven times
                as long.

        Raises:
            InputError: The input is malformed, the kernel does not implement the step, or numbers
                are not finite or make the step overflow. For arrays in GPU memory such rows give
                zeros instead, because reporting them would require a synchronization.
            MissingExtraError, DeviceError: The GPU is not available.
        """
        return self._velocities(
            self,
            robot,
            q,
            velocity,
            tasks,
            target=target,
            gain=gain,
            frame=frame,
            limits=limits,
            dt=dt,
            qd=qd,
            threads=threads,
            device=device,
            stream=stream,
            out=out,
            explain=explain,
        )


def resolve_with(velocities: Callable[..., FloatArray | GpuArray | Velocities]) -> None:
    """Set the function behind `BatchStep.velocities`.

    supple/control/velocities.py, which imports the steps, calls this when it is imported.
    """
    BatchStep._velocities = staticmethod(velocities)


def kernel_of(step: Step) -> StepSpec:
    """Return the description of a step for the kernel.

    Raises:
        InputError: The kernel does not implement the step.
    """
    kernel = getattr(step, "kernel", None)
    if not isinstance(kernel, StepSpec) or has_memory(step):
        raise InputError(
            f"a batch takes the steps of supple.steps; given: {short_repr(step)}. CONTRIBUTING.md "
            "explains how to add a step to the kernel"
        )
    return kernel


def guaranteed_norm(spec: StepSpec) -> float:
    """Return the bound on ‖q̇‖ that a step guarantees: max_speed of `Optimal`, else infinity."""
    optimal = spec.damping.rule in (Rule.OPTIMAL, Rule.OPTIMAL_NEWTON)
    return spec.damping.parameters[0] if optimal and not spec.joint_scale else math.inf


def damping_of(rule: DampingRule, linearization: Linearization) -> float:
    """Return lambda2 of a rule after checking it, because a user's rule may be wrong."""
    try:
        lambda2: object = rule(linearization)
    except OverflowError:  # raised by ** of Python floats
        lambda2 = math.inf
    return number(lambda2, f"lambda2 returned by {name_of(rule)}", least=0.0)


def gained(
    linearization: Linearization,
    floor: float,
    lambda2: float,
    *,
    above: float = 0.0,
    rank: int | None = None,
) -> Array:
    """Return Σ σ/(σ² + λ²) v uᵀe over the `rank` largest singular values, or all if None.

    Singular values up to `floor` times the largest one, or up to `above`, are omitted.
    """
    sigma = linearization.sigma
    some = sigma > max(floor * float(sigma[0]), above, TINY)
    some[len(sigma) if rank is None else rank :] = False
    gain = np.zeros_like(sigma)
    with np.errstate(over="ignore", invalid="ignore"):
        # 1/(σ + λ²/σ), because σ² might underflow. If λ²/σ overflows, the gain is correctly zero.
        gain[some] = 1 / (sigma[some] + lambda2 / sigma[some])
        return finite_step(linearization.V @ (gain * linearization.gamma))


def finite_step(dq: Array) -> Array:
    """Return a step, or raise an error if it overflows."""
    if not np.isfinite(dq).all():
        raise InputError(
            f"the step overflows: J or e is too large or too small; given: q̇ = {short_repr(dq)}"
        )
    return np.asarray(dq, dtype=np.float64)


def check_group(owner: object, group: int | None) -> None:
    """Raise an error if `group` is neither a number of rows nor None."""
    if group is not None and (type(group) is not int or group < 1):
        raise InputError(
            f"{type(owner).__name__}: group must be a number of rows, at least 1, or None; "
            f"given: {short_repr(group)}"
        )


def effectors_of(linearization: Linearization, group: int | None) -> NDArray[np.intp]:
    """Return the index (m,) of each row's end effector: one per `group` rows, or from the tasks.

    Raises:
        InputError: `group` is None and the end effectors are unknown.
    """
    rows = len(linearization.single().e)
    if group is not None:
        return np.arange(rows) // group
    return np.array(linearization.effectors or threes(rows), dtype=np.intp)
