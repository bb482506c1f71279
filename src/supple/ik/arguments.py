"""Parse and validate the arguments of `Solver` and its calls."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import coordinates, number
from supple._core import MAX_INPUT
from supple._runtime.environment import thread_count
from supple.errors import InputError, short_repr
from supple.gpu.device import Precision, check_precision, device_named, is_named, on_a_gpu
from supple.ik.preference import Preference, check_preference
from supple.ik.world_check import WorldCheck
from supple.kinematics import Robot
from supple.kinematics.configuration import to_kernel
from supple.motion.linearization import Array
from supple.motion.plausible import check_plausible

Progress: TypeAlias = Callable[[int, int], object]

_MAX_SEEDS = 2**31 - 1  # largest int of the kernel
_MAX_SOLUTIONS = 100_000  # bounded, because memory for all solutions is allocated in advance
_INFINITE_TIMEOUT = 1e9  # [s]: longer timeouts are treated as infinite


@dataclass(frozen=True)
class GpuChoice:
    """The GPU that solves a problem, and its settings.

    Attributes:
        device: Name of the GPU.
        precision: "mixed" or "double".
        several: Whether several solutions of a target are compared.
    """

    device: str
    precision: str
    several: bool


@dataclass(frozen=True)
class SolveOptions:
    """The options of one call: the settings of the solver and the arguments of the call.

    Attributes:
        position_tolerance: Position tolerance of each task [m].
        rotation_tolerance: Rotation tolerance of each task [rad].
        max_seeds: Maximum number of seeds; 0 for the default.
        prefer: Preference among several solutions: a name or a function of q.
        solutions: Maximum number of solutions of one target; None for one `Solution`.
        began: Time at which the call began, by `time.perf_counter` [s].
        deadline: End of the time limit, by the same clock [s].
        explain: Whether the solution includes a report.
        threads: Maximum number of threads.
        progress: Function called with the number of finished targets and the number of all targets.
        gpu: The GPU and its settings; None for the CPU.
        max_move: Largest joint displacement from q0 [rad or m]; None for no bound.
        check: The clearance that solutions must keep; None without a world.
    """

    position_tolerance: float
    rotation_tolerance: float
    max_seeds: int
    prefer: Preference
    solutions: int | None
    began: float
    deadline: float
    explain: bool
    threads: int
    progress: Progress | None
    gpu: GpuChoice | None
    max_move: float | None = None
    check: WorldCheck | None = None

    @property
    def tolerances(self) -> tuple[float, float, int]:
        """Position tolerance [m], rotation tolerance [rad] and maximum number of seeds."""
        return self.position_tolerance, self.rotation_tolerance, self.max_seeds


@dataclass(frozen=True)
class Settings:
    """The validated arguments of `Solver`, except those that define the problem.

    Attributes:
        prefer: Preference among several solutions: a name or a function of q; None for the default.
        max_move: Largest joint displacement from q0 [rad or m]; None for no bound.
        position_tolerance: Position tolerance of each task [m].
        rotation_tolerance: Rotation tolerance of each task [rad].
        timeout: Time limit of a call [s]; infinite without one.
        max_seeds: Maximum number of seeds; 0 for the default.
        threads: Maximum number of threads; None for all cores.
        device: "cpu" or the name of a GPU; None for the device that holds the target.
        precision: "mixed" or "double".
        check: The clearance that solutions must keep; None without a world.
    """

    prefer: Preference | None
    max_move: float | None
    position_tolerance: float
    rotation_tolerance: float
    timeout: float
    max_seeds: int
    threads: int | None
    device: str | None
    precision: Precision
    check: WorldCheck | None = None

    @staticmethod
    def of(
        *,
        prefer: Preference | None,
        max_move: float | None,
        position_tolerance: float,
        rotation_tolerance: float,
        timeout: float | None,
        max_seeds: int | None,
        threads: int | None,
        device: str | None,
        precision: Precision,
        check: WorldCheck | None = None,
    ) -> Settings:
        """Return the settings after checking them.

        Raises:
            InputError: A setting is malformed or not available on the device.
        """
        if prefer is not None:
            check_preference(prefer, seeded=True)
        if device is None:
            check_precision(precision, "cuda")
        else:
            on_cpu = is_named(device, "cpu")
            check_precision(precision, "cpu" if on_cpu else "cuda")
            device = "cpu" if on_cpu else device_named(device)
            if not on_cpu:
                _check_cpu_only(timeout=timeout, threads=threads)
        if threads is not None:
            thread_count(threads)
        return Settings(
            prefer=prefer,
            max_move=None if max_move is None else number(max_move, "max_move", above=0),
            position_tolerance=number(position_tolerance, "position_tolerance", above=0),
            rotation_tolerance=number(rotation_tolerance, "rotation_tolerance", above=0),
            timeout=math.inf if timeout is None else _seconds(timeout),
            max_seeds=0 if max_seeds is None else count_of(max_seeds, "max_seeds", _MAX_SEEDS),
            threads=threads,
            device=device,
            precision=precision,
            check=check,
        )

    def preference(self, seeded: bool, several: bool = False) -> Preference:
        """Return the preference of a call with or without q0, for one solution or several."""
        if self.prefer is not None:
            return self.prefer
        if seeded:
            return "nearest"
        return "fast" if several else "comfortable"

    def options(
        self,
        target: object,
        *,
        seeded: bool,
        solutions: int | None = None,
        every: bool = False,
        explain: bool = False,
        progress: Progress | None = None,
        stream: object = None,
    ) -> SolveOptions:
        """Return the options of a call.

        Args:
            target: The target or targets of the call.
            seeded: Whether the call has a q0.
            solutions: Maximum number of solutions of one target; None for one `Solution`.
            every: Whether all solutions are computed.
            explain: Whether the solution includes a report.
            progress: Function called with the numbers of finished targets and of all targets.
            stream: CUDA stream of the call.

        Raises:
            InputError: An argument is malformed or not available on the device.
        """
        began = time.perf_counter()
        there = on_a_gpu(target)
        uses_gpu = there if self.device is None else self.device != "cpu"
        if stream is not None and not (uses_gpu and there):
            raise InputError(f"stream is for targets in GPU memory; given: {short_repr(stream)}")
        if uses_gpu:
            limit = None if math.isinf(self.timeout) else self.timeout
            _check_cpu_only(
                timeout=limit,
                explain=explain or None,
                threads=self.threads,
                progress=progress,
            )
        check_precision(self.precision, "cuda" if uses_gpu else "cpu")
        prefer = self.preference(seeded, every or solutions is not None)
        check_preference(prefer, seeded)
        if self.max_move is not None:
            _check_max_move(self.max_move, seeded, uses_gpu and there)
        count = None if solutions is None else count_of(solutions, "count", _MAX_SOLUTIONS)
        if progress is not None and not callable(progress):
            raise InputError(f"progress must be a function, or None; given: {short_repr(progress)}")
        several = prefer not in ("comfortable", "fast") or (count or 1) > 1
        gpu = GpuChoice(device_named(self.device), self.precision, several) if uses_gpu else None
        return SolveOptions(
            position_tolerance=self.position_tolerance,
            rotation_tolerance=self.rotation_tolerance,
            max_seeds=self.max_seeds,
            prefer=prefer,
            solutions=count,
            began=began,
            deadline=began + self.timeout,
            explain=bool(explain),
            threads=thread_count(self.threads),
            progress=progress,
            gpu=gpu,
            max_move=self.max_move,
            check=self.check,
        )


def _check_max_move(given: float, seeded: bool, in_gpu_memory: bool) -> None:
    """Raise an error if `max_move` is not available for a call."""
    if not seeded:
        raise InputError(f"max_move needs q0; given: max_move={given:g} without q0")
    if in_gpu_memory:
        raise InputError(
            "max_move is not available for targets in GPU memory; given: "
            f"max_move={given:g}. All options are available for targets in NumPy arrays "
            "with device="
        )


def _check_cpu_only(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise InputError(f"{name} is only for device='cpu'; given: {short_repr(value)}")


def check_no_out(out: object) -> None:
    """Raise an error if `out` is given for targets in host memory."""
    if out is not None:
        raise InputError(f"out is for targets in GPU memory; given: {short_repr(out)}")


def check_iterated(iterates: bool, max_iterations: object, settings: Settings) -> None:
    """Raise an error for settings that are not available with a step or an OpenTask.

    Without a step and an OpenTask (`iterates` is false), raise an error if max_iterations is given.
    """
    if not iterates:
        if max_iterations is not None:
            raise InputError(
                "max_iterations needs step= or an OpenTask; given: "
                f"max_iterations={short_repr(max_iterations)} alone"
            )
        return
    if max_iterations is not None:
        count_of(max_iterations, "max_iterations", _MAX_SEEDS)  # type: ignore[arg-type]
    if settings.device not in (None, "cpu"):
        raise InputError("step= and OpenTask are only for device='cpu'; given: a GPU")
    prefer = None if settings.prefer in ("fast", "nearest") else settings.prefer
    check_not_iterated(max_move=settings.max_move, prefer=prefer, world=settings.check)


def check_not_iterated(**arguments: object) -> None:
    """Raise an error if an argument is given that a step or an OpenTask does not support."""
    for name, value in arguments.items():
        if value is not None:
            problem = f"{name} is not available with step= or an OpenTask"
            raise InputError(f"{problem}; given: {short_repr(value)}")


def seeds_of(q0: ArrayLike | None, robot: Robot, batch: tuple[int, ...]) -> Array | None:
    """Return q0 as an array: one seed for all targets (n,), or one per target (..., n).

    The seeds are in the kernel's coordinates.
    """
    if q0 is None:
        return None
    # A copy, because results keep a reference to it.
    q = np.array(coordinates(q0, robot.nq, "q0"), dtype=np.float64, order="C")
    if q.ndim == 1:
        if not np.isfinite(q).all():
            raise InputError(f"q0 must be finite; given: {short_repr(q0)}")
        check_plausible(robot, q, "q0")
        return np.asarray(to_kernel(robot, q))
    if q.shape[:-1] != batch:
        raise InputError(
            f"q0 must have the shape ({robot.nq},), or (..., {robot.nq}) with the batch axes of "
            f"the targets, {batch}; given: {q.shape}"
        )
    check_plausible(robot, q, "q0")
    return np.asarray(to_kernel(robot, q))


def raise_nonfinite(target: Array, seed: Array | None) -> NoReturn:
    """Raise the error for a target or a seed that the kernel rejected."""
    arrays = {"q0": np.empty(0) if seed is None else seed, "target": target}
    for name, numbers in arrays.items():
        wrong = numbers[~(np.abs(numbers) <= MAX_INPUT)]
        if wrong.size:
            raise InputError(f"{name} must be finite and within ±1e9; an entry is {wrong[0]:g}")
    raise AssertionError("the kernel accepts all other numbers")


def _seconds(timeout: object) -> float:
    """Return a time limit [s]; limits of 1e9 s and more become infinite."""
    if isinstance(timeout, float | np.floating) or type(timeout) is int:
        if timeout >= _INFINITE_TIMEOUT:
            return math.inf
        if timeout >= 0:  # checked first, because control loops call this often
            return float(timeout)
    return number(timeout, "timeout", least=0)


def count_of(given: int, name: str, most: int) -> int:
    """Return a whole number from 1 to `most`."""
    try:
        count = 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        count = 0
    if not 0 < count <= most:
        raise InputError(
            f"{name} must be a whole number from 1 to {most}; given: {short_repr(given)}"
        )
    return count
