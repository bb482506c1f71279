"""DW Fig. 6: a PUMA starts next to its shoulder singularity, along the singular direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.deo_walker.counting import STATED, Step, by_tolerance, iterations, under
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START = np.radians([0, -60, 34.27, 0, 60, 0])
ALONG_Y = np.array([0, 1.0, 0, 0, 0, 0])  # direction of ẋ
DURATION, DT = 0.4, 0.002  # duration and period [s]
MAX_SPEED = 5.0  # Δ [rad/s]


@experiment(
    "dw-puma",
    paper="DW",
    figure="Fig. 6",
    title="A PUMA leaves its shoulder singularity along the lost direction",
    deviations=(
        "The Jacobian of the paper's reference [31] is that of the PUMA of Maciejewski & Klein, "
        "Table I, up to the tool; the paper gives no dimensions.",
        "The paper gives no start, duration or step length. Here the wrist starts 1 cm beside the "
        "shoulder's axis, and the motion takes 0.4 s in steps of 2 ms, without position feedback.",
        f"Iterations are counted from λ = 0, as in the paper. {STATED}",
    ),
    parameters=(
        Parameter("max_speed", MAX_SPEED, "rad/s", "Δ, the bound on ‖q̇‖", 0),
        Parameter("velocity", 0.5, "m/s", "commanded velocity along y", 0),
        Parameter("duration", DURATION, "s", "time of the motion", 0),
    ),
)
def puma(progress: Progress, *, max_speed: float, velocity: float, duration: float) -> Outcome:
    """The wrist is above the shoulder, a centimeter from the first axis. The tool is commanded to
    move at 0.5 m/s along y, without rotation. If the wrist were on the axis, y would be the
    singular direction.
    """
    robot, task = supple.load("puma560_mk"), supple.PoseTask()
    command = velocity * ALONG_Y
    begin = robot.fk(START)[:3, 3]
    steps: dict[str, Step] = {
        "pinv": supple.steps.Pseudoinverse(),
        "optimal": supple.DLS(supple.damping.Optimal(max_speed)),
    }
    motions, away = {}, {}
    for name, step in each(steps.items(), progress):
        motion = supple.simulate(
            robot,
            START,
            tasks=task,
            velocity=command,
            dt=DT,
            duration=duration,
            step=step,
            limits=supple.Limits.none(robot),
        )
        motions[name] = motion
        wanted = begin + motion.t[:, None] * command[:3]
        away[name] = np.linalg.norm(robot.fk(motion.q)[:, :3, 3] - wanted, axis=1)
    first = task.linearize(robot, START, velocity=command)
    lost = float(abs(first.U[1, -1]))  # the y component of the singular direction
    speed = {name: np.linalg.norm(motion.qd, axis=1) for name, motion in motions.items()}
    searched = [task.linearize(robot, q, velocity=command) for q in motions["optimal"].q[:-1]]
    counted = iterations(searched, max_speed)
    damped = int((motions["optimal"].lambda2 > 0).sum())
    quantities = {
        "pinv_max_speed": speed["pinv"].max(),
        "optimal_max_speed": speed["optimal"].max(),
        "max_deviation": away["optimal"].max(),
        "pinv_max_deviation": away["pinv"].max(),
        "damped_steps": damped,
        **{f"{form}_iterations": count for form, count in counted.items()},
        "lost_direction_along_y": lost,
    }
    claims = (
        Claim(
            "the singular direction lies along the y-axis of the world",
            f"|y component| of the singular direction: {lost:.3f}",
            lost > 0.9,
            "on the shoulder's axis no joint moves the wrist out of the arm's plane",
        ),
        Claim(
            "the pseudoinverse tracks accurately, but has a very high norm initially",
            f"{speed['pinv'].max():.1f} rad/s, {1e3 * away['pinv'].max():.1f} mm off at the end",
            bool(speed["pinv"].max() > 10 * max_speed and speed["pinv"].argmax() == 0),
            "σ_min = 0.0075 at the start; the 2 mm are those of Euler's steps",
        ),
        Claim(
            "with the optimal damping the norm stays feasible throughout (Δ = 5)",
            f"at most {under(speed['optimal'], max_speed)}",
            bool(speed["optimal"].max() <= max_speed),
            "the search ends slightly below the bound",
        ),
        Claim(
            "there is some deviation from the specified trajectory",
            f"{1e3 * away['optimal'].max():.1f} mm at most, on a path of 200 mm",
            bool(away["optimal"].max() > 5 * away["pinv"].max()),
            f"{damped} of {len(speed['optimal'])} steps are damped; there is no feedback",
        ),
        Claim(
            "3 iterations wherever the pseudoinverse was not feasible",
            f"{counted['reciprocal']:.2f} by (18), {counted['newton']:.2f} by (17); "
            f"{counted['supple']:.2f} by supple, from a lower bound",
            2.5 <= counted["reciprocal"] <= 3.5,
            "from λ = 0 to twelve digits; with eight 2 suffice",
        ),
    )
    columns: dict[str, style.Array] = {"time": motions["pinv"].t[:-1]}
    for name, motion in motions.items():
        columns |= {
            f"{name}.speed": speed[name],
            f"{name}.deviation": away[name][1:],
            f"{name}.q": motion.q[:-1],
            f"{name}.lambda2": motion.lambda2,
            f"{name}.tool": robot.fk(motion.q[:-1])[:, :3, 3],
        }
    tables = (Table("time", columns), Table("tolerance", by_tolerance(searched, max_speed)))
    return Outcome(quantities, claims, _figure(robot, motions, speed, away, max_speed), tables)


def _figure(
    robot: supple.Robot,
    motions: dict[str, supple.Trajectory],
    speed: dict[str, style.Array],
    away: dict[str, style.Array],
    max_speed: float,
) -> Callable[[Figure], None]:
    names = {"pinv": "pseudoinverse", "optimal": "optimal damping"}

    def named(each: dict[str, style.Array]) -> dict[str, style.Array]:
        return {names[name]: values for name, values in each.items()}

    def draw(figure: Figure) -> None:
        figure.set_size_inches(12, 6.2)
        panels = figure.subplot_mosaic(
            [["top", "speeds", "pinv"], ["damping", "errors", "optimal"]]
        )
        top, speeds, damping, errors = (
            panels[name] for name in ("top", "speeds", "damping", "errors")
        )
        frames = ["link0", "link2", "link3", "link4", "link6"]
        for k, (name, motion) in enumerate(motions.items()):
            title = f"The arm from above, {names[name]}"
            ax = style.titled(panels[name], title, "x [m]", "y [m]")
            some = np.linspace(0, len(motion.q) - 1, 6).astype(int)
            style.arms(ax, robot.fk(motion.q[some], frames)[..., :2, 3], k)
        time = motions["pinv"].t
        style.titled(top, "The tool from above", "x [mm]", "y [mm]")
        begin = robot.fk(START)[:3, 3]
        for k, motion in enumerate(motions.values()):
            tool = 1e3 * (robot.fk(motion.q)[:, :3, 3] - begin)
            top.plot(tool[:, 0], tool[:, 1], **style.style_of(k))
            top.plot(*tool[-1, :2], "o", color=style.style_of(k)["color"], ms=5)
        top.plot(0, 0, "s", color="black", ms=5)
        top.set_xlim(-25, 25)
        style.note(top, "start", (-6, 4))
        style.note(top, "asked: straight ahead", (-23, 190))
        style.titled(
            speeds, "Joint speeds: out of range against bounded", "time [s]", "‖q̇‖ [rad/s]"
        )
        style.curves(speeds, time[:-1], named(speed))
        speeds.set_yscale("log")
        ticks = [3, 5, 10, 20, 50]
        speeds.set_yticks(ticks, [str(tick) for tick in ticks])
        speeds.minorticks_off()
        style.bound(speeds, max_speed, f"Δ = {max_speed:g}")
        style.titled(damping, "Damping, only while it is needed", "time [s]", "λ² [m²]")
        damping.plot(time[:-1], motions["optimal"].lambda2, **style.style_of(1))
        style.titled(errors, "Distance of the tool from its path", "time [s]", "[mm]")
        style.curves(errors, time, named({name: 1e3 * d for name, d in away.items()}))
        style.legend(figure, speeds)

    return draw
