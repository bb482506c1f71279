"""Buss 2009 (B): branching figures that follow targets in and out of reach.

The branching figures are the Y and the double Y of Buss's program, with the targets and constants
of that program. Each small move of the targets is followed by only one update, so end effectors
follow approximately.
"""

from supple.papers.buss.following import double_y, text_double_y, y
from supple.papers.buss.others import other_methods
from supple.papers.buss.reach import end_of_reach
from supple.papers.buss.variants import alternate, single

EXPERIMENTS = (y, double_y, text_double_y, alternate, single, other_methods, end_of_reach)
