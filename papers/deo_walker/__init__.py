"""Deo & Walker 1995 (DW): the damping that just keeps a bound on joint speeds.

The λ of DW is λ² in supple. The method under test is the optimal damping, eqs. (9)-(18): among all
q̇ with ‖q̇‖ <= Δ, Newton's method finds the q̇ with the smallest error ‖ẋ - J q̇‖.
"""

from supple.papers.deo_walker.analytic import closed_forms
from supple.papers.deo_walker.augmentation import augmentation
from supple.papers.deo_walker.choice import choice, phi
from supple.papers.deo_walker.rectangle import planar
from supple.papers.deo_walker.shoulder import puma
from supple.papers.deo_walker.spectra import newton
from supple.papers.deo_walker.subtask import obstacle

EXPERIMENTS = (choice, phi, closed_forms, planar, newton, puma, augmentation, obstacle)
