"""Errors derive from SuppleError and a built-in exception; messages suggest names and remedies."""

from __future__ import annotations

from cases import each
from supple import errors


@each(
    ("error", "also"),
    [
        (errors.DescriptionError, ValueError),
        (errors.UnknownNameError, LookupError),
        (errors.InputError, ValueError),
        (errors.MissingExtraError, ImportError),
    ],
)
def test_errors_derive_from_supple_error_and_a_built_in_exception(error: type, also: type) -> None:
    assert issubclass(error, errors.SuppleError)
    assert issubclass(error, also)


def test_errors_about_unknown_names_list_similar_and_available_names() -> None:
    message = str(errors.unknown_name_error("robot", "pandas", ["panda", "ur5e"]))
    assert message == "unknown robot 'pandas'; did you mean 'panda'? Available: 'panda', 'ur5e'."


def test_errors_about_unknown_names_suggest_names_that_contain_the_given_one() -> None:
    frames = ["panda_link0", "panda_hand_tcp", "panda_hand", "panda_leftfinger"]
    message = str(errors.unknown_name_error("frame", "HAND", frames))
    assert "unknown frame 'HAND'; did you mean 'panda_hand' or 'panda_hand_tcp'? " in message
    assert "did you mean" not in str(errors.unknown_name_error("frame", "da", frames))
    many = [f"hand{i}_of_many" for i in range(9)]
    assert str(errors.unknown_name_error("frame", "hand", many)).count(" or ") == 2


def test_errors_about_unknown_names_shorten_long_lists_and_names() -> None:
    message = str(
        errors.unknown_name_error("joint", "x" * 10_000, [f"joint{i}" for i in range(5000)])
    )
    assert "and 4980 more" in message
    assert len(message) < 1000


def test_errors_about_unknown_names_do_not_compare_very_long_names() -> None:
    names = [f"{'x' * 20_000}{i}" for i in range(500)] + ["arm"]
    message = str(errors.unknown_name_error("joint", "x" * 20_000, names))
    assert "did you mean" not in message
    assert "did you mean 'arm'?" in str(errors.unknown_name_error("joint", "Arms", names))


@each("given", [None, 3, ["a"], b"a"])
def test_errors_about_unknown_names_accept_any_object_as_a_name(given: object) -> None:
    assert repr(given) in str(errors.unknown_name_error("joint", given, ["a"]))


def test_the_error_of_a_missing_extra_has_the_pip_command() -> None:
    error = errors.MissingExtraError("papers", "drawing figures")
    assert str(error) == (
        'drawing figures needs the extra "papers": '
        'pip install "click>=8.1" "rich>=13.7,<15" "matplotlib>=3.8"'
    )
