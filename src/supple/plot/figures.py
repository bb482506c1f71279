"""Figures of robots and motions, drawn by Matplotlib without pyplot.

`figure.savefig("robot.png")` writes a figure, notebooks display it, and `ax=` draws into existing
axes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError, MissingExtraError, short_repr
from supple.plot import palette
from supple.plot.shape import Matrix, Shape, shape_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_LEGEND_JOINTS = 10  # maximum number of joints in a legend
_MAX_CONFIGURATIONS = 200


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a width and height [inch], which notebooks display."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("plot", "drawing figures") from error

    class Picture(Figure):
        """A figure that is not managed by pyplot."""

        def _repr_html_(self) -> str:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=110)
            data = base64.b64encode(file.getvalue()).decode("ascii")
            return f'<img src="data:image/png;base64,{data}" style="max-width:100%">'

    return Picture(figsize=(width, height), layout="constrained")


def _look() -> Any:
    import matplotlib

    return matplotlib.rc_context(palette.LOOK)


# ---- robots --------------------------------------------------------------------------------------


def robot_figure(
    robot: Any,
    q: ArrayLike | None = None,
    *,
    target: ArrayLike | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Return a figure of a robot at q (n,), or at several q (k, n); only the last is not pale.

    Args:
        robot: The robot.
        q: Configurations [rad or m]; the neutral one by default.
        target: Poses (..., 4, 4) [m] to draw as frames.
        ax: Axes with projection="3d" to draw into; a new figure by default.
        title: Title of the axes; the robot's name by default.
    """
    shape = shape_of(robot)
    several = configurations(robot, robot.neutral() if q is None else q)
    figure = new_figure(5.2, 5.0) if ax is None else figure_of(ax)
    with _look():
        drawn: Any = figure.add_subplot(projection="3d") if ax is None else ax
        poses = shape.poses(robot, several)
        for k, T in enumerate(poses):
            last = k == len(poses) - 1
            fade = 1.0 if last else 0.12 + 0.4 * k / max(len(poses) - 1, 1)
            draw_robot(drawn, shape, T, alpha=fade, detailed=last)
        if len(poses) > 1:
            for tip in shape.tips:
                drawn.plot(*poses[:, tip, :3, 3].T, color=palette.VERMILION, lw=1.0, alpha=0.8)
        for T in [] if target is None else np.reshape(np.asarray(target, float), (-1, 4, 4)):
            draw_frame(drawn, T, 0.2 * shape.size, dashed=True)
        set_view(drawn, shape)
        drawn.set_title(robot.name if title is None else title)
    return figure


def figure_of(ax: Axes) -> Figure:
    """Return the figure that contains axes, even if they are in a `SubFigure`."""
    figure: Any = ax.figure
    while not hasattr(figure, "savefig"):
        figure = figure.figure
    return figure  # type: ignore[no-any-return]


def configurations(robot: Any, q: ArrayLike) -> Matrix:
    """Return configurations (k, n) after checking them; of more than 200, an even selection."""
    several = np.asarray(q, dtype=np.float64)
    several = several[None] if several.ndim == 1 else several
    if several.ndim != 2 or several.shape[1] != robot.nq or not np.isfinite(several).all():
        raise InputError(
            f"q must be finite, of shape ({robot.nq},) or (k, {robot.nq}); given: {short_repr(q)}"
        )
    if len(several) > _MAX_CONFIGURATIONS:
        keep = np.linspace(0, len(several) - 1, _MAX_CONFIGURATIONS).astype(int)
        several = several[keep]
    return several


