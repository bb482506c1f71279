"""Targets that are reachable by construction are met, and every reported status is true."""

from __future__ import annotations

import pytest

from robots_judge import Row
from robots_laws import LIMITS, RANDOM, short, with_fixed_base, wrong

HARD = ("limits", "singular", "half turn", "far")


def test_no_converged_solution_misses_its_target(rows: list[Row], bases: list[Row]) -> None:
    found = wrong(rows + bases, "false")
    assert not found, "\n".join(found)


def test_no_solution_is_outside_the_joint_limits(rows: list[Row], bases: list[Row]) -> None:
    found = wrong(rows + bases, "outside")
    assert not found, "\n".join(found)


def test_random_targets_are_met(rows: list[Row]) -> None:
    missed = short(rows, "random", RANDOM)
    assert not missed, "\n".join(missed)


def test_targets_with_all_joints_at_limits_are_met(rows: list[Row]) -> None:
    missed = short(with_fixed_base(rows), "limits", LIMITS)
    assert not missed, "\n".join(missed)


@pytest.mark.parametrize("kind", HARD)
def test_of_each_kind_of_hard_targets_9995_in_10000_are_met(rows: list[Row], kind: str) -> None:
    # Some robots have few targets of a kind, so the fraction is taken over all robots together.
    sets = [row.batch[kind] for row in rows if kind in row.batch]
    count, converged = sum(one.count for one in sets), sum(one.converged for one in sets)
    assert converged >= 0.9995 * count, f"{count - converged} of {count} missed"


def test_targets_met_in_single_calls_are_met_in_a_batch(rows: list[Row], bases: list[Row]) -> None:
    differing = [
        f"{row.file} {row.frame}, {kind}: {count}"
        for row in rows + bases
        for kind, count in row.rescued.items()
        if count
    ]
    assert not differing, "\n".join(differing)


def test_single_calls_meet_their_targets(rows: list[Row]) -> None:
    made = [row.single for row in rows if row.single is not None]
    missed = sum(len(one.missed) for one in made)
    assert missed <= (1 - RANDOM) * sum(one.count for one in made)


@pytest.mark.parametrize("kind", ["random", "far"])
def test_arms_on_kilometer_long_bases_meet_their_targets(bases: list[Row], kind: str) -> None:
    missed = short(bases, kind, RANDOM)
    assert not missed, "\n".join(missed)
