"""MK section V: the cost of filtering compared with damping, in multiplications and in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.maciejewski_klein.courses import MAX_GAIN, course_a
from supple.papers.maciejewski_klein.inverse import PUMA
from supple.papers.maciejewski_klein.methods import GAIN, methods
from supple.papers.style import Array

from supple import DLS, Limits, Linearization, PoseTask, Servo, damping

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAMBDA = 0.1
LITTLE = 0.25  # relative increase of the cost up to which it is not appreciable
NAMES = {"damped": "DLS", "estimated": "DLS with σ̂", "filtered": "filter, as printed"}


@dataclass
class Counter:
    """A counter of multiplications, divisions and square roots, each of which counts as one."""

    count: int = 0

    def product(self, x: Array, y: Array) -> float:
        """Return xᵀy."""
        self.count += len(x)
        return float(x @ y)

    def scaled(self, factor: float, x: Array) -> Array:
        """Return a multiple of x."""
        self.count += len(x)
        return np.asarray(factor * x)

    def length(self, x: Array) -> float:
        """Return ‖x‖."""
        self.count += 1
        return float(np.sqrt(self.product(x, x)))

    def scalar(self, value: float, operations: int) -> float:
        """Count operations done elsewhere, and return `value`, their result."""
        self.count += operations
        return value

    def gram(self, J: Array) -> Array:
        """Return J Jᵀ; only the operations of one triangle are counted."""
        A = np.zeros((len(J), len(J)))
        for i in range(len(J)):
            for j in range(i + 1):
                A[i, j] = A[j, i] = self.product(J[i], J[j])
        return A

    def factor(self, A: Array) -> Array:
        """Return the Cholesky factor of A."""
        L = np.zeros_like(A)
        for j in range(len(A)):
            L[j, j] = self.scalar(np.sqrt(A[j, j] - self.product(L[j, :j], L[j, :j])), 1)
            for i in range(j + 1, len(A)):
                L[i, j] = self.scalar((A[i, j] - self.product(L[i, :j], L[j, :j])) / L[j, j], 1)
        return L

    def solution(self, L: Array, b: Array) -> Array:
        """Return (L Lᵀ)⁻¹ b."""
        z = np.array(b)
        for i in range(len(z)):
            z[i] = self.scalar((z[i] - self.product(L[i, :i], z[:i])) / L[i, i], 1)
        for i in reversed(range(len(z))):
            z[i] = self.scalar((z[i] - self.product(L[i + 1 :, i], z[i + 1 :])) / L[i, i], 1)
        return z

    def joints(self, J: Array, z: Array) -> Array:
        """Return Jᵀz."""
        return np.array([self.product(column, z) for column in J.T])


def damped(J: Array, x: Array, _: Array, count: Counter) -> Array:
    """Return θ̇ by damped least squares with the constant λ = `LAMBDA`."""
    A = count.gram(J) + LAMBDA**2 * np.eye(len(J))
    return count.joints(J, count.solution(count.factor(A), x))


def estimated(J: Array, x: Array, u: Array, count: Counter) -> Array:
    """Return θ̇ as `damped` does, and estimate σ_min, eqs. (20)-(26), with the same factor L."""
    L = count.factor(count.gram(J) + LAMBDA**2 * np.eye(len(J)))
    _estimate(L, u, count)
    return count.joints(J, count.solution(L, x))


def filtered(J: Array, x: Array, u: Array, count: Counter) -> Array:
    """Return θ̇ by eq. (27) with α = λ, after estimating σ_min and σ_eff by eqs. (28)-(35)."""
    scaled = count.scaled(LAMBDA, u)  # α û
    A = count.gram(J) + LAMBDA**2 * np.eye(len(J))
    for i, row in enumerate(scaled):
        A[i, : i + 1] += count.scaled(row, scaled[: i + 1])
    L = count.factor(A)
    sigma2 = _estimate(L, u, count)
    z = count.solution(L, x)
    along, inside = count.product(u, x), count.product(u, z)
    x_o, z_o = (y - count.scaled(share, u) for y, share in ((x, along), (z, inside)))
    size = count.length(x_o)
    sigma_o2 = count.scalar(size / count.length(z_o) - LAMBDA**2, 1)
    count.scalar(along**2 / sigma2 + size**2 / sigma_o2, 4)
    count.length(x)
    count.scalar(0.0, 6)  # the operations for σ_eff, and for α and λ by eq. (14)
    return count.joints(J, z)


def _estimate(L: Array, u: Array, count: Counter) -> float:
    """Return σ̂² and update û by one inverse iteration."""
    turned = count.solution(L, u)
    size = count.length(turned)
    u[:] = count.scaled(count.scalar(1 / size, 1), turned)
    return 1 / size - LAMBDA**2


WAYS = {"damped": damped, "estimated": estimated, "filtered": filtered}


def counts(n: int, rng: np.random.Generator) -> tuple[dict[str, int], float]:
    """Return the number of operations of each method for a random J (n × n), and the relative
    difference of `damped` from `DLS`.
    """
    J, x, u = rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n)
    found, off = {}, 0.0
    for name, way in WAYS.items():
        count = Counter()
        dq = way(J, x, u / np.linalg.norm(u), count)
        found[name] = count.count
        if name != "filtered":
            exact = DLS(damping.Constant(LAMBDA**2))(Linearization(J, x))
            off = max(off, float(np.abs(dq - exact).max() / np.abs(exact).max()))
    return found, off


def servo_times(updates: int, rounds: int) -> dict[str, float]:
    """Return the time of an update of a PUMA's `Servo` [s] by method: best of all rounds."""
    course, free = course_a(), Limits.none(PUMA)
    steps: dict[str, Any] = methods(MAX_GAIN)
    ways = {"damped": "constant", "estimated": "variable", "filtered": "filtered_as_printed"}
    servos = {
        name: Servo(PUMA, PoseTask(), dt=1.0, gain=GAIN, step=steps[method], limits=free)
        for name, method in ways.items()
    }
    took: dict[str, list[float]] = {name: [] for name in servos}
    for _ in range(rounds):
        for name, servo in servos.items():
            q = course.start.copy()
            servo.reset()
            begin = time.perf_counter()
            for pose in course.poses[:updates]:
                servo(q, target=pose, out=q)
            took[name].append((time.perf_counter() - begin) / updates)
    return {name: min(times) for name, times in took.items()}


