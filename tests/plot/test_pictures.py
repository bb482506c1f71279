"""Figures, animations and HTML for notebooks show robots and results."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple as sp
from cases import each
from solving import solve
from supple import errors
from supple.plot import palette
from supple.plot.animation import Animation, Arm

NASTY = "<script>alert('1')</script>&\"λ"


class Balanced(HTMLParser):
    """A parser that checks that every element is closed in order."""

    VOID = frozenset(("br", "img", "meta", "link", "input"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def nasty_robot() -> sp.Robot:
    rows = [(0.5, 0, 0, 0), (0.4, 0, 0.1, 0)]
    return sp.dh(rows, name=NASTY, joint_names=[NASTY, "b"])


def motion(robot: sp.Robot | None = None) -> sp.Trajectory:
    robot = robot or sp.load("panda")
    q = robot.random(seed=0)
    return sp.simulate(robot, q, velocity=[0.2, 0, 0, 0, 0, 0.1], dt=0.01, duration=0.5)


def test_importing_supple_does_not_import_matplotlib() -> None:
    code = (
        "import sys, supple; supple.load('panda'); "
        "print([m for m in sys.modules if m.startswith(('supple.plot', 'matplotlib', 'pyarrow'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---- notebooks -----------------------------------------------------------------------------------


UR = sp.load("ur5e")


def pose(far: float = 1.0) -> Any:
    """Return a pose that the UR5e reaches, moved away from the base by the factor `far`."""
    T = UR.fk(UR.random(seed=1))
    T[:3, 3] *= far
    return T


def stepped() -> sp.Servo:
    servo = sp.Servo(UR, dt=0.01)
    servo(UR.random(seed=2), [0.1, 0, 0, 0, 0, 0])
    return servo


SHOWN = {
    "robot": lambda: UR,
    "figure": lambda: sp.load("double_y16"),
    "sliding robot": lambda: sp.load("stanford"),
    "nasty robot": nasty_robot,
    "solution": lambda: solve(UR, pose()),
    "unreachable": lambda: solve(UR, pose(9)),
    "nasty solution": lambda: solve(nasty_robot(), np.zeros(3), tasks=sp.PositionTask()),
    "solutions": lambda: solve(UR, pose(), solutions=8),
    "no solutions": lambda: solve(UR, pose(9), solutions=8),
    "batch": lambda: solve(UR, UR.fk(UR.random(200, seed=3))),
    "grid": lambda: solve(UR, UR.fk(UR.random((2, 3), seed=3))),
    "explained": lambda: solve(UR, pose(9), explain=True),
    "solve report": lambda: solve(UR, pose(9), explain=True).report,
    "report": lambda: stepped().explain(),
    "plain report": lambda: sp.explain(stepped().linearization),
    "motion": motion,
    "nasty motion": lambda: motion(nasty_robot()),
    "animation": lambda: motion(nasty_robot()).animate(),
}


@each("name", SHOWN)
def test_html_of_results_is_well_formed_and_has_no_scripts(name: str) -> None:
    text = SHOWN[name]()._repr_html_()
    found = Balanced(text)
    assert "script" not in found.seen
    assert not re.search(r'(?:src|href)="(?!data:)', text)


def test_html_of_a_robot_shows_its_joints_and_limits() -> None:
    text = sp.load("panda")._repr_html_()
    for word in (*sp.load("panda").joint_names, "panda_hand_tcp", "2.897", "<svg"):
        assert word in text


def test_html_of_a_solution_shows_its_sentence_and_joints() -> None:
    robot = sp.load("ur5e")
    found = solve(robot, robot.fk(robot.random(seed=1)))
    text = found._repr_html_()
    for word in (*robot.joint_names, "converged in", *(f"{x:.6g}" for x in found.q)):
        assert word in text


# ---- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["panda", "stanford", "y", "planar3"])
def test_a_figure_of_a_robot_shows_its_joints_and_tips(name: str, tmp_path: Path) -> None:
    robot = sp.load(name)
    q = robot.random(seed=0)
    figure = robot.plot(q, target=np.eye(4))
    (ax,) = figure.axes
    lines = [np.array(line.get_data_3d()).T for line in ax.lines]
    tips = np.reshape(robot.fk(q), (-1, 4, 4))[:, :3, 3]
    for tip in tips:
        assert any(np.linalg.norm(line - tip, axis=1).min() < 1e-12 for line in lines)
    moving = sum(joint.moves for joint in robot.description.joints)
    colors = [line.get_color() for line in ax.lines]
    assert colors.count(palette.ORANGE) + colors.count(palette.SKY) == moving
    figure.savefig(tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 5000
    assert 'src="data:image/png' in figure._repr_html_()


def test_earlier_configurations_are_drawn_transparent_behind_the_last() -> None:
    robot = sp.load("planar3")
    (ax,) = robot.plot(robot.random(4, seed=0)).axes
    links = [line.get_alpha() for line in ax.lines if line.get_color() == palette.STEEL]
    assert len(links) == 12
    assert links[-3:] == [1, 1, 1]
    assert max(links[:-3]) < 0.6


@each("q", [[0.0], np.zeros((2, 3, 6)), np.full(6, np.nan), "elbow"])
def test_drawing_a_bad_configuration_is_refused(q: Any) -> None:
    with pytest.raises((errors.InputError, ValueError), match=r"\(6,\)|convert"):
        sp.load("ur5e").plot(q)


def test_the_plot_of_a_motion_has_four_panels_with_the_numbers_of_the_motion() -> None:
    made = motion()
    figure = made.plot()
    place, speed, sigma, error = figure.axes
    assert len(place.lines) >= 7
    np.testing.assert_allclose(speed.lines[0].get_ydata(), made.qd[:, 0] / made.robot.max_speed[0])
    np.testing.assert_array_equal(sigma.lines[0].get_ydata(), made.sigma_min)
    missed = np.linalg.norm((made.velocity - made.command)[:, :3], axis=1)
    np.testing.assert_allclose(error.lines[0].get_ydata(), missed)
    for ax in figure.axes:
        assert ax.get_title() or ax.get_title(loc="left")


def test_the_plot_of_a_solution_states_its_status_and_solutions_are_drawn_together() -> None:
    robot = sp.load("ur5e")
    T = robot.fk(robot.random(seed=1))
    assert solve(robot, T).plot(target=T).axes[0].get_title() == "ur5e: converged"
    several = solve(robot, T, solutions=8)
    lines = several.plot().axes[0].lines
    assert len(lines) > 6 * len(several)
    assert several[0].robot is robot
    assert solve(robot, T[None])[0].robot is robot


def test_plotting_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.split(".")[0] == "matplotlib":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(errors.MissingExtraError, match='pip install "matplotlib'):
        sp.load("panda").plot()


# ---- animations ----------------------------------------------------------------------------------


def test_an_animation_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    made = motion()
    file = made.animate().save(tmp_path / "motion.html")
    text = file.read_text(encoding="utf-8")
    Balanced(re.sub(r"<script>.*?</script>", "<script></script>", text, flags=re.DOTALL))
    assert not re.search(r"https?:|src=|url\(", text)
    assert "default-src 'none'" in text


def test_a_title_cannot_inject_a_script_into_an_animation() -> None:
    robot = nasty_robot()
    arm = Arm(robot, robot.random(5, seed=0), "</script><script>alert(1)</script>")
    text = Animation(np.arange(5.0), [arm]).html()
    assert text.count("</script>") == 1


def test_an_animation_can_be_saved_as_a_gif(tmp_path: Path) -> None:
    from PIL import Image

    robot = sp.load("planar3")
    made = sp.simulate(robot, [0.1, 0.2, 0.3], velocity=[0.1, 0, 0, 0, 0, 0], dt=0.05, duration=0.3)
    with Image.open(made.animate().save(tmp_path / "x.gif")) as image:
        assert image.n_frames >= 5
    assert [each.name for each in tmp_path.iterdir()] == ["x.gif"]


def test_animations_in_other_file_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match=r"\.html or \.gif"):
        motion().animate().save(tmp_path / "x.mp4")


def test_animating_a_loaded_motion_requires_its_robot(tmp_path: Path) -> None:
    made = motion()
    again = sp.Trajectory.load(made.save(tmp_path / "x.npz"))
    with pytest.raises(errors.InputError, match="needs the robot"):
        again.animate()
    assert again.animate(made.robot).html() == made.animate().html()
    assert len(again.plot().axes) == 4


def test_the_repr_of_a_motion_is_one_line() -> None:
    made = motion()
    assert "\n" not in repr(made)
    assert f"{len(made)} steps" in repr(made)


# ---- colors --------------------------------------------------------------------------------------

# Matrices from linear RGB to the RGB that color-blind people see (Viénot, Brettel & Mollon 1999).
PROTANOPIA = [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]
DEUTERANOPIA = [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]


@each("eyes", [np.eye(3), PROTANOPIA, DEUTERANOPIA])
@each("colors", [palette.SERIES[:6], palette.AXES])
def test_colors_are_distinct_for_color_blind_readers(eyes: Any, colors: tuple[str, ...]) -> None:
    srgb = np.array([palette.rgb(color) for color in colors]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(eyes), 0, 1)
    shown = np.where(seen <= 0.0031308, seen * 12.92, 1.055 * seen ** (1 / 2.4) - 0.055)
    apart = np.linalg.norm(shown[:, None] - shown, axis=-1)
    assert apart[np.triu_indices(len(colors), 1)].min() > 0.1
