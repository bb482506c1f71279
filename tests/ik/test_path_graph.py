"""`fewest_changes` finds the route with the fewest reconfigurations: it is compared with every
route through small random graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cases import each
from supple.paths.graph import Cost, Part, PathGraph, fewest_changes
from supple.paths.layers import Layers

Array = np.ndarray
Move = tuple[int, int]


def random_graph(seed: int, branches: bool, cost: Cost) -> PathGraph:
    """Return a graph of 5 layers of up to 4 configurations; routes follow columns if `branches`,
    else random steps.
    """
    rng = np.random.default_rng(seed)
    count, k = 5, 4
    q = rng.normal(size=(count, k, 2))
    if branches:
        for column in range(k):
            first, last = np.sort(rng.integers(0, count, 2))
            q[:first, column] = q[last + 1 :, column] = np.nan
        empty = np.isnan(q[..., 0]).all(axis=1)
        q[empty, 0] = rng.normal(size=(int(empty.sum()), 2))
        there = np.isfinite(q[:, 0, 0])
        first, last = np.nonzero(there)[0][[0, -1]]
        q[first : last + 1, 0] = rng.normal(size=(last + 1 - first, 2))
        return PathGraph(np.arange(count) * 0.5, q, None, cost)
    q[:, 1:][rng.random((count, k - 1)) < 0.3] = np.nan
    steps = []
    for i in range(count - 1):
        a, b = np.nonzero(np.isfinite(q[i, :, 0])[:, None] & np.isfinite(q[i + 1, :, 0]))
        keep = rng.random(len(a)) < 0.25
        steps.append((a[keep], b[keep]))
    return PathGraph(np.arange(count) * 0.5, q, steps, cost)


def continuous(graph: PathGraph, i: int, a: int, b: int) -> bool:
    if not (np.isfinite(graph.q[i, a, 0]) and np.isfinite(graph.q[i + 1, b, 0])):
        return False
    if graph.steps is None:
        return a == b
    return (a, b) in set(zip(*(each.tolist() for each in graph.steps[i]), strict=True))


def routes(graph: PathGraph, i: int, a: int, changes: int) -> Iterator[tuple[int, float]]:
    """Yield (number of changes, cost) of each route from configuration a of layer i to the end that
    has at most `changes` changes.
    """
    if i == len(graph.x) - 1:
        yield 0, 0.0
        return
    columns = [b for b in range(graph.q.shape[1]) if np.isfinite(graph.q[i, b, 0])]
    onward = [b for b in range(graph.q.shape[1]) if np.isfinite(graph.q[i + 1, b, 0])]
    for b in onward:
        if continuous(graph, i, a, b):
            for n, c in routes(graph, i + 1, b, changes):
                yield n, c + moved(graph, (i, a), (i + 1, b), True)
    if changes:
        for b in columns:
            if b != a:
                for n, c in routes(graph, i, b, changes - 1):
                    yield n + 1, c + moved(graph, (i, a), (i, b), False)
        if not any(continuous(graph, i, u, v) for u in columns for v in onward):
            for b in onward:
                for n, c in routes(graph, i + 1, b, changes - 1):
                    yield n + 1, c + moved(graph, (i, a), (i + 1, b), False)


def moved(graph: PathGraph, a: Move, b: Move, step: bool) -> float:
    if graph.cost.of is None:
        return float(np.abs(graph.q[b] - graph.q[a]).sum())
    both = graph.cost.of(np.stack([graph.q[a], graph.q[b]]))
    return float(both.mean() * (graph.x[b[0]] - graph.x[a[0]])) if step else 0.0


def cost_of(graph: PathGraph, parts: list[Part]) -> float:
    total = 0.0
    for i, part in enumerate(parts):
        nodes = list(zip(part.layers.tolist(), part.columns.tolist(), strict=True))
        for a, b in pairwise(nodes):
            assert continuous(graph, a[0], a[1], b[1])
            total += moved(graph, a, b, True)
        if i + 1 < len(parts):
            after = (int(parts[i + 1].layers[0]), int(parts[i + 1].columns[0]))
            assert after[0] - nodes[-1][0] in (0, 1)
            total += moved(graph, nodes[-1], after, False)
    return total


@each("branches", [True, False])
@each("cost", [Cost(), Cost(lambda q: q[:, 0] ** 2)], ids=["motion", "own"])
@each("seed", range(12))
def test_no_route_has_fewer_changes_or_a_smaller_cost(
    seed: int, cost: Cost, branches: bool
) -> None:
    graph = random_graph(seed, branches, cost)
    begin = np.nonzero(np.isfinite(graph.q[0, :, 0]))[0]
    every: list[tuple[int, float]] = []
    for most in range(5):
        every = [each for a in begin.tolist() for each in routes(graph, 0, a, most)]
        if every:
            break
    parts = fewest_changes(graph, begin)
    assert parts[0].layers[0] == 0
    assert parts[-1].layers[-1] == len(graph.x) - 1
    fewest, least = min(every)
    assert len(parts) - 1 == fewest
    assert cost_of(graph, parts) == pytest.approx(least, abs=1e-12)


def test_a_route_ends_before_a_layer_without_configurations() -> None:
    graph = random_graph(3, True, Cost())
    graph.q[3:] = np.nan
    parts = fewest_changes(graph, np.nonzero(np.isfinite(graph.q[0, :, 0]))[0])
    assert parts[-1].layers[-1] == 2


def test_a_route_changes_where_the_only_step_is_removed_from_the_graph() -> None:
    q, own = np.zeros((3, 1, 2)), np.array([0])
    graph = PathGraph(np.arange(3.0), q, None, Cost())
    assert len(fewest_changes(graph, own)) == 1
    parts = fewest_changes(graph.without(1, own, own), own)
    assert [each.layers.tolist() for each in parts] == [[0, 1], [2]]
    chain = PathGraph(np.arange(3.0), q, [(own, own)] * 2, Cost())
    parts = fewest_changes(chain.without(1, own, own), own)
    assert [each.layers.tolist() for each in parts] == [[0, 1], [2]]


class Fixed(Layers):
    """Layers of given configurations (L, P, n), with steps within columns if `branches`, else
    between all configurations.
    """

    def __init__(self, q: Array, branches: bool) -> None:
        columns = np.arange(q.shape[1])
        every = [each.ravel() for each in np.meshgrid(columns, columns, indexing="ij")]
        steps = None if branches else [(every[0], every[1])] * (len(q) - 1)
        path: Any = SimpleNamespace(robot=None, units=np.ones(q.shape[2]), obstacles=None)
        graph = PathGraph(np.arange(float(len(q))), q, steps, Cost())
        super().__init__(path, None, np.arange(len(q)), graph)

    def improved(self, parts: list[Part]) -> bool:
        return False


@each("branches", [True, False])
@each("seed", range(10))
def test_a_route_cut_at_one_step_is_not_followed_by_a_route_with_the_same_step(
    seed: int, branches: bool
) -> None:
    """A cut removes the step from all columns that contain it, up to 1e-6."""
    rng = np.random.default_rng(seed)
    few = rng.normal(size=(6, 2, 3))
    layers = Fixed(few[:, rng.permutation(np.repeat([0, 1], 4))], branches)
    layers.graph.q[:] += 1e-6 * rng.normal(size=layers.graph.q.shape)
    tried, place = set(), rng.uniform(0, 5)
    at = int(place)
    while len(parts := fewest_changes(layers.graph, layers.begin)) == 1:
        steps = few[at], few[at + 1]
        q = layers.graph.q[[at, at + 1], parts[0].columns[at : at + 2]]
        each = tuple(
            int(np.abs(f - own).max(axis=1).argmin()) for f, own in zip(steps, q, strict=True)
        )
        assert each not in tried
        tried.add(each)
        layers.cut(parts[0], place)
    assert len(tried) == (2 if branches else 4)
