"""Which pairs are checked: by adjacency, by samples, from SRDF files, and in a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supple as sp
from supple import collision as c
from supple.collision.model import model_of
from supple.errors import DescriptionError, InputError, UnknownNameError

DATA = Path(__file__).parent / "data"
CHAIN = """<robot name="arm">{links}{joints}</robot>"""


def chain(shapes: dict[str, str], joints: str) -> sp.Robot:
    """Return a chain of links a, b, ..., joined 1 m apart: r is revolute about y, f is fixed."""
    names = "abcdefgh"[: len(joints) + 1]
    links = "".join(
        f'<link name="{n}">'
        + (f"<collision><geometry>{shapes[n]}</geometry></collision>" if n in shapes else "")
        + "</link>"
        for n in names
    )
    kinds = {"r": "revolute", "f": "fixed"}
    text = "".join(
        f'<joint name="j{i}" type="{kinds[kind]}"><parent link="{one}"/><child link="{two}"/>'
        '<origin xyz="0 0 1"/><axis xyz="0 1 0"/><limit lower="-3" upper="3"/></joint>'
        for i, (kind, one, two) in enumerate(zip(joints, names, names[1:], strict=False))
    )
    return sp.urdf(CHAIN.format(links=links, joints=text))


SMALL = '<sphere radius="0.1"/>'


def reasons(robot: sp.Robot, **options: bool) -> dict[str, str]:
    return {
        "".join(sorted((one, other))): why
        for one, other, why in c.unchecked_pairs(robot, **options)
    }


def test_links_that_one_joint_connects_are_adjacent() -> None:
    assert reasons(chain(dict.fromkeys("abcd", SMALL), "rrr")) == {
        "ab": "adjacent",
        "bc": "adjacent",
        "cd": "adjacent",
    }
    # Links are also adjacent across a fixed link without shapes, but not across one with shapes.
    assert reasons(chain(dict.fromkeys("acd", SMALL), "rfr")) == {
        "ac": "adjacent",
        "cd": "adjacent",
    }
    assert "ac" not in reasons(chain(dict.fromkeys("abc", SMALL), "frr"))


def test_links_that_always_or_never_overlap_are_not_checked() -> None:
    robot = chain({"a": SMALL, "b": SMALL, "c": '<sphere radius="2.5"/>'}, "rr")
    assert reasons(robot) == {"ab": "adjacent", "bc": "adjacent", "ac": "always"}
    far = chain(dict.fromkeys("abc", SMALL), "rr").with_limits(lower=-0.5, upper=0.5)
    assert "ac" not in reasons(far)
    assert reasons(far, never=True)["ac"] == "never"
    assert c.unchecked_pairs(far, never=True) == c.unchecked_pairs(far, never=True)


def test_links_that_always_almost_touch_are_not_checked() -> None:
    """Here, the distance between the spheres of links a and c is the same in any configuration."""
    robot = chain({}, "rr")
    for gap, checked in ((0.0005, False), (0.002, True)):
        links = {
            "a": c.Sphere(0.1, (0, 0, 1)),
            "b": c.Sphere(0.01),
            "c": c.Sphere(0.9 - gap),
        }
        found = {(one, other) for one, other, _ in c.unchecked_pairs(robot, links)}
        assert (("a", "c") in found) is not checked
        world = sp.World(links=links)
        assert len(c.contacts(robot, world, robot.neutral())) == checked


def test_a_model_checks_only_pairs_that_move_relative_to_each_other() -> None:
    robot = chain(dict.fromkeys("abcde", SMALL), "rfrr")
    world = sp.World(
        {"ball": c.Sphere(0.1, (0, 0, 9)), "box": c.Box((1, 1, 1), (9, 0, 0))},
        attached={"e": [c.Sphere(0.05, (0, 0, 0.3))]},
    )
    model = model_of(robot, world)
    named = [tuple(model.parts.owner[i] for i in pair) for pair in model.pairs.tolist()]
    found = {"".join(sorted(pair)) for pair in named if not {"ball", "box"} & set(pair)}
    # "b" and "c" are one body; adjacent: ab, cd, de. The sphere in the hand counts as "e".
    assert found == {"ac", "ad", "ae", "bd", "be", "ce"}
    against = sorted(one for one, other in named if other == "ball")
    assert against == ["b", "c", "d", "e", "e"]  # not "a", which is fixed, as the ball is
    model2 = model_of(robot, sp.World(world.obstacles, unchecked=[("e", "ball")]))
    named2 = {tuple(model2.parts.owner[i] for i in pair) for pair in model2.pairs.tolist()}
    assert ("e", "ball") not in named2
    assert ("a", "b") in named2 or ("b", "a") in named2  # given pairs replace those of "auto"


def test_unchecked_pairs_written_to_an_srdf_file_are_read_again(tmp_path: Path) -> None:
    robot = sp.urdf(DATA / "panda.urdf")
    pairs = c.srdf_pairs(DATA / "panda.srdf", robot)
    assert ("panda_link0", "panda_link1") in pairs
    own = c.unchecked_pairs(robot, samples=200, never=True)
    path = tmp_path / "own.srdf"
    path.write_text(c.srdf_text(robot, own))
    assert set(c.srdf_pairs(path, robot)) == {(one, other) for one, other, _ in own}
    with pytest.raises(DescriptionError, match="no two links"):
        c.srdf_pairs(DATA / "ur5.srdf", robot)
    text = """<robot><disable_default_collisions link="a"/>
      <enable_collisions link1="a" link2="b"/></robot>"""
    small = chain(dict.fromkeys("abc", SMALL), "rr")
    assert c.srdf_pairs(text, small) == (("a", "c"),)
    with pytest.raises(DescriptionError, match="link2"):
        c.srdf_pairs('<robot><disable_collisions link1="a"/></robot>', small)


def test_a_world_whose_names_or_shapes_do_not_fit_the_robot_is_refused() -> None:
    robot = chain(dict.fromkeys("abc", SMALL), "rr")
    q = np.zeros(2)
    for world, match in (
        (sp.World(attached={"hand": [c.Sphere(1)]}), "unknown frame 'hand'"),
        (sp.World(links={"x": [c.Sphere(1)]}), "unknown link 'x'"),
        (sp.World(unchecked=[("a", "x")]), "unknown link or obstacle 'x'"),
    ):
        with pytest.raises(UnknownNameError, match=match):
            c.collides(robot, world, q)
    with pytest.raises(InputError, match="fixed to the world"):
        c.collides(robot, sp.World(links={"c": c.HalfSpace()}), q)
    bare, world = sp.load("ur5e"), sp.World({"box": c.Box((0.1, 0.1, 0.1))})
    for use in (
        lambda: sp.Servo(bare, dt=0.01, world=world),
        lambda: sp.solve(bare, bare.fk(np.ones(6)), world=world),
        lambda: sp.plan_path(bare, [bare.fk(np.ones(6))] * 2, world=world),
        lambda: c.collides(bare, world, np.ones(6)),
    ):
        with pytest.raises(InputError, match="'ur5e' has no shapes"):
            use()
    with pytest.raises(InputError, match="name of a link"):
        c.collides(robot, sp.World({"a": c.Sphere(1)}), q)
    world = sp.World({"ball": c.Sphere(0.1, (0, 0, 2.15))})
    for bad in (np.zeros(3), [0, np.nan], "x"):
        with pytest.raises(InputError, match="q"):
            c.collides(robot, world, bad)
    with pytest.raises(InputError, match="clearance"):
        c.collides(robot, world, q, -1.0)
    with pytest.raises(InputError, match=r"World\.load"):
        c.collides(robot, "scene.json", q)  # type: ignore[arg-type]
    (near, *_) = c.contacts(robot, world, q)
    assert (near.one, near.other) == ("c", "ball")
    assert near.distance == pytest.approx(-0.05)
    assert c.collides(robot, world, [q, [1.0, 0.0]]).tolist() == [True, False]
    assert "penetrate by 50 mm" in str(near)
