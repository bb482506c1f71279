"""Solutions as arrays: of a batch of targets, or several of one target."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import like
from supple.errors import InputError, short_repr
from supple.gpu.arrays import GpuArray
from supple.ik.branches.same_branch import largest_move, on_same_branch
from supple.ik.solution import Solution, robot_of, seed_of
from supple.ik.solutions_text import short_text, summary
from supple.ik.status import SolveStatus
from supple.ik.task_errors import TaskTargets, missed_norms, solution_errors
from supple.ik.world_check import WorldCheck, check_of
from supple.kinematics import Robot
from supple.kinematics.branch import BRANCHES, branch_signs, branch_words
from supple.motion.linearization import Array
from supple.motion.status_array import StatusArray
from supple.tasks import Task

if TYPE_CHECKING:
    from typing import overload

    from matplotlib.figure import Figure

    from supple.gpu.runtime import Memory
    from supple.ik.gpu.calls import DeviceCall

_PARTS = ("q", "status", "position_error", "rotation_error", "iterations", "restarts")
# Fields that are set to zeros when they are first read, if they are not given.
_LATER = {"status": np.int8, "iterations": np.int32, "restarts": np.int32, "sampled": np.bool_}
_PART_SELECTED = "a part of them was selected"


def _later() -> Any:
    return None


@dataclass(frozen=True, eq=False, repr=False)
class Solutions:
    """Solutions of a batch of targets, or several solutions of one target, as arrays.

    `Solver.batch` gives one solution of each target: the axes of all arrays are those of the batch.
    `Solver.several` and `Solver.all` give the solutions of one target along one axis, the best
    first. For a batch, `Solver.all` also gives all solutions along one axis, target after target:
    `count` is the number of solutions of each target, and `of` or `split` selects the solutions of
    one target.

    Solutions are indexed like an array. With one axis, `len` is the number of solutions, and an
    integer index or iteration gives each `Solution`. With several axes, `len` and iteration refer
    to the first axis, and one integer per axis gives a `Solution`. Slices, masks and index arrays
    select a part: `found[found.success]`. Indexing always returns a copy: writing to its arrays
    does not change the original. `str()` is a summary, or a list of the solutions of one target.

    At a singular target, and for a redundant robot, solutions form a continuum: some joints can
    move while the frame stays. `Solver.all` samples the continuum.

    The arrays are of the library of the targets, and in the same memory; methods other than
    `success` need arrays of NumPy, which `numpy()` returns. For targets in GPU memory, a call
    returns before the GPU has finished. CuPy, PyTorch and JAX take the arrays without a copy
    (DLPack) once the stream has computed them; `numpy()` waits and returns a copy in host memory,
    which has all methods. With `Solver.all` these arrays have 8 entries for each target, (..., 8),
    NaN in q and infinite errors where a target has fewer solutions.

    Attributes:
        q: Joint coordinates (..., n) [rad or m], inside the limits.
        status: Statuses (...), an int8 array whose entries are `SolveStatus`: `status[3].name`,
            `status.count(SolveStatus.CONVERGED)`.
        position_error: Largest position error of all tasks (...) [m]; infinite if not solved.
        rotation_error: Largest rotation error of all tasks (...) [rad]; infinite if not solved.
        iterations: Number of iterations of the search (...).
        restarts: Number of seeds after the first (...), including those that ran in parallel.
        sampled: Whether each solution is a sample of a continuum (...), with `Solver.all`.
        reason: The reason why targets that are not `complete` may have more solutions.
        robot: The robot of the call.
        q0: The seeds of the call, (n,) or (..., n) [rad or m]; None without any.
        tasks: The tasks of the call.
        frame: Name of the frame whose pose is the target, with `Solver.all`; else None.
    """

    q: Array
    status: StatusArray[SolveStatus] = field(default_factory=_later)
    position_error: Array = field(default_factory=_later)
    rotation_error: Array = field(default_factory=_later)
    iterations: NDArray[np.int32] = field(default_factory=_later)
    restarts: NDArray[np.int32] = field(default_factory=_later)
    sampled: NDArray[np.bool_] = field(default_factory=_later, kw_only=True)
    reason: str = field(default="only some were searched", kw_only=True)
    robot: Robot | None = field(default=None, kw_only=True)
    q0: Array | None = field(default=None, kw_only=True)
    tasks: tuple[Task, ...] = field(default=(), kw_only=True)
    frame: str | None = field(default=None, kw_only=True)
    _task_targets: TaskTargets | None = field(default=None, kw_only=True)  # with several tasks
    _check: WorldCheck | None = field(default=None, kw_only=True)  # with `world`
    # If a target may have several solutions: the batch axes of the targets; the number of solutions
    # of each (...), None if there is one target; and whether these are all its solutions (...).
    _targets: tuple[int, ...] | None = field(default=None, kw_only=True)
    _count: NDArray[np.int32] | None = field(default=None, kw_only=True)
    _complete: NDArray[np.bool_] | bool = field(default=False, kw_only=True)

    @classmethod
    def on_gpu(cls, call: DeviceCall, memory: Memory) -> Solutions:
        """Return the results of a call on a GPU, whose arrays are made when they are read."""
        made = object.__new__(cls)
        made.__dict__.update(call.fields)
        made.__dict__["_results"] = (call, memory)
        for name in call.at_once:
            made.__dict__[name] = call.parts[name].of(memory)
        return made

    def memory_for(self, call: DeviceCall) -> Memory:
        """Return the memory of these results, for the results of another call.

        Raises:
            InputError: The arrays have other shapes, or are not in GPU memory.
        """
        results: tuple[DeviceCall, Memory] | None = self.__dict__.get("_results")
        if results is None or results[0].parts != call.parts:
            raise InputError(
                "out must be the results of an earlier call with targets of the same shape in GPU "
                f"memory; given: {self!r}"
            )
        return results[1]

    def __post_init__(self) -> None:
        for name in _LATER:
            if self.__dict__[name] is None:
                del self.__dict__[name]
        if isinstance(self.__dict__.get("status"), np.ndarray):
            object.__setattr__(self, "status", StatusArray.of(SolveStatus, self.status))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a field of `_LATER` that is not given, after setting it to zeros."""
            call, memory = self.__dict__.get("_results", (None, None))
            if call is not None and name in call.parts:
                return self.__dict__.setdefault(name, call.parts[name].of(memory))
            if name not in _LATER or "q" not in self.__dict__:
                raise AttributeError(f"Solutions has no attribute {name!r}")
            self._check_host(name)
            value = np.zeros(self.shape, dtype=_LATER[name])
            if name == "status":
                value = StatusArray.of(SolveStatus, value)
            return self.__dict__.setdefault(name, value)

    # ---- where the arrays are -------------------------------------------------------------------

    @property
    def _on_gpu(self) -> bool:
        """Whether the arrays are in GPU memory; for type checkers, they are in host memory."""
        q: object = self.q
        return isinstance(q, GpuArray)

    @property
    def _shown(self) -> Solutions:
        """The solutions for conversion to text: with arrays of NumPy, unless they are on a GPU."""
        return self if self._on_gpu else self.numpy()

    def _of_library(self, given: Any) -> Solutions:
        """Return the solutions with arrays of the library of `given`, without copies."""
        arrays: dict[str, Any] = {name: like(given, getattr(self, name)) for name in _PARTS}
        return replace(self, **arrays)

    def numpy(self) -> Solutions:
        """Return the solutions with arrays of NumPy; for arrays on a GPU, wait for their stream."""
        if not self._on_gpu:
            if type(self.q) is np.ndarray:
                return self
            arrays: dict[str, Any] = {name: np.asarray(getattr(self, name)) for name in _PARTS}
            return replace(self, **arrays)
        call, _ = self.__dict__.get("_results", (None, None))
        for name in () if call is None else call.parts:
            getattr(self, name)
        host: dict[str, Any] = {
            name: value.numpy() if isinstance(value, GpuArray) else value
            for name, value in self.__dict__.items()
            if name != "_results"
        }
        if self._targets is not None:  # only the used entries of each target
            used = np.arange(host["q"].shape[-2]) < host["_count"][..., None]
            for name in set(_PARTS) & set(host):
                host[name] = host[name][used]
            if "_complete" in host:
                host["_complete"] = host["_complete"] != 0
        return Solutions(**host)

    def _check_host(self, what: str) -> None:
        """Raise an error if the arrays are in GPU memory, or of another library than NumPy."""
        if self._on_gpu:
            raise InputError(
                f"{what} needs arrays in host memory: use numpy(); given: arrays in GPU memory"
            )
        if not isinstance(self.q, np.ndarray):
            raise InputError(
                f"{what} needs arrays of NumPy: use numpy(); given: {type(self.q).__name__}"
            )

    # ---- targets --------------------------------------------------------------------------------

    @property
    def count(self) -> NDArray[np.int32]:
        """Number of solutions of each target (...), of shape () for one target."""
        if self._count is not None:
            return self._count
        if self._targets is None:
            return np.ones(self.shape, np.int32)
        return np.array(len(self.q), np.int32)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether these are all solutions of each target inside the limits (...)."""
        if isinstance(self._complete, bool):
            axes = self.shape if self._targets is None else self._targets
            return np.full(axes, self._complete)
        return self._complete

    @property
    def target(self) -> NDArray[np.intp]:
        """Flat index (s,) of the target of each solution, in the order of the arrays."""
        count = np.ravel(self.count)
        return np.repeat(np.arange(count.size), count)

    def of(self, index: int | tuple[int, ...]) -> Solutions:
        """Return the solutions of one target of a batch.

        Args:
            index: Index of the target: one integer for each axis of the batch.
        """
        self._check_host("of")
        each = index if isinstance(index, tuple) else (index,)
        axes = self.count.shape
        if len(each) != len(axes) or not all(isinstance(i, int | np.integer) for i in each):
            raise IndexError(
                f"an index must be one integer for each of the batch axes {axes}; "
                f"given: {short_repr(index)}"
            )
        flat = int(np.arange(self.count.size).reshape(axes)[each])
        return self._of(flat, int(np.ravel(self.count)[:flat].sum()))

    def split(self) -> list[Solutions]:
        """Return the solutions of each target, in the order of the targets."""
        self._check_host("split")
        begins = np.cumsum(np.ravel(self.count)) - np.ravel(self.count)
        return [self._of(i, begin) for i, begin in enumerate(begins.tolist())]

    def _of(self, target: int, begin: int) -> Solutions:
        """Return the solutions of the target with a flat index; the first one has index `begin`."""
        complete = bool(np.ravel(self.complete)[target])
        part = slice(begin, begin + int(np.ravel(self.count)[target]))
        q0 = self.q0
        if q0 is not None and q0.ndim > 1:
            q0 = np.array(q0.reshape(-1, q0.shape[-1])[target])
        axes = len(self.shape)
        parts: Any = (np.array(x.reshape(-1, *x.shape[axes:])[part]) for x in self._parts())
        return Solutions(
            *parts,
            sampled=np.array(self.sampled.ravel()[part]),
            reason="" if complete else self.reason,
            robot=self.robot,
            q0=q0,
            tasks=self.tasks,
            frame=self.frame,
            _check=self._check,
            _targets=(),
            _complete=complete,
        )

    def padded(self) -> Array:
        """Return the solutions as (..., k, n) [rad or m], k the largest count, padded with NaN."""
        self._check_host("padded")
        flat = np.ravel(self.count)
        made = np.full((flat.size, int(flat.max(initial=0)), self.q.shape[-1]), np.nan)
        made[np.arange(made.shape[1]) < flat[:, None]] = self.q.reshape(-1, self.q.shape[-1])
        return made.reshape(*self.count.shape, *made.shape[1:])

    # ---- errors and branches --------------------------------------------------------------------

    @property
    def success(self) -> NDArray[np.bool_]:
        """Whether each target is met within the tolerances (...)."""
        if self._on_gpu:
            self._check_host("success")
        met = self.status == SolveStatus.CONVERGED
        return np.asarray(met) if type(self.q) is np.ndarray else met

    @property
    def position_errors(self) -> Array:
        """The position error of each task (..., k) [m]; zero for tasks without a position.

        The definition is that of `Solution.position_errors`; computed when it is read.
        """
        return self._errors()[..., 0]

    @property
    def rotation_errors(self) -> Array:
        """The rotation error of each task (..., k) [rad]; zero for tasks without a rotation."""
        return self._errors()[..., 1]

    @property
    def missed(self) -> Array:
        """How far each task is from being met (..., k) [m and rad]; zero for tasks that are met.

        The definition is that of `Solution.missed`; `found[3].reasons` gives the reasons in words.
        """
        tolerances = None if self._task_targets is None else self._task_targets.tolerances
        return missed_norms(self._errors(), tolerances, np.asarray(self.success))

    def _errors(self) -> Array:
        """Return the position and rotation errors of each task (..., k, 2)."""
        self._check_host("the error of each task")
        whole = np.stack([self.position_error, self.rotation_error], axis=-1)[..., None, :]
        if self._task_targets is None:
            return whole
        errors = solution_errors(robot_of(self), self.tasks, self.q, self._task_targets.targets)
        return np.where(np.isfinite(whole).all(axis=-1, keepdims=True), errors, np.inf)

    @property
    def moved(self) -> Array:
        """The largest displacement of a joint (...), max |q - q0| [rad or m].

        Raises:
            InputError: The call had no q0.
        """
        return largest_move(self.robot, self.q, self._seeds("moved"))

    @property
    def same_branch(self) -> NDArray[np.bool_]:
        """Whether a motion without a singularity in between joins q0 to each q (...).

        The definition is that of `Solution.same_branch`. The property is computed when it is read.

        Raises:
            InputError: The call had no q0.
        """
        q0 = self._seeds("same_branch")
        return on_same_branch(robot_of(self), self.tasks, q0, self.q)

    @property
    def clearance(self) -> Array:
        """The distance of the nearest pair of parts at each q (...) [m], as `Solution.clearance`.

        Raises:
            InputError: The call had no world.
        """
        check = check_of(self, "clearance")
        flat = self.q.reshape(-1, self.q.shape[-1])
        return np.array([check.distance(q) for q in flat]).reshape(self.shape)

    def _seeds(self, what: str) -> Array:
        """Return the seed of each solution, (n,) or (..., n)."""
        self._check_host(what)
        q0 = seed_of(self, what)
        if self._targets and q0.ndim > 1:
            return np.asarray(q0.reshape(-1, q0.shape[-1])[self.target])
        return q0

    @property
    def free(self) -> NDArray[np.bool_]:
        """Mask (s, n) of joints that can move while the frame stays; none at isolated solutions."""
        if self.robot is None or self.frame is None:
            raise InputError("free is for all solutions of poses; given: other solutions")
        free = np.zeros(self.q.shape, dtype=np.bool_)
        if self.sampled.any():
            J = self.robot.jacobian(self.q[self.sampled], self.frame)
            _, sigma, Vt = np.linalg.svd(J)
            still = np.ones(Vt.shape[:-1], dtype=np.bool_)
            still[:, : sigma.shape[-1]] = sigma <= 1e-6 * sigma[:, :1]
            free[self.sampled] = ((np.abs(Vt) > 1e-6) & still[..., None]).any(axis=-2)
        return free

    @property
    def branch(self) -> NDArray[np.int8]:
        """Signs (s, 3) of shoulder, elbow and wrist, for arms whose branches have these signs.

        A sign changes only at a singularity, where it is zero; `branch_names` gives the signs in
        words.

        Raises:
            InputError: The arm has no such branches, or the solutions are not from `Solver.all` for
                poses.
        """
        if self.robot is None or self.frame is None:
            raise InputError("branch is for all solutions of poses; given: other solutions")
        return branch_signs(self.robot, self.q, self.frame)

    @property
    def branch_names(self) -> tuple[str, ...]:
        """The branch of each solution in words: "shoulder left, elbow up, wrist no flip".

        `str()` explains the words.

        Raises:
            InputError: The arm has no such branches, or the solutions are not from `Solver.all` for
                poses.
        """
        signs = self.branch
        assert self.frame is not None
        words = branch_words(robot_of(self), signs, self.frame)
        return tuple(
            ", ".join(f"{part} {word}" for part, word in zip(BRANCHES, each, strict=True))
            for each in words
        )

    # ---- an array of solutions ------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of the arrays."""
        return tuple(self.q.shape[:-1])

    @property
    def size(self) -> int:
        """The number of solutions along all axes."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() needs a batch; given: solutions of one target, with no axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Solution]:
        return (self[i] for i in range(len(self)))

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int | tuple[int, ...]) -> Solution: ...
        @overload
        def __getitem__(
            self, index: slice | NDArray[Any] | list[int] | tuple[Any, ...]
        ) -> Solutions: ...

    def __getitem__(self, index: Any) -> Solution | Solutions:
        self._check_host("an index")
        each = index if isinstance(index, tuple) else (index,)
        integers = all(isinstance(one, int | np.integer) for one in each)
        if len(each) > len(self.shape):
            raise IndexError(
                f"an index must have at most one entry for each of the batch axes {self.shape}; "
                f"given: {short_repr(index)}"
            )
        if not integers or len(each) < len(self.shape):
            return self._select(index)
        q, status, position, rotation, iterations, restarts = (x[each] for x in self._parts())
        q0, given = self._seed(each), self._task_targets
        return Solution(
            q.copy(),
            status,
            float(position),
            float(rotation),
            int(iterations),
            int(restarts),
            robot=self.robot,
            _q0=None if q0 is None else q0.tobytes(),
            tasks=self.tasks,
            _task_targets=None if given is None else given.part(each, self.shape).tobytes(),
            _check=self._check,
        )

    def _select(self, index: Any) -> Solutions:
        """Return a copy of the solutions that a slice, a mask or an index array selects."""
        parts: Any = (np.array(part[index]) for part in self._parts())
        named = dict(zip(_PARTS, parts, strict=True))
        given = None if self._task_targets is None else self._task_targets.part(index, self.shape)
        made = replace(self, **named, sampled=np.array(self.sampled[index]), _task_targets=given)
        if self._targets is None:
            return replace(made, q0=self._seed(index))
        count = None
        if self._targets:
            target = self.target[index]
            if (np.diff(target) < 0).any():
                raise IndexError("an index must keep the order of the targets; given: another")
            sizes = np.bincount(target, minlength=math.prod(self._targets))
            count = sizes.astype(np.int32).reshape(self._targets)
        return replace(made, reason=_PART_SELECTED, _count=count, _complete=False)

    def _seed(self, index: Any) -> Array | None:
        """Return the seeds of a part of the solutions."""
        if self.q0 is None or self.q0.ndim == 1:
            return self.q0
        return np.array(self._seeds("q0")[index])

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _PARTS)

    def plot(self, *, target: ArrayLike | None = None, title: str | None = None) -> Figure:
        """Return a Matplotlib figure of the robot at these solutions, the first one in full color.

        Args:
            target: Poses (..., 4, 4) in the world [m] to draw as dotted axes.
            title: Title of the figure; the robot and the number of solutions by default.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        self._check_host("plot")
        robot = robot_of(self)
        q = np.asarray(self.q).reshape(-1, robot.nq)[::-1]
        words = f"{robot.name}: {repr(self)[1:-1]}" if title is None else title
        return robot.plot(q, target=target, title=words)

    def _repr_html_(self) -> str:
        from supple.plot.html import solutions_html

        return solutions_html(self._shown)

    def __bool__(self) -> NoReturn:
        raise InputError(
            "the truth value of several solutions is ambiguous: use success.all() or success.any()"
        )

    def __repr__(self) -> str:
        return f"<Solutions {short_text(self._shown)}>"

    def __str__(self) -> str:
        return summary(self._shown)


def all_of_one(
    q: Array,
    position_error: Array,
    rotation_error: Array,
    complete: bool,
    reason: str,
    robot: Robot,
    frame: str | None,
) -> Solutions:
    """Return all solutions (s, n) of one target."""
    return Solutions(
        q,
        position_error=position_error,
        rotation_error=rotation_error,
        reason="" if complete else reason,
        robot=robot,
        frame=frame,
        _targets=(),
        _complete=complete,
    )
