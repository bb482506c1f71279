"""Random paths of one to eight joints with random limits of speed, acceleration and jerk."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.paths.spline import Spline
from supple.paths.timing import Bounds

Array = NDArray[np.float64]

KINDS = ("line", "points", "waves", "dense", "corner")


class TimedPath(NamedTuple):
    """A path, and the limits of its joints."""

    kind: str
    q: Array
    bounds: Bounds

    @property
    def spline(self) -> Spline:
        """The spline through the configurations; its parameter is the length of the chords."""
        gaps = np.linalg.norm(np.diff(self.q, axis=0), axis=1)
        return Spline.through(np.append(0.0, np.cumsum(gaps)), self.q)


def timed_path(seed: int, kind: str | None = None) -> TimedPath:
    """Return a path whose limits of jerk are 5 to 5000 1/s times the limits of acceleration.

    The kind is one of KINDS or "back", a line on which the motion goes there and back.
    """
    rng = np.random.default_rng(seed)
    n, kind = int(rng.integers(1, 9)), kind or KINDS[seed % len(KINDS)]
    speed = 10 ** rng.uniform(-0.3, 0.7) * rng.uniform(0.6, 1.6, n)
    acceleration = speed.mean() * 10 ** rng.uniform(0, 1.2) * rng.uniform(0.6, 1.6, n)
    ratio = 10 ** rng.uniform(np.log10(5), np.log10(5000))
    jerk = acceleration.mean() * ratio * rng.uniform(0.6, 1.6, n)
    return TimedPath(kind, _points(kind, n, rng), Bounds(speed, acceleration, jerk))


def _points(kind: str, n: int, rng: np.random.Generator) -> Array:
    if kind == "line":
        return rng.normal(size=(2, n)) * 10 ** rng.uniform(-2, 1)
    if kind == "back":  # a line on which the motion turns back once, at or between two points
        x, turn = np.linspace(0, 1, int(rng.integers(20, 200))), rng.uniform(0.4, 0.8)
        shape = (-((x - turn) ** 2), np.minimum(x, 2 * turn - x), np.sin(np.pi * x / 2 / turn))
        return np.outer(shape[rng.integers(3)], rng.normal(size=n) * 10 ** rng.uniform(-1, 0.5))
    if kind == "points":
        return rng.normal(size=(int(rng.integers(3, 9)), n))
    if kind == "corner":  # two lines that meet at a corner, where the motion nearly stops
        along = np.linspace(0, 1, int(rng.integers(10, 80)))[:, None]
        first, second = (a + along * (b - a) for a, b in pairwise(rng.normal(size=(3, n))))
        return np.concatenate([first, second[1:]])
    s = np.linspace(0, 1, 500 if kind == "dense" else int(rng.integers(20, 300)))[:, None]
    waves = [
        rng.normal(size=n)
        / k
        * np.sin(np.pi * k * s * rng.uniform(0.5, 1.5) + rng.uniform(0, 6, n))
        for k in range(1, int(rng.integers(2, 5)))
    ]
    return np.asarray(np.sum(waves, axis=0) * 10 ** rng.uniform(-1.5, 0.3))
