"""Targets that are reachable by construction are met, and every answer is what it claims to be."""

from __future__ import annotations

import pytest

from robots_judge import Outcome, Row

KILOMETRE = 100.0  # [m] a slider longer than this is not of a robot with a fixed base
HARD = ("limits", "singular", "half turn", "far")


def offenders(rows: list[Row], kind: str, share: float) -> str:
    """The rows that meet less than a share of a set."""
    found = [(row, row.batch[kind]) for row in rows if kind in row.batch]
    return "\n".join(
        f"{row.file} {row.frame} ({row.joints} joints, {row.kind}): "
        f"{len(one.missed)} of {one.count} missed, {one.missed[:5].tolist()}"
        for row, one in found
        if one.share < share
    )


def every(rows: list[Row]) -> list[tuple[Row, str, Outcome]]:
    """All sets of all rows."""
    return [(row, kind, one) for row in rows for kind, one in row.batch.items()] + [
        (row, "alone", row.single) for row in rows if row.single is not None
    ]


def test_no_answer_is_converged_and_wrong(rows: list[Row], bases: list[Row]) -> None:
    wrong = [(row.file, row.frame, kind) for row, kind, one in every(rows + bases) if one.false]
    assert not wrong


def test_no_answer_is_outside_the_limits(rows: list[Row], bases: list[Row]) -> None:
    wrong = [(row.file, row.frame, kind) for row, kind, one in every(rows + bases) if one.outside]
    assert not wrong


def test_random_targets_are_met(rows: list[Row]) -> None:
    missed = offenders(rows, "random", 0.9999)
    assert not missed, missed


def test_targets_with_all_joints_at_limits_are_met(rows: list[Row]) -> None:
    fixed = [row for row in rows if row.longest < KILOMETRE]
    missed = offenders(fixed, "limits", 0.999)
    assert not missed, missed


@pytest.mark.parametrize("kind", HARD)
def test_hard_targets_are_met(rows: list[Row], kind: str) -> None:
    # Some robots have few targets of a kind, so the share is that of all robots together.
    sets = [row.batch[kind] for row in rows if kind in row.batch]
    count, converged = sum(one.count for one in sets), sum(one.converged for one in sets)
    assert converged >= 0.999 * count, f"{count - converged} of {count} missed"


def test_what_is_met_alone_is_met_in_a_batch(rows: list[Row]) -> None:
    differing = [
        f"{row.file} {row.frame} {kind}: {count}"
        for row in rows
        for kind, count in row.rescued.items()
        if count
    ]
    assert not differing, "\n".join(differing)


def test_single_calls_meet_their_targets(rows: list[Row]) -> None:
    missed = [(row.file, row.frame) for row in rows if row.single and row.single.share < 0.99]
    assert not missed


def test_arms_on_kilometre_long_bases_meet_their_targets(bases: list[Row]) -> None:
    missed = offenders(bases, "random", 0.9999)
    assert not missed, missed
