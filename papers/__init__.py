"""The experiments of five texts on damped least squares, run again: `supple paper`.

One module for each text; each experiment is short, built on supple's public names only, and says
claim by claim what holds.
"""

from supple.papers import maciejewski_klein, note
from supple.papers.experiment import PAPERS, Claim, Experiment, Outcome, experiment

__all__ = ["EXPERIMENTS", "PAPERS", "Claim", "Experiment", "Outcome", "experiment"]

# In the order of the command line's list: by paper, as in its text.
EXPERIMENTS: dict[str, Experiment] = {
    each.name: each for module in (maciejewski_klein, note) for each in module.EXPERIMENTS
}
