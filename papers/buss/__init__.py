"""Buss 2009 (B): branching figures whose effectors follow targets in and out of reach.

The Y and the double Y of his program, its targets and its constants; one update for each small move
of the targets, so that effectors follow only approximately.
"""

from supple.papers.buss.following import double_y, y

EXPERIMENTS = (y, double_y)
