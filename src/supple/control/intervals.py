"""Rows of open tasks with ranges in a hierarchy that runs in Python: intervals of J q̇."""

from __future__ import annotations

from collections.abc import Callable

from supple.motion.linearization import EPSILON, Array


class Intervals:
    """The rows of a step whose J q̇ may be anywhere in an interval [low, high].

    Attributes:
        J: Rows of the Jacobian (n,), by index.
        low, high: Ends of the interval of each row, by index.
    """

    def __init__(self) -> None:
        self.J: dict[int, Array] = {}
        self.low: dict[int, float] = {}
        self.high: dict[int, float] = {}

    def clear(self) -> None:
        """Forget all rows."""
        for each in (self.J, self.low, self.high):
            each.clear()

    def add(self, row: int, J: Array, low: float, high: float) -> None:
        """Add a row by its index in the stacked rows of all tasks."""
        self.J[row], self.low[row], self.high[row] = J, low, high

    def step(
        self, J: Array, e: Array, take: Callable[[Array, Array], Array]
    ) -> tuple[Array, Array, Array]:
        """Return the step (n,) inside the intervals as far as possible, and its J and e.

        This is `run_in_ranges` of include/supple/servo/ranges.hpp for priorities. Rows outside
        their intervals are held at an end of the interval, as equations, the worst row first; rows
        that need not be held are left out again. In the returned e, the entry of a left-out row is
        the rate in its interval that is nearest to its J q̇.

        Args:
            J: Stacked rows of all tasks (m, n).
            e: Commands of the rows (m,).
            take: Function that returns the step for J and e.
        """
        held: dict[int, float] = {}
        for row in self.J:
            if self.low[row] > 0 or self.high[row] < 0:
                held[row] = self._nearest(row, 0.0)

        def solve() -> Array:
            rows, values = J.copy(), e.copy()
            for row, slopes in self.J.items():
                rows[row] = slopes if row in held else 0.0
                values[row] = held.get(row, 0.0)
            return take(rows, values)

        for _ in range(2 * len(J) + 1):
            dq = solve()
            far = {row: self._outside(row, dq) for row in self.J if row not in held}
            worst = max(far, key=far.__getitem__, default=None)
            if worst is not None and far[worst] > 0:
                held[worst] = self._nearest(worst, float(self.J[worst] @ dq))
                continue
            for row in sorted(held):
                before = held.pop(row)
                if self._nearest(row, float(self.J[row] @ solve())) != before:
                    break
                held[row] = before
            else:
                break
        rows, values = J.copy(), e.copy()
        for row, slopes in self.J.items():
            rows[row] = slopes
            values[row] = held.get(row, self._nearest(row, float(slopes @ dq)))
        return dq, rows, values

    def _nearest(self, row: int, rate: float) -> float:
        """Return the rate in the interval of a row that is nearest to a given one."""
        return min(max(rate, self.low[row]), self.high[row])

    def _outside(self, row: int, dq: Array) -> float:
        """Return how far a row is outside of its interval; zero if only by rounding."""
        rate = float(self.J[row] @ dq)
        nearest = self._nearest(row, rate)
        far = abs(rate - nearest)
        return far if far > 64 * EPSILON * (abs(rate) + abs(nearest)) else 0.0
