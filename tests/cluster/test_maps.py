"""A map agrees with `solve` at its voxels and orientations, and queries agree with plain loops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import supple as sp
from cases import each
from parquet_targets import contents
from solving import solve
from supple.cli.group import cli
from supple.cluster import ReachMap, reachability, uniform_orientations
from supple.errors import InputError, UnknownNameError

UR5E = sp.load("ur5e")
SUPPORT = Path(__file__).parents[1] / "support"
COUNT, SPACING = 6, 0.15
QUARTER = [[0, 0, -0.9], [1.1, 1.1, 1.1]]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> ReachMap:
    """Return a map for which every pose is solved."""
    folder = tmp_path_factory.mktemp("exact")
    return reachability(UR5E, folder, spacing=SPACING, orientations=COUNT, levels=0)


@pytest.fixture(scope="module")
def fine(tmp_path_factory: pytest.TempPathFactory) -> ReachMap:
    """Return a finer map of a quarter of the workspace, refined from coarser grids."""
    folder = tmp_path_factory.mktemp("fine")
    return reachability(UR5E, folder, spacing=0.05, orientations=2, levels=2, bounds=QUARTER)


def centers(found: ReachMap) -> Any:
    index = np.indices(found.dexterity.shape).reshape(3, -1).T
    return found.origin + found.spacing * index


def bits(found: ReachMap) -> Any:
    """Return a mask (voxels, orientations) of the poses that are in the table of reached poses."""
    table = parquet.read_table(found.folder / "poses")
    reached = np.zeros((found.dexterity.size, len(found.orientations)), bool)
    reached[table["voxel"], table["orientation"]] = True
    return reached


# ---- orientations --------------------------------------------------------------------------------


@each("count", [1, 2, 64, 1000])
def test_every_rotation_is_near_an_orientation_of_the_map(count: int) -> None:
    """The nearest orientation is within twice the angle of a perfect covering."""
    wxyz = uniform_orientations(count)
    np.testing.assert_allclose(np.linalg.norm(wxyz, axis=1), 1, atol=1e-12)
    random = np.random.default_rng(0).normal(size=(2000, 4))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    angle = 2 * np.arccos(np.minimum(np.abs(random @ wxyz.T).max(axis=1), 1))
    # Rotations by an angle of at most a are a fraction (a - sin a) / π of all rotations.
    perfect = next(a for a in np.linspace(0, np.pi, 1000) if (a - np.sin(a)) / np.pi >= 1 / count)
    assert angle.max() <= min(np.pi, 2 * perfect) + 1e-9


# ---- the map against solve -----------------------------------------------------------------------


def test_a_pose_is_reached_in_the_map_if_solve_reaches_it(exact: ReachMap) -> None:
    """The map and `solve`, with its default number of seeds, agree at 600 random poses."""
    at = centers(exact)
    chance = np.random.default_rng(1)
    voxel, which = chance.integers(len(at), size=600), chance.integers(COUNT, size=600)
    T = sp.pose(at[voxel], wxyz=exact.orientations[which])
    expected = solve(UR5E, T).success
    np.testing.assert_array_equal(bits(exact)[voxel, which], expected)
    assert 0.1 < expected.mean() < 0.9


def test_voxel_values_are_statistics_of_the_poses_in_the_voxel(exact: ReachMap) -> None:
    table = parquet.read_table(exact.folder / "poses")
    voxel = table["voxel"].to_numpy()
    size = exact.dexterity.size
    reached = np.bincount(voxel, minlength=size)
    np.testing.assert_allclose(exact.dexterity.ravel(), reached / COUNT, atol=1e-7)
    for name, values in (("manipulability", exact.manipulability), ("sigma_min", exact.sigma_min)):
        own = table[name].to_numpy()
        best = [own[voxel == v].max(initial=0) for v in range(0, size, 37)]
        np.testing.assert_array_equal(values.ravel()[::37], best)
    sums = np.bincount(voxel, table["manipulability"], minlength=size)
    mean = np.divide(sums, reached, out=np.zeros(size), where=reached > 0)
    np.testing.assert_allclose(exact.manipulability_mean.ravel(), mean, rtol=1e-5)


def test_manipulability_and_sigma_of_a_map_are_those_of_a_solution(exact: ReachMap) -> None:
    """The table states both values for each pose."""
    table = parquet.read_table(exact.folder / "poses").slice(100, 12).to_pylist()
    at = centers(exact)
    for row in table:
        T = sp.pose(at[row["voxel"]], wxyz=exact.orientations[row["orientation"]])
        q = solve(UR5E, T, solutions=64).q
        sigma = UR5E.singular_values(q)
        assert np.abs(sigma[:, -1] - row["sigma_min"]).min() < 1e-4
        assert np.abs(sigma.prod(axis=1) - row["manipulability"]).min() < 1e-4


def test_refining_a_coarse_grid_solves_fewer_poses_and_changes_few_voxels(
    fine: ReachMap, tmp_path: Path
) -> None:
    """At most a quarter of the poses are solved, and at most one voxel in 2000 differs."""
    last = fine.origin + fine.spacing * (np.array(fine.dexterity.shape) - 1)
    bounds = [fine.origin + 1e-9, last - 1e-9]  # a little less, for rounding
    every = reachability(
        UR5E, tmp_path / "m", spacing=0.05, orientations=2, levels=0, bounds=bounds
    )
    assert every.dexterity.shape == fine.dexterity.shape
    assert (bits(every) != bits(fine)).mean() < 1 / 2000
    counts = json.loads((fine.folder / "poses/_summary.json").read_text())["counts"]
    assert counts["poses"] == fine.dexterity.size * 2
    assert counts["solved"] < 0.25 * counts["poses"]


def test_the_default_bounds_contain_all_that_is_reached(exact: ReachMap) -> None:
    for axis in range(3):
        assert not np.take(exact.dexterity, (0, -1), axis=axis).any()


def test_the_map_of_a_planar_robot_with_fixed_orientation_is_a_circle(tmp_path: Path) -> None:
    """With the orientation fixed, the tip moves on a circle of radius 0.5 m (a link's length).

    The centers of 12 voxels lie on this circle, because 3² + 4² = 5².
    """
    found = reachability(
        sp.dh([[0.5, 0, 0, 0], [0.5, 0, 0, 0]]),
        tmp_path / "m",
        spacing=0.1,
        orientations=[[1, 0, 0, 0]],
        bounds=[[-1.2, -1.2, 0], [1.2, 1.2, 0]],
        levels=0,
    )
    at, _ = found.points()
    np.testing.assert_allclose(np.linalg.norm(at - [0.5, 0, 0], axis=1), 0.5, atol=1e-6)
    assert len(at) == 12


# ---- queries -------------------------------------------------------------------------------------


def test_the_value_of_a_map_at_a_point_is_that_of_the_nearest_voxel(exact: ReachMap) -> None:
    at = centers(exact)
    chance = np.random.default_rng(2)
    p = chance.uniform(at.min(axis=0), at.max(axis=0), size=(200, 3))
    nearest = np.linalg.norm(p[:, None] - at, axis=2).argmin(axis=1)
    for name in ("dexterity", "manipulability", "manipulability_mean", "sigma_min"):
        expected = getattr(exact, name).ravel()[nearest]
        np.testing.assert_array_equal(exact.at(p, name), expected)
        np.testing.assert_array_equal(exact.at(p.reshape(10, 20, 3), name).ravel(), expected)
    assert exact.at(p[0]) == exact.dexterity.ravel()[nearest[0]]
    assert exact.at([50.0, 0, 0]) == 0


def test_reaches_returns_the_value_at_the_nearest_pose_of_the_map(exact: ReachMap) -> None:
    at, known = centers(exact), bits(exact)
    T = UR5E.fk(UR5E.random(300, seed=4))
    nearest = np.linalg.norm(T[:, None, :3, 3] - at, axis=2).argmin(axis=1)
    Q = sp.pose(wxyz=exact.orientations)[:, :3, :3]
    cosine = np.einsum("nij,kij->nk", T[:, :3, :3], Q)  # the trace of RᵀQ
    which = cosine.argmax(axis=1)
    np.testing.assert_array_equal(exact.reaches(T), known[nearest, which])
    assert exact.reaches(T[0]) == known[nearest[0], which[0]]


def test_slices_and_points_of_a_map_have_the_values_of_its_voxels(exact: ReachMap) -> None:
    k = 4
    z = exact.origin[2] + k * exact.spacing
    np.testing.assert_array_equal(exact.slice("z", z + 0.4 * SPACING), exact.dexterity[:, :, k])
    np.testing.assert_array_equal(
        exact.slice("x", exact.origin[0], "sigma_min"), exact.sigma_min[0]
    )
    where, values = exact.points(least=0.5)
    assert (values > 0.5).all()
    np.testing.assert_array_equal(exact.at(where), values)
    with pytest.raises(InputError, match="position must be from"):
        exact.slice("z", 9.0)
    with pytest.raises(UnknownNameError, match="axis"):
        exact.slice("w", 0.0)
    with pytest.raises(UnknownNameError, match="value"):
        exact.at([0, 0, 0], "dexterous")


def test_the_picture_of_a_map_shows_its_three_slices(exact: ReachMap) -> None:
    figure = exact.plot("manipulability")
    shown = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    assert len(shown) == 3
    np.testing.assert_array_equal(shown[1], exact.slice("y", 0.0, "manipulability").T)


# ---- placement -----------------------------------------------------------------------------------


def poses_on_a_table() -> Any:
    """Return nine grasps from above, and some from the side, around the point (3, 1)."""
    x, y = np.meshgrid([-0.3, 0.0, 0.3], [-0.2, 0.0, 0.2])
    at = np.stack([3 + x.ravel(), 1 + y.ravel(), np.full(9, 0.2)], axis=1)
    above = sp.pose(at, rpy=np.tile([np.pi, 0, 0], (9, 1)))
    side = sp.pose(at[:3] + np.array([0, 0, 0.2]), rpy=np.tile([np.pi / 2, 0, 0.5], (3, 1)))
    return np.concatenate([above, side])


def candidates() -> Any:
    x, y, yaw = (a.ravel() for a in np.meshgrid([2.4, 2.9, 3.8], [0.4, 1.3, 2.6], [0, 1, 2.5]))
    return sp.pose(np.stack([x, y, 0 * x], axis=1), rpy=np.stack([0 * yaw, 0 * yaw, yaw], axis=1))


def test_best_base_reaches_as_many_targets_as_the_best_of_all_candidates(exact: ReachMap) -> None:
    """The numbers of reached targets are counted by `solve` with the robot at each candidate."""
    T, bases = poses_on_a_table(), candidates()
    counts = [int(solve(UR5E.with_base(base), T).success.sum()) for base in bases]
    found = exact.best_base(UR5E, T, bases=bases, verify=len(bases))
    assert found.reached.sum() == max(counts) > min(counts)
    placed = UR5E.with_base(found.base)
    np.testing.assert_allclose(placed.fk(found.q)[found.reached], T[found.reached], atol=2e-6)
    few = exact.best_base(UR5E, T, bases=bases, verify=8)
    assert few.reached.sum() >= max(counts) - 1


def test_best_base_finds_a_base_without_given_candidates(exact: ReachMap) -> None:
    T = poses_on_a_table()
    found = exact.best_base(UR5E, T)
    assert found.reached.all()
    assert solve(UR5E.with_base(found.base), T).success.all()
    assert found.base[2, 3] == 0


def test_a_reach_map_moves_with_the_base_of_the_robot(tmp_path: Path, exact: ReachMap) -> None:
    """The base moves by whole voxels. `best_base` accounts for the base of the robot."""
    base = sp.pose([5 * SPACING, -3 * SPACING, 2 * SPACING])
    moved = reachability(
        UR5E.with_base(base), tmp_path / "m", spacing=SPACING, orientations=COUNT, levels=0
    )
    np.testing.assert_allclose(moved.origin - exact.origin, base[:3, 3], atol=1e-9)
    assert (moved.dexterity != exact.dexterity).mean() < 1e-3
    T = UR5E.fk(UR5E.random(5, seed=1))
    found = moved.best_base(UR5E.with_base(base), T, bases=np.eye(4)[None])
    assert found.reached.all()


def test_best_base_refuses_a_robot_other_than_that_of_the_map(exact: ReachMap) -> None:
    with pytest.raises(InputError, match="robot must be the robot of the map"):
        exact.best_base(sp.load("panda"), poses_on_a_table())


# ---- running -------------------------------------------------------------------------------------


def test_a_killed_map_can_be_continued(tmp_path: Path) -> None:
    """The continued map has the same bytes as an uninterrupted map."""
    options: Any = {"spacing": 0.15, "orientations": 12, "levels": 1}
    reachability(UR5E, tmp_path / "expected", **options)
    command = [sys.executable, str(SUPPORT / "killed.py"), "reach", str(tmp_path), "5", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    killed, *left = map(int, done.stdout.split())
    assert killed >= 2
    assert left == sorted(left)
    for place in (".", "poses"):
        found, expected = (contents_of(tmp_path / name / place) for name in ("out", "expected"))
        assert found == expected


def contents_of(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name != ".lock"
    }


def test_bad_arguments_are_refused_before_any_file_is_written(
    tmp_path: Path, exact: ReachMap
) -> None:
    for options, says in (
        ({"spacing": 0}, "spacing"),
        ({"orientations": 0}, "orientations"),
        ({"orientations": [[1, 1, 0, 0]]}, "unit quaternions"),
        ({"bounds": [[1, 1, 1], [0, 0, 0]]}, "bounds"),
        ({"levels": -1}, "levels"),
        ({"spacing": 1e-6}, "at most"),
    ):
        with pytest.raises(InputError, match=says):
            reachability(UR5E, tmp_path / "m", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "m").exists()
    with pytest.raises(InputError, match="another job: spacing"):
        reachability(UR5E, exact.folder, spacing=0.2, orientations=COUNT, levels=0)
    with pytest.raises(InputError, match="not a folder of parts"):
        ReachMap.load(tmp_path)


def test_the_reach_command_writes_a_map_and_draws_it(tmp_path: Path) -> None:
    words = ["reach", "ur5e", str(tmp_path / "m"), "--spacing", "0.25", "--orientations", "2"]
    done = CliRunner().invoke(cli, [*words, "--plot", str(tmp_path / "m.png"), "--json"])
    assert done.exit_code == 0, done.output
    says = json.loads(done.stdout)
    found = ReachMap.load(tmp_path / "m")
    assert says["reached_voxels"] == (found.dexterity > 0).sum() > 0
    assert says["poses"] == 2 * found.dexterity.size
    assert (tmp_path / "m.png").read_bytes()[:4] == b"\x89PNG"
    assert "reached volume" in CliRunner().invoke(cli, words).stdout
    other = [*words, "--plot", str(tmp_path / "s.png"), "--value", "sigma_min"]
    assert CliRunner().invoke(cli, other).exit_code == 0
    assert (tmp_path / "s.png").read_bytes() != (tmp_path / "m.png").read_bytes()
    assert CliRunner().invoke(cli, [*other, "--no-values"]).exit_code == 2
    assert contents(tmp_path / "m/poses")
