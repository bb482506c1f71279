"""Random MJCF models with poses in all notations agree with MuJoCo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_mjcf import MASS, assert_as_mujoco

from cases import each
from sizes import nightly
from supple.describe import mjcf

mujoco = pytest.importorskip("mujoco")

CLASSES = ("main", "a", "b", "c")


class Writer:
    """A writer of random MJCF models with frames, replicates, default classes, orientations."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}."  # with the dot, no name with a suffix equals another name

    def numbers(self, count: int) -> str:
        return " ".join(f"{x:.3f}" for x in self.rng.uniform(-2, 2, count))

    def maybe(self, text: str, chance: float = 0.5) -> str:
        return text if self.rng.random() < chance else ""

    def orientation(self) -> str:
        kinds = {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3, "euler": 3}
        key = self.rng.choice([*kinds, "none"])
        return f' {key}="{self.numbers(kinds[key])}"' if key in kinds else ""

    def pose(self) -> str:
        return self.maybe(f' pos="{self.numbers(3)}"') + self.orientation()

    def chosen(self, attribute: str) -> str:
        return self.maybe(f' {attribute}="{self.rng.choice(CLASSES)}"', 0.3)

    def joint(self) -> str:
        low = self.rng.uniform(-3, 3)
        return (
            f'<joint name="{self.name()}"{self.chosen("class")}'
            + self.maybe(f' type="{self.rng.choice(["hinge", "slide"])}"')
            + self.maybe(f' axis="{self.numbers(3)}"')
            + self.maybe(f' pos="{self.numbers(3)}"')
            + self.maybe(f' ref="{self.numbers(1)}"')
            + self.maybe(f' range="{low:.3f} {low + self.rng.uniform(-1, 3):.3f}"')
            + "/>"
        )

    def site(self) -> str:
        where = self.pose()
        if self.rng.random() < 0.3:
            where = f' type="capsule" size=".1" fromto="{self.numbers(6)}"'
        return f'<site name="{self.name()}"{self.chosen("class")}{where}/>'

    def inside(self, depth: int) -> str:
        parts = [self.site()] if self.rng.random() < 0.5 else []
        for _ in range(int(self.rng.integers(1, 3)) if depth else 0):
            parts.append(getattr(self, self.rng.choice(["body", "frame", "replicate"]))(depth - 1))
        return "".join(parts)

    def body(self, depth: int) -> str:
        joints = [self.joint() for _ in range(int(self.rng.integers(0, 3)))]
        if joints and self.rng.random() < 0.3:
            joints[0] = f"<frame{self.pose()}>{joints[0]}</frame>"
        opening = f'<body name="{self.name()}"{self.chosen("childclass")}{self.pose()}>'
        return f"{opening}{MASS}{''.join(joints)}{self.inside(depth)}</body>"

    def frame(self, depth: int) -> str:
        return f"<frame{self.chosen('childclass')}{self.pose()}>{self.inside(depth)}</frame>"

    def replicate(self, depth: int) -> str:
        count = self.rng.integers(0, 4)
        spread = f' offset="{self.numbers(3)}"' + self.maybe(f' euler="{self.numbers(3)}"')
        sep = self.maybe(' sep="_"')
        return f'<replicate count="{count}"{sep}{spread}>{self.inside(depth)}</replicate>'

    def defaults(self) -> str:
        def holds() -> str:
            joint = self.maybe(f' axis="{self.numbers(3)}"') + self.maybe(' range="-1 2"')
            site = f"<site{self.orientation()}/>"
            return f"<joint{joint}/>{self.maybe(site)}"

        inner = f'<default class="b">{holds()}<default class="c">{holds()}</default></default>'
        return f'<default>{holds()}<default class="a">{holds()}</default>{inner}</default>'

    def model(self, before: str = "", after: str = "") -> str:
        angle = self.maybe(' angle="radian"')
        sequence = "".join(self.rng.choice(list("xyzXYZ"), 3))
        compiler = f'<compiler eulerseq="{sequence}"{angle}/>'
        first = f'<body name="first">{MASS}<joint name="first"/>{self.inside(3)}</body>'
        world = f"<worldbody>{first}{self.inside(2)}{after}</worldbody>"
        return f'<mujoco model="m">{compiler}{self.defaults()}{before}{world}</mujoco>'


@pytest.mark.parametrize("seed", range(nightly(60, 20)))
def test_links_and_sites_have_the_poses_of_mujoco(seed: int) -> None:
    text = Writer(seed).model()
    assert_as_mujoco(mjcf(text), text, seed)
    model = mujoco.MjModel.from_xml_string(text)
    joints = {joint.name: joint for joint in mjcf(text).joints}
    for j in range(model.njnt):
        joint = joints[model.joint(j).name]
        assert np.isfinite(joint.upper) == model.jnt_limited[j]
        if model.jnt_limited[j]:
            assert np.allclose((joint.lower, joint.upper), model.jnt_range[j], rtol=0, atol=1e-14)


@pytest.mark.parametrize("what", ['body="first" ', ""], ids=["body", "world"])
@pytest.mark.parametrize("seed", range(nightly(10, 4)))
def test_attached_models_lie_where_mujoco_attaches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part.xml").write_text(Writer(seed).model())
    asset = '<asset><model name="m" file="part.xml"/></asset>'
    once = f'<frame pos="1 2 3" euler="10 20 30"><attach model="m" {what}prefix="l_"/></frame>'
    many = f'<replicate count="2" offset="1 0 0"><attach model="m" {what}prefix="r_"/></replicate>'
    writer = Writer(seed + 100)
    writer.count = 1000
    text = writer.model(asset, once + many)
    assert_as_mujoco(mjcf(text), text, seed)


COUPLED = f"""
<body>{MASS}<joint name="a" ref="10"/><joint name="b" axis="1 0 0" ref="20"/></body>"""
COUPLING = '<equality><joint joint1="a" joint2="b" polycoef=".1 2 0 0 0"/></equality>'


@each(
    ("inside", "followers"),
    [
        (COUPLED, {"a": "b"}),
        (f'<replicate count="2">{COUPLED}</replicate>', {"a0": "b0", "a1": "b1"}),
        (
            f'<replicate count="2" sep="-"><replicate count="2" sep=".">{COUPLED}</replicate>'
            "</replicate>",
            {f"a.{i}-{k}": f"b.{i}-{k}" for i in (0, 1) for k in (0, 1)},
        ),
        (
            f'<body>{MASS}<joint name="a"/></body><replicate count="2"><body>{MASS}'
            '<joint name="b"/></body></replicate>',
            {},
        ),
    ],
    ids=["once", "replicated", "nested", "across"],
)
def test_copies_of_coupled_joints_are_coupled_as_in_mujoco(
    inside: str, followers: dict[str, str]
) -> None:
    text = f"<mujoco><worldbody>{inside}</worldbody>{COUPLING}</mujoco>"
    mimics = {j.name: j.mimic.joint for j in mjcf(text).joints if j.mimic is not None}
    assert mimics == followers
    model = mujoco.MjModel.from_xml_string(text)
    pairs = zip(model.eq_obj1id, model.eq_obj2id, strict=True)
    assert {model.joint(one).name: model.joint(two).name for one, two in pairs} == followers
    assert_as_mujoco(mjcf(text), text)