def draw_robot(
    ax: Any,
    shape: Shape,
    poses: Matrix,
    *,
    color: str = palette.STEEL,
    alpha: float = 1.0,
    detailed: bool = True,
) -> None:
    """Draw a robot whose links have the given poses (links, 4, 4)."""
    for ends, deep in zip(shape.segments(poses), shape.depth, strict=True):
        width = max(9.0 - 1.1 * deep, 3.0) if detailed else 2.0
        ax.plot(*ends.T, color=color, lw=width, alpha=alpha, solid_capstyle="round")
    if detailed:
        places, axes = shape.joints.at(poses), shape.joint_axes(poses)
        for at, axis, slides in zip(places, axes, shape.prismatic, strict=True):
            along = np.stack([at - 0.05 * shape.size * axis, at + 0.05 * shape.size * axis])
            joint = palette.SKY if slides else palette.ORANGE
            ax.plot(*along.T, color=joint, lw=4, solid_capstyle="butt")
        for tip in shape.tips:
            draw_frame(ax, poses[tip], 0.16 * shape.size)


def draw_frame(ax: Any, T: Matrix, length: float, *, dashed: bool = False) -> None:
    """Draw the three axes of a pose: x vermilion, y green, z blue."""
    for axis, color in zip(T[:3, :3].T, palette.AXES, strict=True):
        ends = np.stack([T[:3, 3], T[:3, 3] + length * axis])
        ax.plot(*ends.T, color=color, lw=1.8, ls=":" if dashed else "-")


def set_view(ax: Any, shape: Shape) -> None:
    """Set equal scales around the workspace, and a typical direction of view."""
    for which, middle in zip("xyz", shape.center, strict=True):
        getattr(ax, f"set_{which}lim")(middle - shape.size, middle + shape.size)
    ax.set_box_aspect((1, 1, 1), zoom=1.2 if shape.flat else 0.95)
    ax.set_xlabel("x [m]")
    ax.set_ylabel("y [m]")
    if shape.flat:
        ax.view_init(elev=90, azim=-90)
        ax.set_zticks([])
    else:
        ax.set_zlabel("z [m]")
        ax.view_init(elev=22, azim=-52)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_pane_color((0.97, 0.97, 0.97, 1.0))
        axis.set_major_locator(_ticks())


def _ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)


# ---- motions -------------------------------------------------------------------------------------


def trajectory_figure(motion: Any, *, title: str | None = None) -> Figure:
    """Return a figure of a motion: positions, speeds, singular value with damping, error.

    Positions and speeds are relative to the robot's limits, if it has them. Times at which a limit
    acts are shaded.
    """
    figure = new_figure(9.5, 6.4)
    with _look():
        (place, speed), (sigma, error) = figure.subplots(2, 2, sharex=True)
        t, after = np.asarray(motion.t), np.asarray(motion.t)[1:]
        names, robot = _names(motion), motion.robot
        low, high, fastest = _ranges(motion)
        q = motion._positions
        for j, name in enumerate(names):
            how = _style(j)
            if np.isfinite(high[j] - low[j]) and high[j] > low[j]:
                shown = 2 * (q[:, j] - low[j]) / (high[j] - low[j]) - 1
            else:
                shown = q[:, j] / np.pi
            place.plot(t, shown, label=name, **how)
            bound = fastest[j] if np.isfinite(fastest[j]) else 1.0
            speed.plot(after, motion.qd[:, j] / bound, **how)
        bounded = robot is not None and np.isfinite(fastest).all()
        _titled(place, "joint positions, ±1 at the limits" if robot else "joint positions / π")
        _titled(speed, "joint speeds / limits" if bounded else "joint speeds [rad/s or m/s]")
        if bounded:
            for side in (-1, 1):
                speed.axhline(side, color=palette.GRAY, lw=1, ls=(0, (4, 2)))
        floor = 1e-6 * max(float(np.max(motion.sigma_min, initial=0)), 1e-12)
        sigma.semilogy(
            after, np.maximum(motion.sigma_min, floor), color=palette.BLUE, label="σ_min"
        )
        damping = np.sqrt(motion.lambda2)
        shown = np.where(damping > floor, damping, np.nan)
        sigma.semilogy(after, shown, color=palette.VERMILION, ls=(0, (5, 1.5)), label="λ")
        _titled(sigma, "smallest singular value and damping").legend()
        _draw_errors(error, after, motion)
        for ax in (sigma, error):
            ax.set_xlabel("time [s]")
        _shade(speed, t, np.asarray(motion.active).any(axis=1))
        if len(names) <= _MAX_LEGEND_JOINTS:
            figure.legend(
                *place.get_legend_handles_labels(), loc="outside lower center", ncols=len(names)
            )
        head = title or (robot.name if robot is not None else "")
        if head:
            figure.suptitle(head, fontweight="bold")
    return figure


