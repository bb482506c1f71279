"""Random arms with six revolute joints, whose neighboring axes have all possible relations.

Zeros and right angles are frequent among their Denavit-Hartenberg parameters: neighboring axes are
parallel, intersect, coincide or are skew; some arms have a spherical wrist, or two or three
parallel axes, anywhere along the arm; some cannot move in all directions.
"""

from __future__ import annotations

import numpy as np

import supple as sp

RIGHT = np.pi / 2
Row = tuple[float, float, float, float]


def arm(seed: int) -> sp.Robot:
    """Return an arm; a third of the arms has no joint limits."""
    rng = np.random.default_rng([seed, 6])
    rows = dh_rows(rng)
    if rng.uniform() < 1 / 3:
        return sp.dh(rows)
    half = rng.uniform(1.0, np.pi, 6) if rng.uniform() < 0.5 else rng.uniform(2.5, 6.5, 6)
    middle = rng.uniform(-0.5, 0.5, 6) if rng.uniform() < 0.5 else np.zeros(6)
    return sp.dh(rows, limits=list(zip(middle - half, middle + half, strict=True)))


def dh_rows(rng: np.random.Generator) -> list[Row]:
    """Return rows (a, alpha, d, theta) of random parameters [m], [rad]."""
    share = rng.dirichlet([1.0, 1.0, 1.0, 0.7, 0.3, 0.1])  # the share of each relation in this arm
    no_offset = rng.choice([0.2, 0.5, 0.9])
    rows = []
    for _ in range(6):
        a, alpha = _relation(rng, int(rng.choice(6, p=share)))
        d = 0.0 if rng.uniform() < no_offset else _length(rng)
        theta = rng.choice([0.0, RIGHT, -RIGHT, np.pi]) if rng.uniform() < 0.7 else _angle(rng)
        rows.append((a, alpha, d, float(theta)))
    special = rng.uniform()
    first = int(rng.integers(4))
    if special < 0.1:  # three axes that intersect in a point: a spherical wrist, anywhere
        for i in (first, first + 1):
            alpha = rng.choice([-RIGHT, RIGHT]) if rng.uniform() < 0.7 else _angle(rng)
            rows[i] = (0.0, float(alpha), 0.0 if i > first else rows[i][2], rows[i][3])
    elif special < 0.2:  # three parallel axes, anywhere
        for i in (first, first + 1):
            rows[i] = (_length(rng), float(rng.choice([0.0, np.pi])), rows[i][2], rows[i][3])
    return rows


def _relation(rng: np.random.Generator, kind: int) -> tuple[float, float]:
    """Return the distance a and the angle alpha between neighboring axes."""
    right, straight = float(rng.choice([-RIGHT, RIGHT])), float(rng.choice([0.0, np.pi]))
    return [
        (_length(rng), straight),  # parallel
        (0.0, right),  # intersecting at right angles
        (_length(rng), right),  # skew at right angles
        (0.0, _angle(rng)),  # intersecting
        (_length(rng), _angle(rng)),  # skew
        (0.0, straight),  # coincident
    ][kind]


def _length(rng: np.random.Generator) -> float:
    return float(rng.choice([-1.0, 1.0]) * rng.uniform(0.05, 0.6))


def _angle(rng: np.random.Generator) -> float:
    return float(rng.uniform(-np.pi, np.pi))
