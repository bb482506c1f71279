"""Optimally damped steps compared with NumPy's SVD, on one core, in one interleaved run.

python bench/optimal.py [ROUNDS [PAIRS]] prints a table and writes it to bench/results/. Jacobians
are those of a Panda at random configurations, task vectors are random twists, and the bound on the
joint speed is such that half of the pairs (J, e) need damping. Times are processor times per pair
[µs].
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import measure
import supple as sp
from supple import _core

FRAME, CALLS = "panda_hand", 2_000
FILES = Path(os.environ.get("SUPPLE_ROBOT_FILES") or Path(sys.prefix) / "robot-files")
PANDA = FILES / "frax/assets/franka_panda/panda.urdf"
NUMPY = "NumPy, SVD and Newton on arrays"


def with_numpy(J: np.ndarray, e: np.ndarray, bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Return q̇ and λ² by a batched SVD, and Newton's method on 1/‖q̇‖ where ‖q̇‖ > bound."""
    U, sigma, Vt = np.linalg.svd(J, full_matrices=False)
    gamma = (e[:, None, :] @ U)[:, 0]
    weight, sigma2 = sigma * gamma, sigma * sigma
    lambda2 = np.zeros(len(J))
    rest = np.flatnonzero(((weight / sigma2) ** 2).sum(axis=1) > bound**2)
    w2, s2, x = weight[rest] ** 2, sigma2[rest], np.zeros(len(rest))
    while len(rest):
        inverse = 1 / (s2 + x[:, None])
        terms = w2 * inverse**2
        square = terms.sum(axis=1)
        phi = np.sqrt(square)
        x = x + (phi / bound - 1) * square / (terms * inverse).sum(axis=1)
        lambda2[rest] = x
        more = phi > bound * (1 + 1e-12)
        rest, w2, s2, x = rest[more], w2[more], s2[more], x[more]
    gain = weight / (sigma2 + lambda2[:, None])
    return (gain[:, None, :] @ Vt)[:, 0], lambda2


def timed(work: Callable[[], object], count: int) -> Callable[[], float]:
    """Return a contender: a function that returns microseconds per pair."""

    def measured() -> float:
        start = time.process_time()
        work()
        return (time.process_time() - start) / count * 1e6

    return measured


def main(rounds: int, pairs: int) -> None:
    """Time all variants, check that they agree, and print and save the table."""
    measure.one_core()
    robot = sp.urdf(PANDA)
    J = robot.jacobian(robot.random(pairs, seed=0), FRAME)
    e = np.random.default_rng(1).standard_normal((pairs, 6))
    free = np.linalg.norm(sp.steps.Pseudoinverse()(sp.Linearization(J, e)), axis=1)
    bound = float(np.median(free))
    fast = sp.DLS(sp.damping.Optimal(bound))
    by_svd = sp.DLS(sp.damping.Optimal(bound), "svd")
    J32, e32 = J.astype(np.float32), e.astype(np.float32)
    J1, e1 = J[:1].copy(), e[:1].copy()

    def batch(step: sp.DLS, J: np.ndarray, e: np.ndarray, isa: str) -> Callable[[], object]:
        def work() -> object:
            _core.use_isa(isa)
            return step(sp.Linearization(J, e))

        return work

    def one_by_one() -> None:
        for _ in range(CALLS):
            fast(sp.Linearization(J1, e1))

    best = _core.isas()[-1]
    contenders = {NUMPY: timed(lambda: with_numpy(J, e, bound), pairs)}
    for isa in _core.isas():
        contenders[f"supple, {isa}"] = timed(batch(fast, J, e, isa), pairs)
    contenders[f"supple, {best}, by SVD"] = timed(batch(by_svd, J, e, best), pairs)
    contenders[f"supple, {best}, float"] = timed(batch(fast, J32, e32, best), pairs)
    contenders["supple, one call for each pair, from Python"] = timed(one_by_one, CALLS)

    many = sp.Linearization(J, e)
    dq, lambda2 = fast(many), fast.lambda2(many)
    dq_numpy, lambda2_numpy = with_numpy(J, e, bound)
    assert np.abs(dq - dq_numpy).max() < 1e-9 * bound
    assert np.abs(lambda2 - lambda2_numpy).max() < 1e-9
    damped = float((lambda2 > 0).mean())

    found = measure.medians(measure.interleaved(contenders, rounds))
    lines = [
        f"{pairs} pairs (J 6 × 7, twist), {100 * damped:.0f} % of them damped, one core, "
        f"medians of {rounds} rounds.",
        "",
        "| | µs per pair | NumPy / this |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {t:.3g} | {found[NUMPY] / t:.3g} |" for name, t in found.items()]
    text = "\n".join([*lines, "", measure.provenance(["numpy", "supple"]), ""])
    print(text)
    print("written to", measure.write("optimal", text))


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [5, 1_000_000][len(given) :]))
