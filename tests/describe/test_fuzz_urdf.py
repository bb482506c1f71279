"""Reading a damaged URDF returns a Description or raises a SuppleError."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samples import as_urdf, random_tree
from sizes import nightly
from supple.describe import Description, Joint, Mimic, urdf
from supple.errors import SuppleError

_TREE = random_tree(2, n=4)
_FOLLOWER = Joint("follower", "revolute", "link4", "link5", mimic=Mimic("joint1", 2.0, 1.0))
GOOD = as_urdf(Description("fuzz", (*_TREE.joints, _FOLLOWER))).encode()

PIECES = st.sampled_from(
    [b"", b"<", b">", b"/", b'"', b"&", b"&#0;", b"<!--", b"]]>", b"<!DOCTYPE robot>", b"nan",
     b"inf", b"1e999", b"-", b"\x00", b"\xff", b"<joint/>", b"</robot>", b"fixed", b"floating",
     b"link1", b"joint1", b'name=""', b"<limit/>", b"xyz", b"0 0 0"]
)  # fmt: skip
CUTS = st.lists(
    st.tuples(st.integers(0, len(GOOD)), st.integers(0, 40), st.booleans(), PIECES | st.binary()),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, cuts: list[tuple[int, int, bool, bytes]]) -> bytes:
    """Return `data` after each cut has deleted, doubled or replaced a piece of it."""
    for at, length, double, piece in cuts:
        cut = data[at : at + length]
        data = data[:at] + (cut + cut if double else b"") + piece + data[at + length :]
    return data


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "fuzz.urdf"


@settings(max_examples=nightly(400, 150), deadline=None, suppress_health_check=list(HealthCheck))
@given(cuts=CUTS)
def test_damaged_urdf_bytes_give_a_robot_or_a_supple_error(path: Path, cuts: list) -> None:  # type: ignore[type-arg]
    path.write_bytes(damaged(GOOD, cuts))
    with suppress(SuppleError):
        assert isinstance(urdf(path), Description)


WORDS = GOOD.decode().replace("><", "> <").replace('"', ' " ').split(" ")


@settings(max_examples=nightly(400, 150), deadline=None, suppress_health_check=list(HealthCheck))
@given(swaps=st.lists(st.tuples(*[st.integers(0, len(WORDS) - 1)] * 2), min_size=1, max_size=6))
def test_shuffled_urdf_words_give_a_robot_or_a_supple_error(swaps: list[tuple[int, int]]) -> None:
    words = list(WORDS)
    for i, j in swaps:
        words[i] = WORDS[j]
    text = " ".join(words).replace(' " ', '"')
    with suppress(SuppleError):
        assert isinstance(urdf(text), Description)


def test_the_undamaged_urdf_of_the_fuzz_tests_is_a_robot(path: Path) -> None:
    path.write_bytes(GOOD)
    assert len(urdf(path).links) == 11
