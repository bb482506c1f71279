"""Robots on a GPU: problems are solved if there is a GPU, and only compiled otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from robots_files import End
from robots_judge import Outcome, Row, in_batch, poses_of, row_of
from robots_sets import sets
from supple.errors import MissingExtraError, SuppleError
from supple.gpu import runtime
from supple.gpu.source import source
from supple.ik.gpu import position
from supple.ik.problem import compile_problem

ARCHITECTURE = "sm_90"
# A CUDA kernel that uses the constants of a robot in both precisions. It compiles much faster than
# the search itself.
_TOUCH = """
namespace supple {
static_assert(RobotConstants<float>::ik.chain.joints == RobotConstants<double>::ik.chain.joints);
template <class T>
__device__ double touched(int j) {
  const auto& ik = RobotConstants<T>::ik;
  return double(ik.chain.joint[j].position[0]) + ik.lower[j] + ik.weight[j];
}
}  // namespace supple
extern "C" __global__ void touch(double* sum, int j) {
  *sum = supple::touched<float>(j) + supple::touched<double>(j);
}
"""


def compiles(end: End, whole: bool = False) -> str:
    """Return "yes" if a robot compiles for a GPU, otherwise the error; "" without a compiler.

    If `whole`, all CUDA kernels are compiled. Otherwise only the robot's constants are compiled, in
    both precisions, because other code does not depend on the robot.
    """
    search = compile_problem(end.robot, end.tasks)
    try:
        if not whole:
            text = source("problem.hpp", search.kernel.constants()) + _TOUCH
            return "yes" if b"touch" in runtime.compile_source(text, ARCHITECTURE) else "no kernel"
        for texts in position.texts(search).values():
            for text in texts:
                runtime.compile_source(text, ARCHITECTURE, relocatable=True)
    except MissingExtraError:
        return ""
    except SuppleError as error:
        return str(error)
    return "yes"


Work = tuple[str, Path | str, End, float | None]  # file, its path or text, range of the base [m]


def rows(work: Sequence[Work], device: str, count: int, hard: int) -> Iterator[Row]:
    """Solve the targets of each end effector on a GPU while code for the next ones compiles."""
    _, info = runtime.device_named(device)
    with ThreadPoolExecutor() as pool:
        ahead = [
            [pool.submit(_to_cache, text, apart, info.architecture) for text, apart in _texts(end)]
            for _, _, end, _ in work
        ]
        for one, compiling in zip(work, ahead, strict=True):
            for text in compiling:
                text.result()
            yield _row(one, device, count, hard)


def _texts(end: End) -> Iterator[tuple[str, bool]]:
    """Yield (text, linked) of each CUDA source for an end effector."""
    seen = set()
    for several in (False, True):
        for texts in position.texts(
            compile_problem(end.robot, end.tasks), several=several
        ).values():
            for text in texts:
                if text not in seen:
                    seen.add(text)
                    yield text, len(texts) > 1


def _to_cache(text: str, apart: bool, architecture: str) -> None:
    with contextlib.suppress(SuppleError):  # solving raises the same error again
        runtime.compile_source(text, architecture, relocatable=apart)


def _row(work: Work, device: str, count: int, hard: int) -> Row:
    file, source, end, spread = work
    row, (poses, _) = row_of(file, end), poses_of(source, end)
    row.compiled = "yes"
    for kind, one in sets(end, count, hard, spread=spread).items():
        try:
            row.batch[kind] = in_batch(end, poses, one, device)
        except SuppleError as error:
            row.compiled = str(error)
            row.batch[kind] = Outcome(len(one.q), 0, 0, 0, np.arange(len(one.q)), 0.0)
    return row
