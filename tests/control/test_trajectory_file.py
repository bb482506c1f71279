"""A motion that is read from a file equals the motion that was written."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from supple import errors
from supple._arrays.tables import FORMATS, Table, write_table


def motion_of(name: str, step: object = None) -> sp.Trajectory:
    """Return a motion with damping, active limits and uneven time steps."""
    robot = sp.load(name)
    limits = sp.Limits.for_robot(robot, max_speed=0.6, max_acceleration=20.0)
    times = np.cumsum([0.01, 0.02, 0.01, 0.005] * 10) / 3
    there = robot.fk(robot.random(seed=1))
    reach = np.tile(there, (len(times), *[1] * there.ndim))
    return sp.simulate(
        robot, robot.random(seed=2), target=reach, times=times, limits=limits, step=step
    )


MOTIONS = {
    "panda": lambda: motion_of("panda"),
    "y": lambda: motion_of("y"),
    "filter": lambda: motion_of("ur5e", sp.steps.NumericalFilter(2.0)),
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", MOTIONS)
def test_a_motion_read_from_a_file_has_the_bits_of_the_written_motion(
    name: str, suffix: str, tmp_path: Path
) -> None:
    motion = MOTIONS[name]()
    again = sp.Trajectory.load(motion.save(tmp_path / f"motion{suffix}"), motion.robot)
    for each in fields(sp.Trajectory):
        one, other = getattr(motion, each.name), getattr(again, each.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
            assert type(one) is type(other)
        elif each.name == "estimates" and one is not None:
            for part in fields(one):
                np.testing.assert_array_equal(getattr(one, part.name), getattr(other, part.name))
        else:
            assert one == other
    assert str(again) == str(motion)
    assert again.status[0] == motion.status[0]


def test_every_step_status_survives_saving_and_loading(tmp_path: Path) -> None:
    motion = MOTIONS["panda"]()
    values = np.resize(np.arange(64), len(motion)).astype(np.int8)
    changed = sp.Trajectory(
        **{
            **{each.name: getattr(motion, each.name) for each in fields(motion)},
            "status": type(motion.status).of(sp.StepStatus, values),
        }
    )
    again = sp.Trajectory.load(changed.save(tmp_path / "x.csv"))
    assert (np.asarray(again.status) == values).all()


def test_loading_a_table_that_is_not_a_trajectory_is_refused(tmp_path: Path) -> None:
    file = write_table(tmp_path / "x.csv", Table({"t": np.zeros(3)}))
    with pytest.raises(errors.InputError, match="not a trajectory"):
        sp.Trajectory.load(file)


@pytest.mark.parametrize("cut", ["t", "lambda2", "error"])
def test_loading_a_motion_with_arrays_of_wrong_shapes_is_refused(cut: str, tmp_path: Path) -> None:
    motion = MOTIONS["panda"]()
    file = motion.save(tmp_path / "x.npz")
    with np.load(file) as found:
        arrays = {name: found[name] for name in found.files}
    arrays[cut] = arrays[cut][:-2]
    np.savez(file, **arrays)
    with pytest.raises(errors.InputError, match="shapes do not match"):
        sp.Trajectory.load(file)


def test_loading_a_motion_with_an_unknown_status_is_refused(tmp_path: Path) -> None:
    file = MOTIONS["panda"]().save(tmp_path / "x.csv")
    file.write_text(file.read_text().replace("DAMPED", "WILD").replace("FOLLOWING", "WILD"))
    with pytest.raises(errors.InputError, match="unknown status"):
        sp.Trajectory.load(file)
