"""Maciejewski & Klein 1988: numerical filtering through singular configurations.

The experiments use resolved-rate control with feedback of the position error, and one Euler step
per interval:

    ẋ_c = ẋ_d + k_p (x_d - x),      q <- q + θ̇(ẋ_c),      error = ‖ẋ_c - J θ̇‖/‖ẋ_c‖

They compare a constant damping factor, one that varies with the smallest singular value, and the
filter. Time is counted in intervals: speeds are per interval.
"""

from supple.papers.maciejewski_klein import (
    configurations,
    cost,
    crossing,
    paths,
    properties,
    puma,
    rotation,
    two_link,
)

EXPERIMENTS = (
    properties.damped_norms,
    rotation.rotation,
    cost.cost,
    two_link.follow_square,
    configurations.singular_configurations,
    puma.trajectory_a,
    puma.trajectory_b,
    puma.trajectory_c,
    crossing.trajectory_c_modified,
    paths.share_of_paths,
)
