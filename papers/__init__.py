"""Experiments from five texts on damped least squares, reproduced by `supple paper`.

There is one folder or module for each text. Experiments are short, use only supple's public names,
and report whether each claim holds. A call such as `EXPERIMENTS["mk-two-link"](max_gain=1.5)`
changes a parameter, and `outcome.curves["variable.error"]` is a curve as an array.
"""

from supple.papers import buss, deo_walker, maciejewski_klein, note, wampler
from supple.papers.experiment import (
    PAPERS,
    Claim,
    Experiment,
    Outcome,
    Parameter,
    Table,
    experiment,
)

__all__ = [
    "EXPERIMENTS",
    "PAPERS",
    "Claim",
    "Experiment",
    "Outcome",
    "Parameter",
    "Table",
    "experiment",
]

# All experiments, in the order of the command line: by paper, then by place in the paper.
EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for module in (wampler, maciejewski_klein, deo_walker, buss, note)
    for each in module.EXPERIMENTS
}
