"""The motion of a walking human by formulas, to try a robot without recorded data."""

from __future__ import annotations

import numpy as np

from supple._arrays.checks import number
from supple.motion.linearization import Array
from supple.retargeting.motion import HumanMotion
from supple.retargeting.points import SIDES
from supple.retargeting.rotations import smooth, unit

_ANKLE, _TOE = 0.08, (0.14, -0.05)  # height of an ankle, and its way to the toe [m]
_THIGH, _SHIN, _UPPER, _FORE = 0.43, 0.42, 0.29, 0.26  # lengths of the limbs [m]
_STANCE_FRACTION = 0.62  # fraction of a cycle in which a foot stands


def walking(
    seconds: float = 4.0, *, fps: float = 60.0, seed: int | None = None, size: float = 1.0
) -> HumanMotion:
    """Return a human who walks, with the frames in which each foot stands.

    Standing feet do not move at all. Stride, pace, direction, height of the steps and swing of the
    arms are drawn from a seed.

    Args:
        seconds: Duration [s].
        fps: Frames per second.
        seed: Seed of the random numbers; None for an average walk along x.
        size: Factor on all lengths.
    """
    number(seconds, "seconds", above=0, most=3600)
    number(fps, "fps", above=0)
    number(size, "size", above=0)
    rng = np.random.default_rng(seed)
    draw = (lambda low, high: 0.5 * (low + high)) if seed is None else rng.uniform
    period, stride, lift = draw(1.0, 1.5), draw(0.7, 1.1), draw(0.08, 0.16)
    swing, crouch, width = draw(0.2, 0.6), draw(0.03, 0.08), draw(0.09, 0.13)
    heading = 0.0 if seed is None else rng.uniform(-np.pi, np.pi)
    t = np.arange(max(2, round(seconds * fps))) / fps
    points: dict[str, Array] = {}
    stands = np.empty((len(t), 2), dtype=bool)
    phase = t / period
    for k, side in enumerate(SIDES):
        cycle, part = np.divmod(phase + 0.5 * k, 1.0)
        stands[:, k] = part < _STANCE_FRACTION
        away = smooth((part - _STANCE_FRACTION) / (1 - _STANCE_FRACTION))
        x = stride * (cycle - 0.5 * k + away)
        z = _ANKLE + lift * 64 * (away * (1 - away)) ** 3
        points[f"{side}_ankle"] = np.stack([x, np.full_like(x, (1 - 2 * k) * width), z], axis=-1)
        pitch = 0.5 * np.sin(2 * np.pi * away) * (away * (1 - away)) * 4
        cos, sin = np.cos(pitch), np.sin(pitch)
        toe = np.stack([_TOE[0] * cos + _TOE[1] * sin, 0 * x, _TOE[1] * cos - _TOE[0] * sin], -1)
        points[f"{side}_toe"] = points[f"{side}_ankle"] + toe
    pelvis = np.zeros((len(t), 3))
    pelvis[:, 0] = stride * (phase - 0.5 * _STANCE_FRACTION + 0.06)
    pelvis[:, 1] = 0.25 * width * np.sin(2 * np.pi * (phase - 0.06))
    pelvis[:, 2] = _ANKLE + _THIGH + _SHIN - crouch - 0.5 * crouch * np.cos(4 * np.pi * phase)
    turn = 0.1 * np.sin(2 * np.pi * phase)
    across = np.stack([-np.sin(turn), np.cos(turn), 0 * turn], axis=-1)
    points["pelvis"] = pelvis
    points["spine"] = np.add(pelvis, [0.02, 0.0, 0.25])
    points["head"] = np.add(pelvis, [0.03, 0.0, 0.65])
    for k, side in enumerate(SIDES):
        sign = 1 - 2 * k
        hip = pelvis + 0.09 * sign * across
        shoulder = np.add(pelvis, [0.02, 0.0, 0.48]) + 0.18 * sign * across * [-1, 1, 1]
        angle = swing * np.sin(2 * np.pi * (phase + 0.5 * (1 - k)))
        upper = np.stack([np.sin(angle), 0 * t + 0.15 * sign, -np.cos(angle)], axis=-1)
        bend = angle + 0.5
        fore = np.stack([np.sin(bend), 0 * t, -np.cos(bend)], axis=-1)
        elbow = shoulder + _UPPER * unit(upper)
        points |= {
            f"{side}_hip": hip,
            f"{side}_knee": _knee(hip, points[f"{side}_ankle"]),
            f"{side}_shoulder": shoulder,
            f"{side}_elbow": elbow,
            f"{side}_wrist": elbow + _FORE * unit(fore),
        }
    c, s = np.cos(heading), np.sin(heading)
    about = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
    positions = size * np.stack(list(points.values()), axis=1) @ about.T
    return HumanMotion(tuple(points), positions, fps, contacts=stands)


def _knee(hip: Array, ankle: Array) -> Array:
    """Return the knee between a hip and an ankle, bent forward."""
    way = ankle - hip
    d = np.minimum(np.linalg.norm(way, axis=-1), 0.999 * (_THIGH + _SHIN))[:, None]
    along = unit(way)
    front = unit(np.array([1.0, 0, 0]) - along * along[:, :1])
    a = (d**2 + _THIGH**2 - _SHIN**2) / (2 * d)
    return np.asarray(hip + a * along + np.sqrt(np.maximum(_THIGH**2 - a**2, 0)) * front)
