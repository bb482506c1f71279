"""Certificates: lower bounds of the distances of all pairs along a curve of the joints.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from supple.collision.model import CollisionModel, model_of
from supple.collision.parts import Array
from supple.collision.world import World
from supple.kinematics import Robot
from supple.kinematics.configuration import difference, in_balls, to_kernel

# The lower bound is below the smallest distance on the curve by at most the larger of these.
_ABSOLUTE_TOLERANCE = 1e-4  # [m]
_RELATIVE_TOLERANCE = 0.01


@dataclass(frozen=True)
class Certificate:
    """What is proven about the distances of all pairs along a motion of the joints.

    The proof covers the whole motion, not only samples; obstacles stand still. docs/collision.md
    describes the bound and its assumptions.

    Attributes:
        clearance: Distance that all pairs should keep [m].
        min_clearance: Lower bound of the distances of all pairs anywhere on the motion [m],
            infinite if no pair is checked. It is below the smallest distance by at most 0.1 mm or
            1 %, whichever is larger.
        interval: Begin and end of the first part of the motion that is not certified, as places on
            a path or times [s]; None if the whole motion is certified. Begin and end are equal if
            this part is the motion of a reconfiguration at one place of the path.
        pair: Names of two links or obstacles that may be closer than the clearance in this part.
    """

    clearance: float
    min_clearance: float
    interval: tuple[float, float] | None = None
    pair: tuple[str, str] | None = None
    _place: tuple[Robot, World] | None = field(default=None, repr=False, compare=False)

    @property
    def certified(self) -> bool:
        """Whether all pairs are proven to keep the clearance during the whole motion."""
        return self.interval is None

    def __bool__(self) -> bool:
        return self.certified

    def __str__(self) -> str:
        if self.interval is None:
            least = f"{1e3 * self.min_clearance:.4g} mm"
            return f"certified: all pairs keep {least} of clearance" if self.pairs else "certified"
        begin, end = self.interval
        where = f"at {begin:.6g}" if begin == end else f"between {begin:.6g} and {end:.6g}"
        one, other = self.pair or ("?", "?")
        return (
            f"not certified {where}: {one} and {other} may be closer than "
            f"{1e3 * self.clearance:.4g} mm"
        )

    @property
    def pairs(self) -> bool:
        """Whether there are pairs that are checked."""
        return bool(np.isfinite(self.min_clearance))

    def at(self, place: float) -> Certificate:
        """Return this certificate for a reconfiguration, a motion at one place of a path."""
        return self if self.interval is None else replace(self, interval=(place, place))

    def __and__(self, other: Certificate) -> Certificate:
        """Return the certificate of this motion followed by the motion of `other`."""
        first = other if self.interval is None else self
        least = min(self.min_clearance, other.min_clearance)
        return replace(first, min_clearance=least)

    def again(self, t: Array, q: Array) -> Certificate | None:
        """Return the certificate of another motion in the same world, linear between samples."""
        if self._place is None:
            return None
        return polygon_certificate(model_of(*self._place), self.clearance, t, q)


def certificate_of_both(
    one: Certificate | None, other: Certificate | None, t: Array, q: Array
) -> Certificate | None:
    """Return the certificate of two joined motions; None if their worlds or clearances differ."""
    if one is None or other is None or one._place != other._place:
        return None
    return one.again(t, q) if one.clearance == other.clearance else None


class Certified:
    """A motion with a certificate, if it was planned or simulated in a world."""

    certificate: Certificate | None

    @property
    def certified(self) -> bool:
        """Whether the whole motion is proven to keep the clearance; false without a world."""
        return self.certificate is not None and self.certificate.certified

    @property
    def min_clearance(self) -> float | None:
        """A lower bound of all distances during the motion [m]; None without a world."""
        return None if self.certificate is None else self.certificate.min_clearance


class Curve(NamedTuple):
    """Cubic pieces between parameters s (N + 1,), with coefficients (4, N, n), as in a `Spline`.

    The coefficients of a ball joint describe the rotation vector by which it turns from its anchor.
    The anchor of each piece is another rotation vector, in `anchors` (N, n); None if all are zero.
    """

    s: Array
    coefficients: Array
    anchors: Array | None = None


def polygon(robot: Robot, s: Array, q: Array) -> Curve:
    """Return the curve through configurations q (N + 1, nq) at s (N + 1,).

    Between them, joints move linearly, and ball joints turn by the shortest rotations.
    """
    made = np.zeros((4, len(s) - 1, robot.nv))
    at, balls = to_kernel(robot, q[:-1]), in_balls(robot)
    made[0] = np.where(balls, 0.0, at)
    made[1] = difference(robot, q[1:], q[:-1]) / np.diff(s)[:, None]
    return Curve(s, made, np.where(balls, at, 0.0))


def curve_certificate(
    model: CollisionModel, clearance: float, curves: Sequence[Curve], *, first: bool = False
) -> Certificate:
    """Return the certificate of one curve after another.

    Args:
        model: The robot in its world.
        clearance: Distance that all pairs should keep [m].
        curves: Curves of the joints.
        first: Whether to end at the first part that is not certified; the lower bound then does not
            hold for the whole motion.
    """
    made = Certificate(clearance, np.inf, _place=(model.robot, model.world))
    if model.kernel is None:
        return made
    for s, coefficients, anchors in curves:
        zero = np.zeros(coefficients.shape[1:])
        bound, _, begin, end, pair = model.kernel.curve_bound(
            np.ascontiguousarray(s, dtype=np.float64),
            np.ascontiguousarray(coefficients, dtype=np.float64),
            np.ascontiguousarray(zero if anchors is None else anchors, dtype=np.float64),
            clearance=clearance,
            absolute=_ABSOLUTE_TOLERANCE,
            relative=_RELATIVE_TOLERANCE,
            first=first,
        )
        one = replace(made, min_clearance=bound, interval=None, pair=None)
        if pair >= 0:
            names = tuple(model.parts.owner[i] for i in model.pairs[pair].tolist())
            one = replace(one, interval=(begin, end), pair=(names[0], names[1]))
        made = made & one
        if first and not made:
            break
    return made


def polygon_certificate(
    model: CollisionModel, clearance: float, t: Array, q: Array, *, first: bool = False
) -> Certificate:
    """Return the certificate of a motion (K, nq) that is linear between samples at t (K,)."""
    if len(t) == 1:
        t, q = np.array([t[0], t[0] + 1.0]), np.repeat(q, 2, axis=0)
    return curve_certificate(model, clearance, [polygon(model.robot, t, q)], first=first)
