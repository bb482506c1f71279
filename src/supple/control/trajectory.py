"""Motions as arrays: the result of `simulate` and of timed paths."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import number
from supple._arrays.tables import read_table, write_table
from supple.collision.certificate import Certificate, Certified, certificate_of_both
from supple.control.missed import TaskShares
from supple.control.resampling import resampled_at, rested
from supple.control.trajectory_file import check_robot_of, from_table, to_table
from supple.errors import InputError, join_names
from supple.kinematics import Robot
from supple.kinematics.configuration import Coordinates, Layout, difference, to_kernel
from supple.motion.linearization import Array
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray
from supple.motion.unit_text import error_text
from supple.steps.estimate import Estimates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from supple.plot.animation import Animation

_EQUAL_DISTANCE = 1e-9  # joint displacement up to which configurations are equal [rad or m]


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Certified):
    """A motion of K steps, as arrays; `str(trajectory)` is a summary.

    `first + second` is one motion after the other, if the second begins where the first ends. A
    jump of the speeds there appears in `qdd`.

    Values of rows are in the axes of their tasks, without weights [m, rad, or per s].

    Attributes:
        t: Times (K + 1,) [s].
        q: Joint coordinates (K + 1, nq) [rad or m].
        qd: Joint speeds of each step (K, n) [rad/s or m/s].
        lambda2: Damping of each step (K,).
        sigma_min: Smallest singular value of the weighted J at each step (K,).
        command: Command of each row (K, m): velocities, or accelerations if `order` is 2.
        velocity: Velocity of each row, J q̇ (K, m).
        error: Error of each row to its target after the step (K, m); zero without a target.
        active: The limit that acts on each joint (K, n): -1 for a lower limit, 1 for an upper,
            else 0.
        status: `StepStatus` of each step (K,): flags, stored as int32; indexing returns a
            `StepStatus`.
        rows: Names of the m rows.
        estimates: Estimated singular values and the damping chosen from them, arrays (K,), for a
            `NumericalFilter` or an `EstimatedDLS`; None for other steps.
        robot: The robot, if it is known; files contain its name only.
        certificate: A lower bound of the distances in the world during the motion, if joints move
            linearly between samples; None without a world, and in motions from files.
    """

    t: Array
    q: Array
    qd: Array
    lambda2: Array
    sigma_min: Array
    command: Array
    velocity: Array
    error: Array
    active: NDArray[np.int8]
    status: StatusArray[StepStatus]
    rows: tuple[str, ...]
    estimates: Estimates | None = None
    robot: Robot | None = None
    certificate: Certificate | None = None
    _shares: TaskShares | None = field(default=None, repr=False)
    _coordinates: Coordinates | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.qd)

    @property
    def _layout(self) -> Layout:
        """The robot or, in a motion from a file, what is known about its coordinates."""
        return self._coordinates if self.robot is None else self.robot

    @property
    def _positions(self) -> Array:
        """One position per velocity (K + 1, n): rotation vectors instead of quaternions."""
        return np.asarray(to_kernel(self._layout, self.q))

    def __repr__(self) -> str:
        whose = "" if self.robot is None else f" of {self.robot.name}"
        steps, n = self.qd.shape
        return f"<Trajectory{whose}: {steps} steps, {n} joints, {self.t[-1] - self.t[0]:.4g} s>"

    def __str__(self) -> str:
        steps = len(self)
        lines = [f"{steps} steps in {self.t[-1] - self.t[0]:.4g} s"]
        for status in StepStatus.__members__.values():
            count = self.status.count(status)
            if count:
                lines.append(f"  {count:>6} {status}: {status.sentence}")
        if steps:
            speeds = np.linalg.norm(self.qd, axis=1)
            lines.append(f"  joint speeds: at most {speeds.max():.4g} in norm")
            lines.append(f"  smallest singular value: at least {self.sigma_min.min():.3g}")
            if self.error.any():
                lines.append(f"  error: {self._error_text()}")
        lines += [f"  {each}" for each in self.reasons] * (len(self.tasks) > 1)
        lines += [f"  {self.certificate}"] * (self.certificate is not None)
        return "\n".join(lines)

    def _error_text(self) -> str:
        """Return the largest and the last error as text, in mm and mrad for rows of frames."""
        kinds = [name.partition(" of ")[0] for name in self.rows]
        moves = np.isin(kinds, ("x", "y", "z"))
        turns = np.isin(kinds, ("rx", "ry", "rz", "tilt"))
        if not (moves | turns).all():  # joints, or rows of open tasks, whose units are mixed
            errors = np.linalg.norm(self.error, axis=1)
            return f"at most {errors.max():.3g}, {errors[-1]:.3g} at the end"
        p, r = (np.linalg.norm(self.error[:, rows], axis=1) for rows in (moves, turns))
        last = error_text(p[-1], r[-1], ".3g")
        return f"at most {error_text(p.max(), r.max(), '.3g')}, {last} at the end"

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks as text; empty if the tasks are not known."""
        return () if self._shares is None else self._shares.tasks

    @property
    def missed(self) -> Array:
        """The part of each task's command that each step did not perform (K, tasks).

        As `Servo.missed`: the norm of weighted rows, of accelerations if `order` is 2. The shape is
        (K, 0) if the tasks are not known.
        """
        return np.zeros((len(self), 0)) if self._shares is None else self._shares.missed

    @property
    def commanded(self) -> Array:
        """The norm of each task's command in each step (K, tasks), in the units of `missed`."""
        return np.zeros((len(self), 0)) if self._shares is None else self._shares.commanded

    @property
    def reasons(self) -> tuple[str, ...]:
        """A sentence about each task that steps missed by more than 0.1 %: how much, and why."""
        if self._shares is None:
            return ()
        return self._shares.sentences(np.asarray(self.status))

    @property
    def qdd(self) -> Array:
        """Joint accelerations (K - 1, n) [rad/s² or m/s²].

        Row k is the change of speed from step k to step k + 1, divided by the length of step k + 1:
        the quantity that `Limits.max_acceleration` bounds.
        """
        return np.diff(self.qd, axis=0) / np.diff(self.t)[1:, None]

    def __add__(self, other: Trajectory) -> Trajectory:
        """Return this motion followed by another one, whose times are shifted.

        Raises:
            InputError: The other motion is of another robot, has other rows, or begins elsewhere.
        """
        if not isinstance(other, Trajectory):
            return NotImplemented
        _check_continues(self, other)
        steps = ("qd", "lambda2", "sigma_min", "command", "velocity", "error", "active")
        joined: dict[str, Any] = {
            n: np.concatenate([getattr(self, n), getattr(other, n)]) for n in steps
        }
        estimates, after = self.estimates, other.estimates
        if estimates is not None and after is not None:
            names = [each.name for each in fields(Estimates)]
            estimates = Estimates(
                *(np.append(getattr(estimates, n), getattr(after, n)) for n in names)
            )
        else:
            estimates = None
        values = np.append(np.asarray(self.status), np.asarray(other.status))
        t = np.append(self.t, self.t[-1] + (other.t[1:] - other.t[0]))
        q = np.concatenate([self.q, other.q[1:]])
        both = self.certificate, other.certificate
        return replace(
            self,
            t=t,
            q=q,
            certificate=certificate_of_both(*both, t, q),
            _shares=None if self._shares is None else self._shares.then(other._shares),
            status=StatusArray.of(StepStatus, values),
            estimates=estimates,
            robot=self.robot if self.robot is not None else other.robot,
            **joined,
        )

    def resampled(self, dt: float) -> Trajectory:
        """Return the same motion with time steps of another length.

        With steps of equal lengths, q is the cubic B-spline whose control points are the samples.
        It keeps every limit of speed, acceleration and jerk that differences of the samples keep,
        and passes the samples at a distance of about q̈ h²/6 for old steps of length h. A motion
        that begins at rest becomes one old step longer, and one more if it ends at rest. With
        uneven steps, q is linear between the samples. All values other than q are those of the old
        step that contains the middle of the new step. The orientation of a ball joint is a
        cumulative B-spline: its angular speed is at most the largest one of the samples (Kim, Kim &
        Shin 1995).

        Args:
            dt: Length of the new steps [s]. The motion ends within the last step, and then rests.
        """
        dt = number(dt, "dt", above=0)
        if not len(self):
            return self
        layout = self._layout
        old, points = rested(layout, self.t, self.q)
        steps = max(1, int(np.ceil((old[-1] - old[0]) / dt - 1e-9)))
        t = old[0] + dt * np.arange(steps + 1)
        q = resampled_at(layout, old, points, np.minimum(t, old[-1]))
        own = t - t[0] + self.t[0]
        middle = np.clip((t[1:] + t[:-1]) / 2, self.t[0], self.t[-1])
        at = np.clip(np.searchsorted(self.t, middle, side="right") - 1, 0, len(self) - 1)
        kept = ("lambda2", "sigma_min", "command", "velocity", "error", "active")
        estimates = self.estimates
        if estimates is not None:
            estimates = Estimates(
                *(np.asarray(getattr(estimates, each.name))[at] for each in fields(Estimates))
            )
        return replace(
            self,
            t=own,
            q=q,
            qd=difference(layout, q[1:], q[:-1]) / dt,
            certificate=None if self.certificate is None else self.certificate.again(own, q),
            status=StatusArray.of(StepStatus, np.asarray(self.status)[at]),
            estimates=estimates,
            _shares=None if self._shares is None else self._shares.part(at),
            **{name: getattr(self, name)[at] for name in kept},
        )

    # ---- files and pictures ----------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the motion to a file, atomically and without rounding, and return its path.

        Only the name of the robot and the names of its joints are written, not the robot itself.

        Args:
            path: A file that ends in .npz, .csv or .parquet. Tables have one row for each of the
                K + 1 times. In the first row, columns with one value per step, such as "qd:joint",
                are empty.

        Raises:
            InputError: The suffix is unknown.
            MissingExtraError: The format is Parquet and pyarrow is not installed.
        """
        return write_table(path, to_table(self))

    @staticmethod
    def load(path: str | os.PathLike[str], robot: Robot | None = None) -> Trajectory:
        """Return a motion that `save` has written.

        Args:
            path: The file.
            robot: The robot of the motion, for `animate` and for names in `plot`.

        Raises:
            InputError: The file is not a trajectory, or the motion is of another robot: one with
                another number of joints, other names of joints or another name.
        """
        table = read_table(path)
        made = Trajectory(**from_table(table), robot=robot)
        if robot is not None:
            check_robot_of(table, robot, f"the motion in {os.fspath(path)}")
        return made

    def plot(self, *, title: str | None = None) -> Figure:
        """Return a Matplotlib figure: positions, speeds, singular value with damping, error.

        Positions and speeds are relative to the robot's limits, if it has them. Times at which a
        limit acts are shaded. `figure.savefig("motion.png")` saves the figure.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        from supple.plot.figures import trajectory_figure

        return trajectory_figure(self, title=title)

    def animate(self, robot: Robot | None = None) -> Animation:
        """Return an animation: notebooks display it, and `save("motion.html")` writes it to a file.

        `save` also writes GIF files. In HTML, dragging rotates the view.

        Args:
            robot: The robot, for a motion that was loaded without one; by default `self.robot`.
        """
        from supple.plot.animation import trajectory_animation

        return trajectory_animation(self, self.robot if robot is None else robot)

    def _repr_html_(self) -> str:
        from supple.plot.html import trajectory_html

        return trajectory_html(self)


