"""Change error messages of the library to the terms of the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import click

# Phrases about Python in messages, and what replaces them on the command line.
_PHRASES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"fixed=\['([^']*)'\]", lambda found: f"--fixed {shlex.quote(found[1])}"),
    (r"numpy\.radians converts degrees", lambda _: "One degree is 0.0174533 rad"),
    (r"read it with supple\.(urdf|mjcf)", lambda found: f"name it with the suffix .{found[1]}"),
    (
        r"supple\.load takes names of built-in robots; read .*",
        lambda _: "The name of a robot file ends in .urdf, .mjcf or .xml.",
    ),
    (
        r"Load the motion without a robot to use it anyway",
        lambda _: "Name the robot of the motion",
    ),
    (r"^Limits: ", lambda _: ""),
)


def in_options(message: str, command: click.Command | None = None) -> str:
    """Return a message with options of a command instead of arguments in Python.

    A word with an underscore or a digit, such as max_move or q0, is always taken as an argument. A
    plain word, such as count, is taken as an argument only at the beginning of the message or
    before an equals sign.
    """
    for phrase, words in _PHRASES:
        message = re.sub(phrase, words, message)
    for each in command.params if command is not None else ():
        if not isinstance(each, click.Option) or not each.name:
            continue
        name, option = each.name, each.opts[-1]
        message = re.sub(rf'(?<![\w-]){name}="(\w+)"', rf"{option} \1", message)
        message = re.sub(rf"(?<![\w-]){name}=", f"{option} ", message)
        anywhere = bool(re.search(r"[_\d]", name))
        before = r"(?<![\w-])" if anywhere else "^"
        message = re.sub(rf"{before}{name}\b", option, message)
    return message
