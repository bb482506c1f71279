"""An MJCF file is read with the files that it includes; limits apply to their total size."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each
from supple.describe import mjcf
from supple.errors import DescriptionError

pytest.importorskip("mujoco")

MASS = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'


def body(name: str) -> str:
    return f'<body name="{name}"><joint name="{name}"/>{MASS}</body>'


def include(name: str) -> str:
    return f'<include file="{name}"/>'


def model(inside: str) -> str:
    return f"<mujoco><worldbody>{inside}</worldbody></mujoco>"


def written(folder: Path, **files: str) -> Path:
    """Write files, whose names are given without .xml, and return the path of main.xml."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "main.xml"


def test_an_mjcf_scene_has_the_links_of_the_robot_file_that_it_includes(tmp_path: Path) -> None:
    scene = f'<mujoco>{include("robot.xml")}<worldbody><geom size="1"/></worldbody></mujoco>'
    assert mjcf(written(tmp_path, main=scene, robot=model(body("arm")))).links == ("world", "arm")


@each(
    ("name", "found"),
    [
        ("leaf.xml", "top"),
        ("near.xml", "near"),
        ("sub/near.xml", "near"),
        (r"sub\near.xml", "near"),
    ],
)
def test_files_are_included_from_the_folder_that_mujoco_chooses(
    tmp_path: Path, name: str, found: str
) -> None:
    path = written(
        tmp_path,
        main=model(include("sub/middle.xml")),
        leaf=f"<m>{body('top')}</m>",
        sub__middle=f"<m>{include(name)}</m>",
        sub__leaf=f"<m>{body('sub')}</m>",
        sub__near=f"<m>{body('near')}</m>",
    )
    assert mjcf(path).links == ("world", found)


def test_an_mjcf_text_includes_files_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, good=f"<m>{body('arm')}</m>", bad="<!DOCTYPE m><m><a/></m>")
    monkeypatch.chdir(tmp_path)
    assert mjcf(model(include("good.xml"))).links == ("world", "arm")
    with pytest.raises(DescriptionError, match=r"the given text: .*bad.xml' declares a document"):
        mjcf(model(include("bad.xml")))
    with pytest.raises(DescriptionError, match=r"the given text: .*no such file: .*gone.xml"):
        mjcf(model(include("gone.xml")))


DEEP = f"{'<body>' * 250}{{}}{'</body>' * 250}"


@each(
    ("inner", "message"),
    [
        ("", "inner.xml' is empty; expected XML"),
        ("<m>", "inner.xml' is not well-formed XML"),
        ("<!DOCTYPE m><m><a/></m>", "inner.xml' declares a document type"),
        (
            f"<m>{'<a>' * 400}{'</a>' * 400}</m>",
            "inner.xml' nests elements more than 400 levels deep",
        ),
        (f"<m>{'<a/>' * 20_000}</m>", "inner.xml' has more than 20000 elements"),
        (f"<m>{' ' * 16_000_000}</m>", "inner.xml' and the files before it are 16.0 MB; at most"),
        (f"<m>{include('gone.xml')}</m>", "no such file: .*gone.xml'"),
        (f"<m>{include('inner.xml')}</m>", "itself: 'main.xml' -> 'inner.xml' -> 'inner.xml'"),
        (
            f"<m>{include('main.xml')}</m>",
            "itself: 'main.xml' -> 'inner.xml' -> 'main.xml'",
        ),
        (f"<m>{include('.')}</m>", "is a directory; expected a file"),
    ],
    ids=["empty", "open", "doctype", "deep", "many", "large", "missing", "self", "cycle", "folder"],
)
@each(
    "outer",
    [
        include("inner.xml"),
        '<INCLUDE file="inner.xml"/>',
        '<asset><model name="m" file="inner.xml"/></asset>',
    ],
    ids=["include", "capitals", "model"],
)
def test_errors_about_mistakes_in_an_included_file_name_that_file(
    tmp_path: Path, outer: str, inner: str, message: str
) -> None:
    path = written(tmp_path, main=f"<mujoco>{outer}</mujoco>", inner=inner)
    with pytest.raises(DescriptionError, match=rf"main.xml': <\w+> of .*{message}"):
        mjcf(path)


def test_limits_on_elements_and_bytes_count_all_included_files(tmp_path: Path) -> None:
    third = f"<m>{'<geom/>' * 7_000}</m>"
    main = f"<mujoco>{include('a.xml')}{include('b.xml')}{include('c.xml')}</mujoco>"
    with pytest.raises(DescriptionError, match="has more than 20000 elements"):
        mjcf(written(tmp_path, main=main, a=third, b=third, c=third))
    large = f"<m>{' ' * 6_000_000}<a/></m>"
    with pytest.raises(DescriptionError, match=r"and the files before it are 18.0 MB; at most 16"):
        mjcf(written(tmp_path, main=main, a=large, b=large, c=large))


def test_nesting_depth_adds_up_over_included_files(tmp_path: Path) -> None:
    outer, inner = model(DEEP.format(include("inner.xml"))), f"<m>{DEEP.format('')}</m>"
    with pytest.raises(
        DescriptionError, match=r"inner.xml' nests elements more than 400 levels deep"
    ):
        mjcf(written(tmp_path, main=outer, inner=inner))


def test_an_attached_model_finds_its_includes_in_its_own_folder(tmp_path: Path) -> None:
    asset = '<asset><model name="m" file="sub/arm.xml"/></asset>'
    attach = '<worldbody><attach model="m" body="arm" prefix="left_"/></worldbody>'
    path = written(
        tmp_path,
        main=f"<mujoco>{asset}{attach}</mujoco>",
        sub__arm=model(include("part.xml")),
        sub__part=f"<m>{body('arm')}</m>",
    )
    assert mjcf(path).links == ("world", "left_arm")


def test_a_model_that_includes_too_many_files_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, main=model(include("a.xml") * 1001), a="<m><a/></m>")
    with pytest.raises(DescriptionError, match="includes more than 1000 files"):
        mjcf(path)


def test_a_file_with_too_many_elements_is_refused() -> None:
    with pytest.raises(DescriptionError, match="has more than 20000 elements"):
        mjcf(model("<geom/>" * 20_000))


@pytest.mark.parametrize(
    "inside",
    [
        "<body/>" * 4001,
        '<replicate count="4001"><body/></replicate>',
        '<replicate count="70"><replicate count="70"><body/></replicate></replicate>',
        '<replicate count="+4001"><body/></replicate>',
        '<replicate count="999999999999999999999"><body/></replicate>',
    ],
)
def test_more_than_4000_bodies_are_refused(inside: str) -> None:
    with pytest.raises(DescriptionError, match="contains more than 4000 bodies"):
        mjcf(f"<mujoco><worldbody>{inside}</worldbody></mujoco>")
