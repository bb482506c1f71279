"""Position inverse kinematics on a GPU: the solver of `supple.Solver(device="cuda")`.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple._core import FLOAT_RESOLUTION, TargetKind
from supple.gpu.arrays import DeviceArrayView
from supple.gpu.queue import Queue, Recording, Work, allocate_arrays
from supple.gpu.runtime import Memory, compile_linked, open_device
from supple.gpu.source import block_size, constant_of, source
from supple.ik.branches.arms import ClosedFormArm, arm_of
from supple.ik.gpu.branches import GpuBranches
from supple.ik.gpu.calls import DeviceCall, Part, parts_of
from supple.ik.gpu.judged import judged
from supple.ik.gpu.packed_table import packed_table, table_steps
from supple.ik.gpu.ranking import fill, rank, write_costs
from supple.ik.gpu.request import Request, SearchOptions, SolutionPointers
from supple.ik.gpu.targets import Reader, View
from supple.ik.gpu.world import NO_WORLD, WorldSizes
from supple.ik.problem import CompiledProblem
from supple.ik.world_check import WorldCheck
from supple.motion.linearization import Array

# Source files that are compiled in parallel and linked, and their CUDA kernels.
_CALLED = ("iterate.cu", "polish.cu", "closest.cu", "settle.cu")
KERNELS = {
    ("search.cu", "explore.cu", *_CALLED): ("nearest_seeds", "search", "finish", "explore"),
    ("postprocess.cu",): ("postprocess", "drop"),
}
_WORLD = ("reject.cu", "collide.cu"), ("reject", "restore")  # linked to the first group in a world

_LISTED = constant_of("search.cu", "listed")  # number of seeds of the table for each target
# Number of targets up to which a warp per target is faster than a thread per target: first for
# tasks with up to six rows, second for tasks with more rows.
FEW = 4_000
FEW_LARGE = 11_000
# Number of seeds that one thread tries for each target: in batches of up to `_SMALL` targets, of up
# to `_MEDIUM` targets, in larger batches, and for tasks with more than six rows. Targets that
# remain unsolved get a warp each; a small batch leaves most warps free for this.
_SMALL_TRIES = 1
_MEDIUM_TRIES = 4
_TRIES = 8
_MANY_TRIES = 16
_SMALL = 12_000
_MEDIUM = 200_000  # up to this number of targets, warps look up seeds for fewer targets at a time
_MAX_TARGETS = 1 << 23  # maximum number of targets per launch, because indices are ints
_FILES = {  # files of the CUDA kernels
    **dict.fromkeys(("nearest_seeds", "search", "finish"), "search.cu"),
    "explore": "explore.cu",
    **dict.fromkeys(("postprocess", "drop"), "postprocess.cu"),
    **dict.fromkeys(("reject", "restore"), "reject.cu"),
}
_COUNTERS = 32  # size of two arrays `Request.counter` [bytes]
_SEARCH_TYPE = {"mixed": ("float", 4), "double": ("double", 8)}  # name in C++, bytes


def texts(
    problem: CompiledProblem,
    precision: str = "mixed",
    several: bool = False,
    world: WorldSizes = NO_WORLD,
) -> dict[tuple[str, ...], list[str]]:
    """Return the source texts of a problem for each group of CUDA kernels in `KERNELS`."""
    constants, rough = problem.kernel.constants(), _SEARCH_TYPE[precision][0]
    several = several or bool(problem.rest)

    def text(name: str) -> str:
        return source(name, constants, rough, several and name == "explore.cu", world)

    groups = dict(KERNELS)
    if not several:
        del groups[("postprocess.cu",)]
    if any(world):
        search, (files, kernels) = next(iter(groups)), _WORLD
        groups = {(*search, *files): (*groups.pop(search), *kernels), **groups}
    return {kernels: [text(name) for name in files] for files, kernels in groups.items()}


class GpuSolver:
    """A problem compiled for a GPU, with its table of seeds in GPU memory.

    Args:
        problem: The problem to solve.
        precision: Precision of the search, "mixed" or "double".
        several: Whether several solutions of a target are compared.
        number: Number of the GPU.
        architecture: Architecture of the GPU, for example "sm_90".
        world: Sizes of the robot in a world.
    """

    _reader: Reader | None = None

    def __init__(
        self,
        problem: CompiledProblem,
        precision: str,
        several: bool,
        number: int,
        architecture: str,
        world: WorldSizes = NO_WORLD,
    ) -> None:
        self.problem = problem
        self.device = open_device(number)
        self.postprocesses = several or bool(problem.rest)
        self._rough = _SEARCH_TYPE[precision][1]

        def loaded(names: tuple[str, ...], parts: list[str]) -> dict[str, Any]:
            self.device.use()  # (linking needs a context in each thread)
            return self.device.load(compile_linked(parts, architecture), names)

        arm = arm_of(problem) if any(world) else None
        self._branches = None  # all solutions of an arm, where these can be computed on a GPU
        each = texts(problem, precision, several, world)
        with ThreadPoolExecutor() as pool:  # (the compiler releases the GIL)
            kernels = pool.map(loaded, each.keys(), each.values())
            if isinstance(arm, ClosedFormArm):
                self._branches = GpuBranches(problem, arm, number, architecture, world)
            self.kernels: dict[str, Any] = {k: v for some in kernels for k, v in some.items()}
        self.device.use()
        self._architecture = architecture
        stream = self.device.stream()
        table = np.ascontiguousarray(problem.seed_table.table(problem.layout).T)
        self._table = self._kept(table, stream)
        self._packed = self._kept(packed_table(table, problem.seed_table.scale), stream)
        robot, rough = problem.layout.robot, np.float32 if self._rough == 4 else np.float64
        seeds = np.clip(problem.seed_table.seeds, robot.lower, robot.upper)
        self._seeds = self._kept(np.ascontiguousarray(seeds, rough), stream)
        directions, heights, probes = problem.kernel.reach()
        self._sizes = directions.shape[1], len(probes)
        parts = (directions, heights, probes)
        self._reach = self._kept(np.concatenate([x.ravel() for x in parts]), stream)
        self.device.wait(stream)
        self.entries = table.shape[1]

    def _kept(self, array: NDArray[Any], stream: int) -> Memory:
        memory = self.device.allocate(array.nbytes, stream)
        self.device.upload(memory.pointer, array, stream)
        return memory

    def solve(self, targets: Array, q0: Array | None, options: SearchOptions) -> tuple[Any, ...]:
        """Solve targets (B, k) from the seeds q0: (B, n), (n,) for all targets, or None.

        Returns:
            For s = options.rows: q (B, s, n), status (B, s), position and rotation errors
            (B, s, 2), iterations and seeds (B, s, 2), and the number of solutions (B,).
        """
        pieces = []
        size = max(1, _MAX_TARGETS // options.max_solutions)
        for i in range(0, max(len(targets), 1), size):
            own = q0[i : i + size] if q0 is not None and q0.ndim > 1 else q0
            pieces.append(self._piece(targets[i : i + size], own, options))
        if len(pieces) == 1:
            return pieces[0]
        return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))

    def _piece(self, targets: Array, q0: Array | None, options: SearchOptions) -> tuple[Any, ...]:
        gpu, count, n = self.device, len(targets), self.problem.layout.robot.nv
        gpu.use()
        stream = gpu.stream()
        rows, several = options.rows, options.max_solutions > 1
        sizes = self._results(count, rows)
        if several:
            sizes["solutions"] = 4 * count
        inputs = {"target": targets.nbytes, "q0": 0 if q0 is None else q0.nbytes}
        work = Queue(gpu, stream)
        memory, at = allocate_arrays(sizes | inputs, work)
        gpu.upload(at["target"], targets, stream)
        if q0 is not None:
            gpu.upload(at["q0"], np.ascontiguousarray(q0), stream)
        else:
            at["q0"] = 0
        if count:
            step = n if q0 is not None and q0.ndim > 1 else 0
            self.launch(at, count, options, work, step)
        # Copy all results in one transfer.
        host = np.empty(at["target"] - memory.pointer, dtype=np.uint8)
        gpu.download(host, memory.pointer, stream)

        def part(name: str, dtype: Any, *shape: int) -> NDArray[Any]:
            first = at[name] - memory.pointer
            piece: NDArray[Any] = host[first : first + sizes[name]].view(dtype)
            return piece.reshape(shape)

        effort = part("effort", np.int32, count, rows, 2)
        effort[..., 1] += 1  # number of seeds: one more than the number of restarts
        return (
            part("q", np.float64, count, rows, n),
            part("outcome", np.int8, count, rows),
            part("error", np.float64, count, rows, 2),
            effort,
            part("solutions", np.int32, count) if several else np.ones(count, np.int32),
        )

    def _results(self, count: int, each: int) -> dict[str, int]:
        """Return the size of each result array in the kernel's layout [bytes]."""
        rows = count * each
        return {
            "q": 8 * self.problem.layout.robot.nv * rows,
            "error": 16 * rows,
            "effort": 8 * rows,
            "outcome": rows,
        }

    def record(
        self,
        views: Sequence[DeviceArrayView],
        seeded: bool,
        options: SearchOptions,
        check: WorldCheck | None = None,
        listed: bool = False,
        prefer: Callable[[Any], Any] | None = None,
        library: str = "",
    ) -> DeviceCall:
        """Record a call with arrays in GPU memory.

        Targets that are not finite, or not valid poses, get `SolveStatus.NONFINITE_INPUT`.

        Args:
            views: The targets, one for each task, then the seeds if there are any.
            seeded: Whether there are seeds.
            options: Options of the search.
            check: The check of `options`, for the results.
            listed: Whether the results have an axis with the solutions of each target.
            prefer: Function by which several solutions are chosen, if it is the caller's.
            library: Name of the library of the arrays that `prefer` is called with.
        """
        if prefer is not None:
            every = replace(options, kept=0)
            search = self.record(views, seeded, every, check, listed=True)
            sizes = self._results(math.prod(search.fields["_targets"]), options.kept)
            return judged(self._arrays(), search, listed, options.kept, sizes, prefer, library)
        robot, seeds = self.problem.layout.robot, views[-1] if seeded else None
        n, rows = robot.nq, options.rows
        reader, recording = self._arrays(), Recording(self.device)
        given, most = views[: len(views) - seeded], _MAX_TARGETS // options.max_solutions
        lead, numbers = reader.targets(given, recording, most, self._reads(options))
        count = math.prod(lead)
        sizes = self._results(count, rows) | {"q": 8 * n * rows * count}
        shape = () if seeds is None else reader.seeds(seeds, lead)
        if options.max_solutions > 1:
            sizes["solutions"] = 4 * count
        if seeds is not None:
            sizes["q0"] = 8 * math.prod(shape)
        converted = 8 * self.problem.layout.kernel.targets * count  # size of the targets [bytes]
        if (
            not isinstance(numbers, int) and count <= self._few()
        ):  # (one allocation takes less time)
            sizes["target"] = converted
        begins, at = recording.arrays(sizes)
        axes = (*lead, rows) if listed else lead
        parts = {
            name: Part(begins[array] + place * kind.itemsize, kind, axes, inner, step)
            for name, (array, place, kind, inner, step) in parts_of(n).items()
        }
        if listed and options.max_solutions > 1:
            parts["_count"] = Part(begins["solutions"], np.dtype(np.int32), lead, (), 1)
        if isinstance(numbers, int):
            at["target"], numbers = numbers, (View(), TargetKind.POSE)
        elif count > self._few():
            at["target"] = recording.scratch(converted).pointer
        if seeds is None:
            at["q0"] = 0
        else:
            at["q0"] = reader.copy_seeds(seeds, at["q0"], recording)
            parts["q0"] = Part(begins["q0"], np.dtype(np.float64), shape[:-1], (n,), n)
        q = at["q"]
        at["q"] = reader.coordinates(q, rows * count, recording)
        if count:
            stride = robot.nv if len(shape) > 1 else 0
            self.launch(at, count, options, recording, stride, numbers)
        reader.configurations(at["q"], q, rows * count, recording)
        if listed and options.order is None and rows > 1 and count:
            found = SolutionPointers.among(at | {"q": q}, rows)
            fill(self.device, self._architecture, found, n, count, recording)
        fields = {"robot": robot, "tasks": self.problem.layout.tasks, "_check": check}
        if listed:
            fields["_targets"] = lead
            if options.max_solutions == 1:
                fields["_count"] = np.ones(lead, np.int32)
        return DeviceCall(recording.recorded(), parts, fields)

    def _arrays(self) -> Reader:
        """Return the converter of arrays, which is kept for the recorded calls."""
        if self._reader is None:
            self._reader = Reader(self.problem, self.device, self._architecture)
        return self._reader

    def _reads(self, options: SearchOptions) -> int:
        """Return the number of targets up to which the search itself converts them."""
        return _MAX_TARGETS if options.max_solutions == 1 else self._few()

    def _few(self) -> int:
        """Return the number of targets up to which each gets a warp."""
        return FEW if len(self.problem.layout.rows) <= 6 else FEW_LARGE

    def _tries(self, count: int) -> int:
        """Return the number of seeds that one thread tries for each target."""
        if len(self.problem.layout.rows) > 6:
            return _MANY_TRIES
        if count <= _SMALL:
            return _SMALL_TRIES
        return _MEDIUM_TRIES if count <= _MEDIUM else _TRIES

    def launch(
        self,
        at: dict[str, int],
        count: int,
        options: SearchOptions,
        work: Work,
        q0_stride: int = 0,
        given: tuple[View, TargetKind] | None = None,
    ) -> None:
        """Solve asynchronously; `at` holds the addresses of the arrays.

        `given` is a view of the targets, and their kind, if they are not yet converted.
        """
        if options.order is not None:
            self._launch_sorted(at, count, options, work, q0_stride, given)
            return
        gpu, n, most = self.device, self.problem.layout.robot.nv, options.max_solutions
        many = count > self._few() and most == 1
        check, known = options.check, self._branches if options.check and most == 1 else None
        sizes: dict[str, int] = {}
        if many:
            numbers = self.problem.layout.kernel.targets
            sizes |= {"near": 2 * _LISTED * count, "rough": self._rough * n * count}
            sizes["aim"] = self._rough * numbers * count
        if many or known is not None:
            sizes |= {"counter": _COUNTERS, "left": 4 * count}
        if known is not None:
            sizes |= {"blocked": 4 * count, "again": 4 * count}
        if check is not None and self.postprocesses:
            sizes["before"] = 8 * (n + 2) * count * most
        memory, own = allocate_arrays(sizes, work) if sizes else (None, {})
        again = own.pop("again", 0)
        if "counter" in own:
            work.zero(own["counter"], _COUNTERS)
        request = Request(
            **at,
            **own,
            **({} if check is None else check.members()),
            table=self._table.pointer,
            packed=self._packed.pointer,
            seeds=self._seeds.pointer,
            reach=self._reach.pointer,
            directions=self._sizes[0],
            probes=self._sizes[1],
            position=options.position,
            rotation=options.rotation,
            rough_position=max(options.position, self.problem.float_tolerance),
            rough_rotation=max(options.rotation, FLOAT_RESOLUTION),
            count=count,
            entries=self.entries,
            max_seeds=options.max_seeds or self.problem.default_starts,
            q0_stride=q0_stride,
            nearest=options.nearest,
            max_solutions=most,
            tries=self._tries(count),
        )

        def start(
            name: str, threads: int, *more: Any, by: Request = request, blocks: int | None = None
        ) -> None:
            """Launch a CUDA kernel on a number of threads, in at most `blocks` blocks."""
            size = block_size(_FILES[name], name)
            needed = max(1, -(-threads // size))
            work.launch(self.kernels[name], min(needed, blocks or needed), size, by, *more)

        view, kind = given or (View(), TargetKind.POSE)
        read = view, ctypes.c_int(kind.value)
        busy = 4 * gpu.processors  # blocks whose threads take one target after another
        if many:
            tiles = 1 if count <= _MEDIUM or table_steps(self.problem) > 2 else 4
            start("nearest_seeds", 32 * -(-count // (16 * tiles)), ctypes.c_int(tiles), *read)
            start("search", count, blocks=busy)
            start("finish", count)
            if check is not None:
                start("reject", count)
        first = (ctypes.c_int(many), *((View(), ctypes.c_int(0)) if many else read))
        if known is None:
            start("explore", 32 * count, *first, blocks=busy)
        else:
            # One solution that collides ends the first search. Then all solutions that the arm has
            # in closed form are checked; a second search is for targets that may have more.
            second = Request.from_buffer_copy(request)
            second.left, second.counter, second.blocked = again, own["counter"] + 16, None
            request.max_rejected = 1
            start("explore", 32 * count, *first, blocks=busy)
            known.choose(request, second, work)
            again_all = ctypes.c_int(1), View(), ctypes.c_int(0)
            start("explore", 32 * count, *again_all, by=second, blocks=busy)
        if self.postprocesses:
            start("postprocess", count * most)
            if check is not None:
                start("restore", count * most)
        if most > 1 and self.problem.rest:  # postprocessing may have made solutions equal
            start("drop", 32 * count)
        del memory  # freed on the stream, after its last use there

    def _launch_sorted(
        self,
        at: dict[str, int],
        count: int,
        options: SearchOptions,
        work: Work,
        q0_stride: int,
        given: tuple[View, TargetKind] | None,
    ) -> None:
        """Solve as `launch`, and keep the best solutions of each target, sorted."""
        gpu, most, n = self.device, options.max_solutions, self.problem.layout.robot.nv
        sizes = self._results(count, most) | {"solutions": 4 * count, "cost": 8 * most * count}
        memory, own = allocate_arrays(sizes, work)
        cost = own.pop("cost")
        self.launch(at | own, count, replace(options, order=None), work, q0_stride, given)
        request = Request(
            target=at["target"],
            q0=at["q0"] or None,
            q=own["q"],
            count=count,
            q0_stride=q0_stride,
            max_solutions=most,
            solutions=own["solutions"],
        )
        assert options.order is not None
        made = (gpu, self._architecture)
        write_costs(self.problem, *made, request, options.order, cost, work)
        found = SolutionPointers.among(own, most)
        to = SolutionPointers.among(at, options.rows)
        rank(*made, found, (cost, 0), n, to, count, work)
        del memory  # freed on the stream, after its last use there
