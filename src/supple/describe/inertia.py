"""Masses and inertias of links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from supple.describe._pose import Array
from supple.describe.joint import PickledByFields, described_number, read_only
from supple.errors import DescriptionError, short_repr, unknown_name_error

_UNKNOWN = math.nan


@dataclass(frozen=True, eq=False)
class Inertia(PickledByFields):
    """The mass of a link, its center and its rotational inertia.

    The file readers store the values of a file without checking them, because most uses of a robot
    do not depend on masses. `check` checks them on first use.

    Attributes:
        link: Name of the link.
        mass: Mass [kg].
        center: Center of mass (3,) in the link's frame [m].
        matrix: Inertia matrix (3, 3) about the center of mass, in the link's axes [kg m²].
    """

    link: str
    mass: float
    center: Array
    matrix: Array

    def __post_init__(self) -> None:
        what = f"inertia of link {short_repr(self.link)}"
        object.__setattr__(self, "mass", described_number(self.mass, f"{what}: mass"))
        for key, shape in (("center", (3,)), ("matrix", (3, 3))):
            object.__setattr__(self, key, read_only(getattr(self, key), shape, f"{what}: {key}"))

    @classmethod
    def unknown(cls, link: str) -> Inertia:
        """Return the inertia, all NaN, of a link whose inertia is missing or cannot be read."""
        return cls(link, _UNKNOWN, np.full(3, _UNKNOWN), np.full((3, 3), _UNKNOWN))

    def check(self) -> None:
        """Raise an error unless mass, center and matrix are known and finite and the mass is >= 0.

        Principal moments are checked later, after the inertias of all links that fixed joints
        connect are added: some public files have small parts with negative moments.
        """
        what = f"inertia of link {short_repr(self.link)}"
        if math.isnan(self.mass):
            raise DescriptionError(
                f"{what} is missing in the file or not a number; "
                f"robot.with_inertia({short_repr(self.link)}, ...) sets it."
            )
        if not (math.isfinite(self.mass) and self.mass >= 0 and np.isfinite(self.center).all()):
            raise DescriptionError(
                f"{what}: expected a finite mass that is not negative and a finite center, given "
                f"{self.mass:g} kg at {short_repr(self.center.tolist())}."
            )
        given = f"given {short_repr(self.matrix.tolist())}."
        if not np.isfinite(self.matrix).all():
            raise DescriptionError(f"{what}: expected a finite matrix, {given}")
        largest = float(abs(self.matrix).max())
        if abs(self.matrix - self.matrix.T).max() > 1e-9 * largest:
            raise DescriptionError(f"{what}: expected a symmetric matrix, {given}")


def check_moments(matrix: Array, mass: float, what: str) -> None:
    """Raise an error if a principal moment of inertia is negative by more than rounding.

    Moments from -mass (1 µm)² to zero are treated as zero.
    """
    if np.linalg.eigvalsh(matrix)[0] < -max(1e-9 * abs(matrix).max(), 1e-12 * mass):
        given = f"given {short_repr(matrix.tolist())}."
        raise DescriptionError(f"{what}: a principal moment of inertia is negative, {given}")


def checked_inertias(inertias: Iterable[Inertia], links: Sequence[str]) -> tuple[Inertia, ...]:
    """Return inertias after checking that their links exist and that no link has two of them."""
    known, found = set(links), tuple(inertias)
    seen: set[str] = set()
    for each in found:
        if each.link not in known:
            raise DescriptionError(f"inertia: {unknown_name_error('link', each.link, links)}")
        if each.link in seen:
            raise DescriptionError(f"link {short_repr(each.link)} has two inertias.")
        seen.add(each.link)
    return found
