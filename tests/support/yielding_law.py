"""The step `Yielding` of a `Servo`, transcribed to NumPy from its rules.

The transcription is slow: it uses singular value decompositions throughout, and computes gradients
of singular values from differences of J. Rules and constants are those of servo/yielding.hpp,
singular_rules.hpp, braking_gain.hpp and avoidance.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple import Limits

Array = NDArray[np.float64]
Jacobian = Callable[[Array], Array]  # J (..., m, n) at q (..., n)

BRAKING_SHARE, CROSSING_RATIO, FOLD_SHARE, FOLD_PATIENCE = 0.5, 0.7, 0.7, 1.5
NEAR_SIGMA, LEAST_LAMBDA2, STEADINESS, PERSISTENCE = 0.2, 3e-8, 1e-8, 0.9
IGNORED_MISS, EASY_SHARE, LITTLE_ROOM = 1e-4, 0.3, 0.15
NEAR_FOLD, FOLD_BEND, FOLD_TIME = 0.15, 0.03, 1.0
AVOIDED_SIGMA, AVOIDED_RANGE, LIMIT_WEIGHT, LEAST_DIVISOR = 0.25, 0.1, 0.3, 2e-3


def approach_speed(room: float, acceleration: float, dt: float) -> float:
    """Return the largest speed from which a joint stops within a distance, by trying all steps.

    With k more steps of braking, the joint travels dt ((k + 1) v - a dt k (k + 1)/2).
    """
    if not np.isfinite(acceleration):
        return room / dt
    brake, k = acceleration * dt, 0
    while (k + 1) * (k + 2) / 2 * brake * dt <= room:
        k += 1
    return room / ((k + 1) * dt) + brake * k / 2


@dataclass(frozen=True)
class YieldingLaw:
    """The step for one task, given J(q), without position limits of joints.

    Attributes:
        jacobian: The function J(q).
        limits: The limits of the joints.
        dt: Length of a step [s].
        gain: Gain of the offset [1/s].
        kappa: Curvature of the robot, half its reach [m].
    """

    jacobian: Jacobian
    limits: Limits
    dt: float
    gain: float
    kappa: float

    def braking_gain(self, d: Array) -> float:
        accelerations = BRAKING_SHARE * self.limits.max_acceleration
        speeds = [
            approach_speed(abs(room), a, self.dt) / abs(room)
            for room, a in zip(d, accelerations, strict=True)
            if room != 0 and np.isfinite(a)
        ]
        return min([self.gain, *speeds])

    def slope(self, q: Array, u: Array, v: Array) -> Array:
        """Return the gradient (n,) of u·J v for fixed u and v."""
        h = 1e-6 * np.eye(len(q))
        return np.asarray(u @ (self.jacobian(q + h) - self.jacobian(q - h)) @ v / 2e-6)

    def room(self, q: Array, v: Array) -> float:
        ends = np.where(v > 0, self.limits.upper, self.limits.lower)
        matters = np.abs(v) >= 1e-3
        return float(np.maximum((ends - q)[matters] / v[matters], 0).min(initial=np.inf))

    def residual_bend(self, q: Array, residual: Array, V: Array) -> Array:
        """Return max(0, -r·J̇(v)v) for the residual r and each v of V (k, n)."""
        rates = (self.jacobian(q + 1e-6 * V) - self.jacobian(q - 1e-6 * V)) / 2e-6
        return np.maximum(-np.einsum("i,kij,kj->k", residual, rates, V), 0.0)

    def singular_speeds(
        self, q: Array, qd: Array, last: Array, rate: Array, offset: Array, slowing: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Return σ, the vectors V (k, n), the speeds y along them, and the dampings λ² (k each)."""
        dt, kappa = self.dt, self.kappa
        middle = q + 0.5 * dt * qd
        U, sigma, V = np.linalg.svd(self.jacobian(middle), full_matrices=False)
        U = U.T
        small, near = sigma < NEAR_SIGMA * kappa, np.flatnonzero(sigma < NEAR_SIGMA * kappa)
        mu2 = np.where(small, STEADINESS * kappa**2 / dt, 0.0)
        along, slopes = U @ offset, {i: self.slope(middle, U[i], V[i]) for i in near}
        residual = offset - U.T @ along
        for i in near:
            h, room = slopes[i] @ V[i], sigma[i] ** 2 / (2 * abs(slopes[i] @ V[i]))
            if along[i] * h < 0 and abs(along[i]) > room:
                residual = residual + U[i] * np.sign(along[i]) * (abs(along[i]) - room)
        bend = self.residual_bend(middle, residual, V)
        lambda2 = bend + np.where(small, LEAST_LAMBDA2 * kappa**2, 0.0)
        goals = sigma * along / (sigma**2 + lambda2)
        share = float((bend / np.maximum(sigma**2 + lambda2, 1e-300)).max())
        most = min(self.gain, (1 - share / 2) / dt)
        gain = min(most, self.braking_gain(V[~small].T @ goals[~small]))
        gains = np.full(len(sigma), gain)
        for i in near:
            gains[i] = min(gain, self.braking_gain(V[i] * goals[i]))
        c = U @ rate + gains * along
        y = sigma * c / (sigma**2 + lambda2 + mu2)
        for i in near:
            others = V.T @ y - V[i] * y[i]
            slope = slopes[i]
            h, side = float(slope @ V[i]), 1.0 if c[i] >= 0 else -1.0
            moves = np.abs(V[i]) > 1e-3
            most = float((self.limits.max_acceleration[moves] / np.abs(V[i][moves])).min())
            own, keeps, present = LEAST_LAMBDA2 * kappa**2, 0.0, float(V[i] @ qd)
            moved, corrected = np.linalg.norm(rate), self.gain * np.linalg.norm(offset)
            lasts = PERSISTENCE * moved / (moved + corrected) if moved > 0 else 0.0
            expected = present + lasts * (V[i] @ last)
            if np.isfinite(most):
                change = c[i] - sigma[i] * present
                crossing = abs(change * (slope @ others)) / most - CROSSING_RATIO * sigma[i] ** 2
                stopping = abs(slope @ others) * present**2 / most
                part = min(abs(change) / max(stopping, 1e-300), 1.0)
                if crossing > own:
                    own, keeps = max(own, part * crossing), (1 - part) * crossing
                turning = float(slope @ others)  # σ̇
                if turning != 0:
                    missed = abs(c[i] - sigma[i] * expected) * sigma[i] / (2 * abs(turning))
                    easy = EASY_SHARE * most * sigma[i] ** 3 / (4 * turning**2)
                    ratio = min((IGNORED_MISS * kappa) ** 2 / (missed**2 + easy**2), 1e8)
                    keeps += sigma[i] ** 2 * ratio
            fold = -side * np.sign(h) * sigma[i] / abs(h)  # the signed distance to the fold
            ahead = self.room(q, side * V[i]) - fold
            behind = self.room(q, -side * V[i]) + fold
            if side * h < -FOLD_BEND * kappa:
                room, moving = sigma[i] ** 2 / (2 * abs(h)), side * (U[i] @ rate)
                slows = max(-side * (U[i] @ slowing), moving / (2 * FOLD_TIME))
                past, away = side * along[i], np.inf
                if moving > 0:
                    past += moving**2 / (2 * slows)
                    away = 2 * np.sqrt(2 * max(past - room, 0) / slows)
                share = past / room - 1
                if abs(fold) < NEAR_FOLD and ahead < LITTLE_ROOM * behind:
                    share = 1.0
                elif np.isfinite(away * most):
                    share = min(share, away * most / max(abs(present), 1e-300) - FOLD_PATIENCE)
                share = np.clip(share, 0, 1)
                speed = approach_speed(sigma[i] / abs(h), FOLD_SHARE * most, dt)
                own = max(own, share * (sigma[i] * abs(c[i]) / speed - sigma[i] ** 2))
            lambda2[i] = bend[i] + own
            secant, steady = sigma[i], mu2[i]
            if h * c[i] > 0:
                start = sigma[i] - 0.5 * dt * h * present
                little = LITTLE_ROOM * (2 if side * present < 0 else 1)
                turn = -1 if abs(fold) < NEAR_FOLD and ahead < little * behind else 1
                secant = turn * (turn * start + np.sqrt(start**2 + 2 * dt * h * c[i])) / 2
                steady *= min((sigma[i] / secant) ** 2, 1.0)
            steady += keeps
            y[i] = (secant * c[i] + steady * expected) / (secant**2 + lambda2[i] + steady)
        return sigma, V, y, lambda2

    def exact_speeds(self, q: Array, qd: Array, rate: Array, offset: Array) -> Array:
        """Return the step (n,) where no singular value is small."""
        inverse = np.linalg.pinv(self.jacobian(q + 0.5 * self.dt * qd))
        return np.asarray(inverse @ (rate + self.braking_gain(inverse @ offset) * offset))

    def step(
        self, q: Array, qd: Array, last: Array, rate: Array, offset: Array, exact: bool
    ) -> Array:
        """Return the step before limits (n,), with its self-motion.

        `last` (n,) is the change of qd in the last step.

        Raises:
            AssertionError: `exact` is true where a rule changes the step by more than a twentieth.
        """
        offset = offset * min(1.0, self.kappa / max(float(np.linalg.norm(offset)), 1e-300))
        sigma, V, y, lambda2 = self.singular_speeds(q, qd, last, rate, offset, 0 * rate)
        x = self.exact_speeds(q, qd, rate, offset) if exact else V.T @ y
        if exact:
            mu2 = STEADINESS * self.kappa**2 / self.dt * (sigma < NEAR_SIGMA * self.kappa)
            assert (lambda2 + mu2 < 0.06 * sigma**2).all()
        return x + self.self_motion(q, qd, x) if len(sigma) < len(q) else x

    def self_motion(self, q: Array, qd: Array, x: Array) -> Array:
        """Return the self-motion (n,) that is added to the step x (n,)."""
        middle = q + 0.5 * self.dt * qd
        U, sigma, V = np.linalg.svd(self.jacobian(middle))
        m, n = len(sigma), len(q)
        g = np.zeros(n)
        if sigma[-1] < AVOIDED_SIGMA * self.kappa:
            least = max(sigma[-1], LEAST_DIVISOR * self.kappa)
            weight = 1 / least - 1 / (AVOIDED_SIGMA * self.kappa)
            g += weight * self.slope(middle, U[:, -1], V[m - 1])
        span = self.limits.upper - self.limits.lower
        for end, sign in ((q - self.limits.lower, 1), (self.limits.upper - q, -1)):
            with np.errstate(invalid="ignore"):
                near = np.maximum(end / span, LEAST_DIVISOR)
            pushed = np.isfinite(span) & (near < AVOIDED_RANGE)
            g[pushed] += sign * LIMIT_WEIGHT * (1 / near - 1 / AVOIDED_RANGE)[pushed] / span[pushed]
        z = V[m:].T @ (V[m:] @ g)
        return np.asarray(np.linalg.norm(x) * z / max(float(np.linalg.norm(z)), 1.0))
