"""Buss 2009 (B): branching figures that follow targets in and out of reach.

The branching figures are the Y and the double Y of his program, with its targets and constants.
There is one update for each small move of the targets, so end effectors follow only approximately.
"""

from supple.papers.buss.following import double_y, text_double_y, y
from supple.papers.buss.others import other_methods
from supple.papers.buss.reach import end_of_reach
from supple.papers.buss.variants import alternate, single

EXPERIMENTS = (y, double_y, text_double_y, alternate, single, other_methods, end_of_reach)