def _check_continues(first: Trajectory, second: Trajectory) -> None:
    """Raise an error unless one motion can follow another: same robot, rows and configuration."""
    n, other = first.q.shape[1], second.q.shape[1]
    a, b = first.robot, second.robot
    if n != other:
        raise InputError(
            f"two motions that are joined must be of the same robot; given: {n} and {other} joints"
        )
    if a is not None and b is not None and (a.name, a.joint_names) != (b.name, b.joint_names):
        raise InputError(
            "two motions that are joined must be of the same robot; given: "
            f"{a.name} with the joints {join_names(a.joint_names)}, and {b.name} with "
            f"{join_names(b.joint_names)}"
        )
    if first.rows != second.rows:
        raise InputError(
            "two motions that are joined must have the same tasks; given: the rows "
            f"{join_names(first.rows)}, and {join_names(second.rows)}"
        )
    layout = first._layout if first.robot is not None else second._layout
    gap = np.abs(difference(layout, second.q[0], first.q[-1]))
    if not gap.max() <= _EQUAL_DISTANCE:
        j = int(gap.argmax())
        robot = a if a is not None else b
        before, then = (to_kernel(layout, q)[j] for q in (first.q[-1], second.q[0]))
        name = f"joint {j}" if robot is None else robot.joint_names[j]
        raise InputError(
            "the second of two motions must begin where the first one ends, with "
            f"q0=first.q[-1]; given: {name} at {before:.9g}, then at {then:.9g}"
        )
