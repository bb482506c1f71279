"""All that is run of one figure: each method as the program has it, and DLS by its damping."""

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
RARE = 0.005  # of the moves: oscillation that is no nuisance
OFTEN = 0.03  # oscillation that is one


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that was run.

    Attributes:
        shape: The figure.
        methods: With the program's constants, and the pseudoinverse without its cap.
        plain: DLS by its damping λ, rising.
        clamped: Likewise with clamped errors.
        seconds: What an update takes by transpose and by DLS [s].
    """

    shape: Shape
    methods: dict[str, Followed]
    plain: dict[float, Followed]
    clamped: dict[float, Followed]
    seconds: tuple[float, float]

    @classmethod
    def of(cls, shape: Shape, lambdas: tuple[float, ...], progress: Progress) -> Comparison:
        """Run all; what the program's constants have done already is not done again."""
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
        """Share of its moves while some target is out of reach, and else."""
        out = figures.beyond_reach(self.shape)[1:].any(axis=1)
        back = self.methods["pinv"].reversed
        return float(back[out].mean()), float(back[~out].mean())


def calm(runs: dict[float, Followed]) -> float:
    """The least damping such that from there on upwards oscillation is rare."""
    least = max(runs)
    for lam in sorted(runs, reverse=True):
        if runs[lam].oscillation > RARE:
            break
        least = lam
    return least