def _draw_errors(ax: Any, after: Matrix, motion: Any) -> None:
    """Draw the error to the target or, without a target, the velocity error J q̇ - command."""
    targeted = np.asarray(motion.error).any()
    rows = np.asarray(motion.error if targeted else motion.velocity - motion.command)
    turns = np.array([row.split()[0] in ("rx", "ry", "rz") for row in motion.rows], dtype=bool)
    unit = ("[m]", "[rad]") if targeted else ("[m/s]", "[rad/s]")
    for mask, name, color, dashes in (
        (~turns, f"position {unit[0]}", palette.BLUE, "-"),
        (turns, f"rotation {unit[1]}", palette.VERMILION, (0, (5, 1.5))),
    ):
        if mask.any():
            size = np.linalg.norm(rows[:, mask], axis=1)
            ax.plot(after, size, color=color, ls=dashes, label=name)
    _titled(ax, "error to the target" if targeted else "|commanded − actual velocity|").legend()


def _shade(ax: Any, t: Matrix, where: Any) -> None:
    """Shade the steps marked in `where` (K,), at most 200 intervals."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(int)))
    for begin, end in edges.reshape(-1, 2)[:200]:
        ax.axvspan(t[begin], t[end], color=palette.ORANGE, alpha=0.15, lw=0)


def _titled(ax: Any, title: str) -> Any:
    ax.set_title(title)
    return ax


def _style(j: int) -> dict[str, Any]:
    colors, dashes = palette.SERIES, palette.DASHES
    return {"color": colors[j % len(colors)], "ls": dashes[(j // len(colors)) % len(dashes)]}


def _names(motion: Any) -> Sequence[str]:
    if motion.robot is None:
        return [f"q[{j}]" for j in range(motion.qd.shape[1])]
    names: Sequence[str] = motion.robot.joint_names
    return names


def _ranges(motion: Any) -> tuple[Matrix, Matrix, Matrix]:
    """Return lower and upper limits and speed limits of the joints (n,)."""
    free = np.full(motion.qd.shape[1], np.inf)
    robot = motion.robot
    if robot is None:
        return -free, free, free
    return robot.lower, robot.upper, robot.max_speed


def slices_figure(
    slices: Sequence[Matrix], origin: Matrix, spacing: float, point: Matrix, title: str
) -> Figure:
    """Return a figure of the three slices of a grid of values through a point.

    Args:
        slices: Values in the planes normal to x, y and z, each over the other two axes.
        origin: Center of the first voxel (3,) [m].
        spacing: Distance between the centers of neighboring voxels [m].
        point: The point (3,) [m].
        title: Title of the figure.
    """
    with _look():
        figure = new_figure(11.0, 3.8)
        largest = max((float(each.max(initial=0.0)) for each in slices), default=0.0) or 1.0
        shown: Any = None
        for k, values in enumerate(slices):
            ax = figure.add_subplot(1, 3, k + 1)
            i, j = (n for n in range(3) if n != k)
            low = origin[[i, j]] - spacing / 2
            high = low + spacing * np.array(values.shape)
            shown = ax.imshow(
                values.T,
                origin="lower",
                extent=(low[0], high[0], low[1], high[1]),
                vmin=0.0,
                vmax=largest,
                cmap="viridis",
                interpolation="nearest",
            )
            ax.grid(False)
            ax.set_xlabel(f"{'xyz'[i]} [m]")
            ax.set_ylabel(f"{'xyz'[j]} [m]")
            ax.set_title(f"{'xyz'[k]} = {point[k]:.3g} m")
        figure.colorbar(shown, ax=figure.axes, shrink=0.8)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure
