"""W, "Computing the damped least-squares solution": the cost of normal equations and of QR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHA = 0.03
ROWS = 6  # number of rows of Ĵ


@dataclass
class Cost:
    """A counter of the multiplications and divisions of a factorization, with equal weight."""

    count: int = 0

    def __call__(self, products: int) -> None:
        """Add a number of products to the count."""
        self.count += products


def normal_equations(J: Array, alpha: float, cost: Cost) -> Array:
    """Return the Cholesky factor (n, n) of ĴᵀĴ + α²I, from the upper triangle of ĴᵀĴ."""
    m, n = J.shape
    P = alpha**2 * np.eye(n)
    for i in range(n):
        for j in range(i, n):
            P[i, j] += J[:, i] @ J[:, j]
            cost(m)
    R = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            rest = P[i, j] - R[:i, i] @ R[:i, j]
            cost(i)
            if j == i:
                R[i, i] = np.sqrt(rest)
            else:
                R[i, j] = rest / R[i, i]
                cost(1)
    return R


def householder(J: Array, alpha: float, cost: Cost) -> tuple[Array, NDArray[np.integer[Any]]]:
    """Return R (n, n) of a QR factorization of [Ĵ; αI], and the order of its pivot columns.

    Row k of αI is the pivot row of step k. Until then, α is the only nonzero entry of this row, so
    the vector of a reflection has only m + 1 nonzero entries (seven for m = 6), and αI need not be
    stored.
    """
    m, n = J.shape
    J, order = J.copy(), np.arange(n)
    R = np.zeros((n, n))
    squares = (J**2).sum(axis=0)
    cost(m * n)
    for k in range(n):
        best = k + int(squares[k:].argmax())
        for array in (J, R):
            array[:, [k, best]] = array[:, [best, k]]
        order[[k, best]], squares[[k, best]] = order[[best, k]], squares[[best, k]]
        x = J[:, k]
        size = np.sqrt(alpha**2 + x @ x)
        cost(m + 1)
        top = alpha + size  # first entry of the reflection's vector v; the others are x
        scale = 1 / (size * top)  # 2/‖v‖²
        cost(2)
        R[k, k] = -size
        for j in range(k + 1, n):
            share = scale * (x @ J[:, j])  # the pivot row has no entry in column j yet
            cost(m + 1)
            R[k, j] = -share * top
            J[:, j] -= share * x
            cost(m + 1)
            squares[j] -= R[k, j] ** 2
            cost(1)
    return R, order


def printed_normal(n: Array) -> Array:
    """Return the paper's count for the normal equations and Cholesky's method."""
    return np.asarray(n**3 / 6 + 3.5 * n**2 + 7 / 3 * n)


def printed_qr(n: Array) -> Array:
    """Return the paper's count for the QR factorization with column pivoting."""
    return np.asarray(8 * n**2 + 19 * n)


