"""Wampler 1986 (W): vector formulations of Jacobians, and damped least squares.

W's partial-velocity matrix Ĵ is the result of `Robot.jacobian`, and W's damping factor α is λ. W
attaches z_i to joint i; a link (a_i, b_i, θ_i, β_i) of W is a row (a, d, θ, α) of the standard
Denavit-Hartenberg table.
"""

from supple.papers.wampler.counts import counts
from supple.papers.wampler.damped import conditioning, one_link
from supple.papers.wampler.decomposition import wrist
from supple.papers.wampler.noise import measured
from supple.papers.wampler.rank import rank
from supple.papers.wampler.solvers import solvers

EXPERIMENTS = (one_link, counts, solvers, rank, measured, conditioning, wrist)
