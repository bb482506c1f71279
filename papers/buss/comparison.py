"""Runs of one branching figure by each method, with the program's constants; of DLS by damping."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from supple.papers.buss import figures
from supple.papers.buss.figures import Followed, Shape, Step
from supple.papers.experiment import Progress, each

import supple

NAMES = {
    "transpose": "transpose",
    "pinv": "pseudoinverse",
    "dls": "DLS",
    "dls_clamped": "DLS', errors clamped",
    "sdls": "SDLS",
}
RARE = 0.005  # largest fraction of reversed moves at which oscillation is called rare
OFTEN = 0.03  # fraction above which oscillation is a nuisance


@dataclass(frozen=True, eq=False)
class Comparison:
    """The runs of all methods with one articulated figure.

    Attributes:
        shape: The articulated figure and its targets.
        methods: Runs by name of the method, with the program's constants; `pinv_uncapped` is the
            pseudoinverse without its angle clamp.
        plain: Runs of DLS by damping λ, in increasing order.
        clamped: Runs of DLS with clamped errors by damping λ, in increasing order.
        seconds: Times of an update with the transpose and with DLS [s].
    """

    shape: Shape
    methods: dict[str, Followed]
    plain: dict[float, Followed]
    clamped: dict[float, Followed]
    seconds: tuple[float, float]

    @classmethod
    def of(cls, shape: Shape, lambdas: tuple[float, ...], progress: Progress) -> Comparison:
        """Run each method once, and DLS once with each λ without and with clamped errors."""
        steps: dict[Hashable, Step] = {"pinv_uncapped": supple.steps.TruncatedSVD(0.01)}
        steps |= dict(figures.methods(shape).items())
        steps |= {(lam, False): figures.dls(lam) for lam in lambdas}
        steps |= {(lam, True): figures.dls(lam, clamped=True) for lam in lambdas}
        same = {(shape.lambdas[0], False): "dls", (shape.lambdas[1], True): "dls_clamped"}
        runs = [(key, step) for key, step in steps.items() if key not in same]
        found = {key: figures.follow(shape, step) for key, step in each(runs, progress)}
        found |= {key: found[method] for key, method in same.items()}
        return cls(
            shape,
            {name: found[name] for name in (*NAMES, "pinv_uncapped")},
            {lam: found[lam, False] for lam in lambdas},
            {lam: found[lam, True] for lam in lambdas},
            figures.update_times(shape),
        )

    def pinv_goes_back(self) -> tuple[float, float]:
        """Return the fractions of moves that reverse the previous one, with the pseudoinverse.

        The first fraction is over updates with a target out of reach, the second over all others.
        """
        out = figures.beyond_reach(self.shape)[1:].any(axis=1)
        back = self.methods["pinv"].reversed
        return float(back[out].mean()), float(back[~out].mean())


def calm(runs: dict[float, Followed]) -> float:
    """Return the smallest λ from which on oscillation is rare in all runs."""
    least = max(runs)
    for lam in sorted(runs, reverse=True):
        if runs[lam].oscillation > RARE:
            break
        least = lam
    return least
