"""An invalid file or text soon raises an error of supple that names the problem."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cases import each
from supple.describe import Description, builtin, mjcf, urdf
from supple.errors import DescriptionError, InputError, SuppleError, UnknownNameError
from work import counted

Reader = Callable[[object], Description]


@contextmanager
def refused(message: str, error: type[SuppleError] = DescriptionError) -> Iterator[None]:
    """Expect an error of supple with this message, raised after few function calls."""
    with pytest.raises(error, match=message), counted() as work:
        yield
    assert work.calls < 5_000_000


def chain(*joints: str, links: str = "abc") -> str:
    named = "".join(f'<link name="{name}"/>' for name in links)
    return f'<robot name="r">{named}{"".join(joints)}</robot>'


def joint(name: str, parent: str, child: str, inside: str = "", kind: str = "revolute") -> str:
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>'


GOOD = chain(joint("j", "a", "b"), joint("k", "b", "c"))


def within(inside: str, kind: str = "revolute") -> str:
    return chain(joint("j", "a", "b", inside, kind), joint("k", "b", "c"))


@pytest.fixture(params=[urdf, mjcf], ids=["urdf", "mjcf"])
def reader(request: pytest.FixtureRequest) -> Reader:
    if request.param is mjcf:
        pytest.importorskip("mujoco")
    return request.param  # type: ignore[no-any-return]


# Files


def test_a_directory_is_refused_as_a_robot_file(reader: Reader, tmp_path: Path) -> None:
    with refused("is a directory; expected a file"):
        reader(tmp_path)


def test_the_error_about_a_missing_robot_file_suggests_similar_names(
    reader: Reader, tmp_path: Path
) -> None:
    (tmp_path / "panda.urdf").write_text(GOOD)
    with refused("no such file: .*pandas.urdf.*; similar names in its folder: 'panda.urdf'"):
        reader(tmp_path / "pandas.urdf")
    with refused("no such file: .*; its folder .* does not exist either"):
        reader(tmp_path / "nowhere" / "panda.urdf")


def test_a_file_without_read_permission_is_refused(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "closed.urdf"
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with refused("cannot be read as a file: .*Permission denied"):
        reader(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_refused_without_waiting(reader: Reader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with refused("is not a regular file"):
        reader(tmp_path / "pipe")


@each("content", [b"", b"  \n\t\n"])
def test_an_empty_robot_file_is_refused(reader: Reader, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.urdf"
    path.write_bytes(content)
    with refused(r"empty.urdf' is empty; expected XML with a <(robot|mujoco)> element"):
        reader(path)


def test_a_file_of_50_megabytes_is_refused(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "large.urdf"
    with path.open("wb") as file:
        file.write(b"<robot>")
        file.truncate(50_000_000)
    with refused("large.urdf' is 50.0 MB; at most 16 MB are read"):
        reader(path)


def test_a_robot_given_as_text_of_50_megabytes_is_refused(reader: Reader) -> None:
    with refused("the given text is 50.0 MB; at most 16 MB are read"):
        reader("<robot>" + " " * 50_000_000)


@each("content", [b"\x00\x01\x02", bytes(range(256)) * 9, b"PK\x03\x04", b"\xff\xfe<"])
def test_a_binary_file_is_refused_as_malformed_xml(
    reader: Reader, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "junk.urdf"
    path.write_bytes(content)
    with refused(r"junk.urdf' is not well-formed XML at line 1, column \d+"):
        reader(path)


@each("given", ["", "panda", "nul\0byte", "x" * 100_000, "a\nb", Path("gone")])
def test_a_string_that_is_neither_a_path_nor_xml_is_refused(reader: Reader, given: object) -> None:
    with refused("no such file|cannot be read as a file|is a directory"):
        reader(given)


@each("given", [None, 3, b"<robot/>", ["a"]])
def test_an_object_that_is_neither_path_nor_text_is_refused(reader: Reader, given: object) -> None:
    with refused("expected a path or an XML text, given", InputError):
        reader(given)


# XML


@each("end", [1, 10, 40, len(GOOD) // 2, len(GOOD) - 1])
def test_a_truncated_urdf_text_is_refused(end: int) -> None:
    with refused(r"not well-formed XML at line 1, column \d+: "):
        urdf(GOOD[:end])


def test_xml_errors_state_the_line_and_column_of_the_mistake() -> None:
    with refused("not well-formed XML at line 3, column 8: mismatched tag"):
        urdf("<robot>\n<link>\n     </lnk></robot>")


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 30))


@each(
    "doctype",
    [
        f'<!DOCTYPE robot [<!ENTITY l0 "ha">{LAUGHS}]>',
        '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE robot [<!ENTITY % x SYSTEM "http://localhost/x.dtd"> %x;]>',
        '<!DOCTYPE robot SYSTEM "robot.dtd">',
        "<!DOCTYPE robot>",
    ],
    ids=["bomb", "external", "parameter", "dtd", "plain"],
)
@each("encoding", [None, "utf-8", "utf-16", "utf-16-be"])
def test_document_types_and_entities_in_xml_are_refused(
    reader: Reader, tmp_path: Path, doctype: str, encoding: str | None
) -> None:
    text = f"{doctype}<robot>&l29;&x;</robot>"
    source: object = text
    if encoding is not None:
        bom = "\ufeff" if encoding == "utf-16-be" else ""
        source = tmp_path / "bomb.urdf"
        (tmp_path / "bomb.urdf").write_text(bom + text, encoding=encoding)
    with refused("declares a document type or entity"):
        reader(source)


def test_an_undeclared_xml_entity_is_refused() -> None:
    with refused("undefined entity"):
        urdf("<robot>&boo;</robot>")


def test_a_file_with_an_unknown_encoding_is_refused(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "odd.urdf"
    path.write_text('<?xml version="1.0" encoding="klingon"?><robot/>')
    with refused("unknown encoding|cannot be decoded"):
        reader(path)


@each("root", ["robot", "mujoco"])
def test_deeply_nested_xml_is_refused(root: str) -> None:
    deep = f"<{root}>" + "<a>" * 100_000 + "</a>" * 100_000 + f"</{root}>"
    with refused("nests elements more than"):
        (urdf if root == "robot" else mjcf)(deep)


def test_a_file_with_too_many_elements_is_refused() -> None:
    with refused("has more than 200000 elements"):
        urdf("<robot>" + "<a/>" * 3_000_000 + "</robot>")


@each(
    ("reader", "text", "message"),
    [
        (urdf, "<mujoco/>", "root element <mujoco>, expected <robot>; .* MJCF .* supple.mjcf"),
        (mjcf, "<robot/>", "root element <robot>, expected <mujoco>; .* URDF .* supple.urdf"),
        (urdf, "<sdf/>", "this is an SDF file, which supple does not read"),
        (urdf, "<html/>", "root element <html>, expected <robot>; this may not be a robot file"),
        (urdf, "<robot><xacro:macro/></robot>", "it is xacro; expand it first"),
    ],
)
def test_the_error_about_a_file_of_another_format_names_that_format(
    reader: Reader, text: str, message: str
) -> None:
    with refused(message):
        reader(text)


# Robots


@each(
    ("text", "message"),
    [
        ("<robot/>", "has 0 joints and none of them moves"),
        ("<robot><link name='a'/></robot>", "has 0 joints and none of them moves"),
        (chain(joint("j", "a", "b"), joint("k", "b", "a"), links="ab"), "form a cycle: '[ab]'"),
        (chain(joint("j", "a", "b"), joint("k", "c", "d"), links="abcd"), "no parent: 'a', 'c'"),
        (chain(joint("j", "a", "a"), links="ab"), "form a cycle: 'a' -> 'a'"),
        (chain(joint("j", "a", "b"), joint("k", "b", "a")), "form a cycle: '[ab]' -> '[ab]'"),
        (chain(joint("j", "a", "b")), "2 links have no parent: 'a', 'c'"),
        (chain(links="ab"), "2 links have no parent: 'a', 'b'"),
        (
            chain(joint("j", "a", "c"), joint("k", "b", "c")),
            "'c' has two parents, through the joints 'j'",
        ),
        (chain(joint("j", "a", "b"), joint("j", "b", "c")), "two joints are named 'j'"),
        (chain(joint("j", "a", "b"), links="aab"), "two links are named 'a'"),
        (chain(joint("j", "a", "bb"), links=["a", "b"]), "<child> names an unknown link 'bb'"),  # type: ignore[arg-type]
        (chain(joint("j", "x", "b"), links="ab"), "<parent> names an unknown link 'x'"),
        ("<robot><link/></robot>", "a <link> element has no name"),
        ("<robot><joint/></robot>", "a <joint> element has no name"),
        (GOOD.replace('<parent link="a"/>', ""), "'j' has no <parent> element"),
        (GOOD.replace('<child link="b"/>', ""), "'j' has no <child> element"),
        (GOOD.replace('<child link="b"/>', "<child/>"), "'j': <child> link is missing"),
        (
            GOOD.replace('type="revolute"', 'type="screw"', 1),
            "'j': unknown type 'screw'. Available: 'rev",
        ),
        (
            GOOD.replace('type="revolute"', 'type="revolutee"', 1),
            "did you mean 'revolute'. Available",
        ),
        (GOOD.replace(' type="revolute"', "", 1), "'j': unknown type ''"),
        (within('<mimic joint="k"/>', "floating"), "several degrees of freedom"),
        (within('<limit lower="1" upper="-1"/>'), "'j': the lower limit is above"),
        (within('<limit lower="nan" upper="1"/>'), "'j': limits must be numbers"),
        (within('<limit velocity="-1"/>'), "'j': max_speed must be positive"),
        *(
            (
                within(f'<limit {key}="{value}"/>'),
                f"'j': <limit> {key}: expected a positive number, given '{value}'",
            )
            for key in ("acceleration", "deceleration", "jerk")
            for value in ("-1", "nan", "-inf")
        ),
        (within('<limit jerk="high"/>'), "'j': <limit> jerk: expected 1 number, given 'high'"),
        (within('<limit lower="low"/>'), "'j': <limit> lower: expected 1 number, given 'low'"),
        (within('<limit lower="${pi}"/>'), "given '\\${pi}'; expand the file with xacro first"),
        (within('<axis xyz="0 0 0"/>'), "'j': axis: is zero, expected a direction, given 0 0 0"),
        (within('<axis xyz="1 0"/>'), "'j': <axis> xyz: expected 3 numbers, given '1 0'"),
        (within('<origin xyz="1"/>'), "'j': <origin> xyz: expected 3 numbers, given '1'"),
        (within('<axis xyz="1_0 0 0"/>'), "'j': <axis> xyz: expected 3 numbers, given '1_0 0 0'"),
        (within('<origin xyz="1 2 inf"/>'), "'j': <origin> xyz: expected finite .* '1 2 inf'"),
        (within('<origin xyz="1 2 1e13"/>'), "'j': origin: is farther away than 1e.12 m, .*1e.13"),
        (within('<origin rpy="1 2 nan"/>'), "'j': <origin> rpy: expected finite .* '1 2 nan'"),
        (within('<origin rpy="1 2 inf"/>'), "'j': <origin> rpy: expected finite .* '1 2 inf'"),
        (within('<origin xyz="0 0 1"/><origin/>'), "'j' has 2 different <origin> elements"),
        (within("<mimic/>"), "'j': <mimic> joint is missing"),
        (within('<mimic joint="j"/>'), "'j' mimics itself"),
        (within('<mimic joint="k" multiplier="1e13"/>'), "'j': the mimic of 'k' .* multiplier=1e"),
        (within('<mimic joint="x"/>'), "'j' mimics an unknown joint 'x'. Available: 'j', 'k'"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_error_about_an_invalid_robot_states_the_reason(text: str, message: str) -> None:
    with refused(message):
        urdf(text)


def test_errors_about_an_invalid_robot_name_its_file(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text("<robot/>")
    with refused("arm.urdf': robot 'arm' has 0 joints"):
        urdf(path)


def snake(n: int) -> str:
    links = [f"l{i}" for i in range(n + 1)]
    joints = [joint(f"j{i}", links[i], links[i + 1]) for i in range(n)]
    return chain(*joints, links=links)  # type: ignore[arg-type]


def test_a_chain_of_5000_joints_is_read_and_a_longer_one_is_refused() -> None:
    assert len(urdf(snake(5000)).joints) == 5000
    with refused("5001 <joint> elements are too many; at most 5000 are allowed"):
        urdf(snake(5001))


def test_a_robot_with_too_many_links_is_refused() -> None:
    links = [f"l{i}" for i in range(5002)]
    with refused("5002 <link> elements are too many; at most 5001 are allowed"):
        urdf(chain(joint("j", "l0", "l1"), links=links))  # type: ignore[arg-type]


def test_an_attribute_with_too_many_characters_is_refused() -> None:
    long = " ".join("1" * 501)
    with refused("'j': <origin> xyz: 1001 characters are too many; at most 1000 .* given '1 1"):
        urdf(within(f'<origin xyz="{long}"/>'))
    with refused("'j': <limit> lower: 7000000 characters are too many"):
        urdf(within(f'<limit lower="{"1" * 7_000_000}"/>'))


@pytest.mark.filterwarnings("error")
@each("kind", ["revolute", "prismatic"])
def test_a_mimic_joint_whose_fixed_position_would_be_infinite_is_refused(kind: str) -> None:
    far = [f'<mimic joint="{name}" multiplier="1e300" offset="1e300"/>' for name in "jk"]
    text = chain(
        joint("j", "a", "b"),
        joint("k", "b", "c", far[0], kind),
        joint("l", "c", "d", far[1], kind),
        joint("m", "d", "e"),
        links="abcde",
    )
    with refused("joint 'l', which follows 'k', would be welded at inf"):
        urdf(text, fixed=["j"])


@each("given", ["Panda", "pandas", "", None, 7, ["panda"]])
def test_the_error_about_an_unknown_robot_suggests_names(given: object) -> None:
    with refused("unknown robot .*Available: 'planar2', 'planar3'", UnknownNameError):
        builtin(given)  # type: ignore[arg-type]
    with refused("did you mean 'panda'", UnknownNameError):
        builtin("pandas")