@experiment(
    "w-solvers",
    paper="W",
    figure="eqs. (47)-(48)",
    title="Normal equations or QR: what the damped solution costs",
    deviations=(
        "Multiplications and divisions are counted, but not square roots, the right-hand side and "
        "the triangular solutions: with these, the count would not equal the printed polynomial.",
        "The reflections exploit that αI is zero off its diagonal; otherwise QR would cost O(n³).",
    ),
    parameters=(
        Parameter("joints", 36, "", "the largest number of joints", 7, 200),
        Parameter("alpha", ALPHA, "reaches", "damping factor", 0),
    ),
)
def solvers(progress: Progress, *, joints: int, alpha: float) -> Outcome:
    """Random Ĵ (6 × n) are factorized by both methods in loops that count operations, for n from 1
    to 36. The factors R must agree, and the solution must be that of `supple.DLS`.
    """
    rng = np.random.default_rng(7)
    sizes = np.arange(1, joints + 1)
    normal, qr, off = [], [], 0.0
    for n in each(sizes, progress):
        J, v = rng.normal(size=(ROWS, n)), rng.normal(size=ROWS)
        first, second = Cost(), Cost()
        L = normal_equations(J, alpha, first)
        R, order = householder(J, alpha, second)
        normal.append(first.count)
        qr.append(second.count)
        exact = supple.DLS(supple.damping.Constant(alpha**2))(supple.Linearization(J, v))
        for factor, columns in ((L, np.arange(n)), (R, order)):
            right = J[:, columns].T @ v
            found = np.empty(n)
            found[columns] = np.linalg.solve(factor, np.linalg.solve(factor.T, right))
            off = max(off, float(np.abs(found - exact).max() / np.abs(exact).max()))
    counted = {"normal": np.array(normal, dtype=float), "qr": np.array(qr, dtype=float)}
    reals = sizes.astype(float)
    printed = {"normal": printed_normal(reals), "qr": printed_qr(reals)}
    equal = float(np.max(np.roots([1 / 6, 3.5 - 8, 7 / 3 - 19])))
    cheaper = counted["qr"] < counted["normal"]
    meets = int(sizes[cheaper][0]) if cheaper.any() else 0
    few = (sizes >= 6) & (sizes <= 10)
    ratio = printed["qr"][few] / printed["normal"][few]
    quantities = {
        "n6.normal": counted["normal"][5],
        "n6.qr": counted["qr"][5],
        "printed_crossing": equal,
        "counted_crossing": meets,
        "max_difference": off,
    }
    claims = (
        Claim(
            "normal equations and Cholesky: n³/6 + 3½n² + 2⅓n multiplications",
            f"{normal[5]} for n = 6, {normal[6]} for n = 7: the polynomial for every n up to "
            f"{joints}",
            bool(np.abs(counted["normal"] - printed["normal"]).max() < 1e-6),
            "3n² + 3n for the upper triangle of ĴᵀĴ, n³/6 − n/6 products and n²/2 − n/2 divisions "
            "for the factor",
        ),
        Claim(
            "QR with column pivoting can be done in 8n² + 19n",
            f"{qr[5]} for n = 6, {qr[6]} for n = 7, against {printed['qr'][5]:.0f} and "
            f"{printed['qr'][6]:.0f}",
            bool((counted["qr"] <= printed["qr"]).all()),
            "fewer: each of n reflections has seven entries, six of which meet another column",
        ),
        Claim(
            "for small n QR is twice as expensive",
            f"{ratio.min():.1f} to {ratio.max():.1f} times by the printed counts for n = 6 to 10",
            bool((np.abs(ratio - 2) < 0.5).all()),
            "for fewer joints it is more; by the counts here "
            f"{(counted['qr'] / counted['normal'])[5]:.1f} times for n = 6",
        ),
        Claim(
            "QR remains more expensive for n < 30",
            f"the printed counts are equal at n = {equal:.1f}; by the counts here QR is cheaper "
            f"from n = {meets}",
            abs(equal - 30) < 1,
            "n²/6 − 4½n = 16⅔",
        ),
    )
    table = Table(
        "joints",
        {
            "joints": reals,
            **{f"{name}.counted": x for name, x in counted.items()},
            **{f"{name}.printed": x for name, x in printed.items()},
        },
    )
    return Outcome(quantities, claims, _figure(reals, counted, printed), (table,))


def _figure(
    sizes: Array, counted: dict[str, Array], printed: dict[str, Array]
) -> Callable[[Figure], None]:
    names = {"normal": "normal equations, Cholesky", "qr": "QR, column pivoting"}

    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.8)
        ax = style.titled(
            figure.subplots(), "Cost of the factorization", "joints n", "multiplications"
        )
        for k, name in enumerate(names):
            look = style.style_of(k)
            ax.plot(sizes, printed[name], label=f"{names[name]}, printed", **look)
            ax.plot(sizes, counted[name], "o", color=look["color"], ms=4, label="counted here")
        ax.legend()

    return draw
