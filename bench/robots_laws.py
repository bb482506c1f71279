"""Laws that hold for every robot on every device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from robots_judge import Row

RANDOM, LIMITS = 0.9999, 0.999  # required fractions of solved targets
LONG = 100.0  # range of a slider above which a robot counts as mobile [m]


def short(rows: Iterable[Row], kind: str, share: float) -> list[str]:
    """Describe the rows whose fraction of targets met, for one kind of target, is below `share`."""
    return [
        f"{row.file} {row.frame} ({row.joints} joints, {row.kind}), {kind}: "
        f"{len(one.missed)} of {one.count} missed, {one.missed[:5].tolist()}"
        for row in rows
        if (one := row.batch.get(kind)) is not None and one.share < share
    ]


def wrong(rows: Iterable[Row], what: str) -> list[str]:
    """Describe the sets with wrong results; `what` is "false" or "outside", as in `Outcome`."""
    found = []
    for row in rows:
        each = [*row.batch.items(), *([("alone", row.single)] if row.single else [])]
        for kind, one in each:
            if count := getattr(one, what):
                found.append(f"{row.file} {row.frame}, {kind}: {count} answers {what}")
    return found


def with_fixed_base(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of robots without very long prismatic joints."""
    return [row for row in rows if row.longest < LONG]


def not_compiled(rows: Iterable[Row]) -> list[str]:
    """Return a text for each robot whose GPU code did not compile, with the error."""
    refused = [row for row in rows if row.compiled not in ("", "yes")]
    return [f"{row.file} {row.frame}: {row.compiled}" for row in refused]


def broken(rows: Sequence[Row]) -> list[str]:
    """Return a description of each violation of the laws that every robot must satisfy."""
    return [
        *wrong(rows, "false"),
        *wrong(rows, "outside"),
        *short(rows, "random", RANDOM),
        *short(with_fixed_base(rows), "limits", LIMITS),
        *(
            f"{row.file} {row.frame}: {row.compiled}"
            for row in rows
            if row.compiled not in ("", "yes")
        ),
    ]