@experiment(
    "mk-cost",
    paper="MK",
    figure="Section V",
    title="What filtering costs beside damping",
    deviations=(
        "Multiplications, divisions and square roots are counted in loops that follow the "
        "equations; additions are not. J (n × n) is random and given.",
        "Times are those of a Servo of the PUMA called from Python on this machine, kinematics "
        "included; times of the kernel alone are in bench/results/steps.",
    ),
    parameters=(
        Parameter("joints", 24, "", "the largest number of joints", 6, 60),
        Parameter("rounds", 15, "", "rounds of which the fastest counts", 0, 1000),
    ),
)
def cost(progress: Progress, *, joints: int, rounds: int) -> Outcome:
    """Three methods are compared: damped least squares, the same with an estimate of σ_min, and the
    filter with α as printed. Their operations are counted for n from 2 to 24 joints, and their
    updates of a PUMA are timed.
    """
    rng = np.random.default_rng(3)
    sizes = np.arange(2, joints + 1)
    counted: dict[str, list[int]] = {name: [] for name in WAYS}
    off = 0.0
    for n in each(sizes, progress):
        found, difference = counts(int(n), rng)
        off = max(off, difference)
        for name, number in found.items():
            counted[name].append(number)
    columns = {name: np.array(x, dtype=float) for name, x in counted.items()}
    six = {name: x[4] for name, x in counted.items()}
    added = columns["filtered"] / columns["estimated"] - 1
    beside = columns["filtered"] / columns["damped"] - 1
    jacobian = 26 * sizes - 20
    overall = (columns["filtered"] - columns["estimated"]) / (columns["estimated"] + jacobian)
    growth = np.polyfit(sizes, columns["filtered"] - columns["estimated"], 2)
    seconds = servo_times(200, rounds)
    slower = {name: seconds[name] / seconds["damped"] for name in seconds}
    quantities = {f"n6.{name}": float(number) for name, number in six.items()}
    quantities |= {f"{name}_us": 1e6 * took for name, took in seconds.items()}
    quantities |= {"n6.added": added[4], "n6.added_overall": overall[4]}
    quantities |= {"n6.added_beside_damping": beside[4]}
    quantities |= {"max_difference": off}
    claims = (
        Claim(
            "filtering does not appreciably increase the overall computation time",
            f"for n = 6 {six['filtered'] - six['estimated']} operations more than the "
            f"{six['estimated']} of (20) and (21) with σ̂: {added[4]:.0%}, or {overall[4]:.0%} if "
            f"the {jacobian[4]} of J are counted; {beside[4]:.0%} beside damping without σ̂",
            None,
            "the text gives no number. One factorization serves all; ûûᵀ must be added to J Jᵀ, "
            "and σ_eff needs some products of vectors. J by Wampler's recursion, 26n − 20",
        ),
        Claim(
            "σ_eff takes linear time, the solutions O(n³)",
            f"what is added is {growth[0]:.1f}n² + {growth[1]:.0f}n: the square is α²ûûᵀ, without "
            "it the rest is linear",
            bool(abs(growth[0] - 0.5) < 1e-6),
            "half a square for a symmetric update of rank one",
        ),
        Claim(
            "filtering does not appreciably increase the measured time of an update",
            f"an update of a PUMA takes {1e6 * seconds['filtered']:.1f} µs filtered, "
            f"{1e6 * seconds['estimated']:.1f} with σ̂ and {1e6 * seconds['damped']:.1f} with a "
            "constant factor",
            bool(slower["filtered"] <= slower["estimated"] * (1 + LITTLE)),
            f"within {LITTLE:.0%}; kinematics and the call from Python are part of all three",
            own=True,
        ),
    )
    table = Table(
        "joints",
        {"joints": sizes.astype(float), **{f"{k}.operations": v for k, v in columns.items()}},
    )
    return Outcome(quantities, claims, _figure(table.columns["joints"], columns), (table,))


def _figure(sizes: Array, columns: dict[str, Array]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        one, two = figure.subplots(1, 2)
        style.titled(one, "Operations of an update", "joints n", "multiplications")
        style.curves(one, sizes, {NAMES[name]: x for name, x in columns.items()})
        style.titled(two, "What filtering adds", "joints n", "[%]")
        more = columns["filtered"] - columns["estimated"]
        added = {
            "to DLS alone": columns["filtered"] / columns["damped"] - 1,
            "to DLS with σ̂": more / columns["estimated"],
            "to DLS with σ̂, and J": more / (columns["estimated"] + 26 * sizes - 20),
        }
        style.curves(two, sizes, {name: 100 * x for name, x in added.items()}, first=3)
        two.axvline(6, color="#555555", linewidth=1, linestyle=":")
        two.set_ylim(0)
        two.annotate("six joints", (6.3, 0.62), xycoords=("data", "axes fraction"))
        two.legend()
        style.legend(figure, one)

    return draw
