"""Messages of commands name command-line options, and options have the same names everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import supple as sp
from cases import each
from supple.cli import COMMANDS
from supple.cli.group import cli
from supple.cli.hints import in_options


@each("name", COMMANDS)
def test_commands_that_write_a_result_file_take_the_options_o_and_out(name: str) -> None:
    """The options -o and --out are equivalent."""
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    outs = [each.opts for each in command.params if "--out" in each.opts]  # type: ignore[union-attr]
    assert outs in ([], [["-o", "--out"]])
    assert bool(outs) == (name in ("solve", "simulate", "plan-path", "pairs", "retarget"))


FLOATING = """<robot name="r"><link name="a"/><link name="b"/><link name="c"/>
  <joint name="my base" type="continuous"><parent link="a"/><child link="b"/>
    <mimic joint="gone"/></joint>
  <joint name="k" type="continuous"><parent link="b"/><child link="c"/></joint></robot>"""
PYTHON = re.compile(r"numpy|supple\.[a-z]|\w=\S|\bmax_\w+|(?<!-)\bq0\b|\[[^]]*'")
TURN = "simulate panda --twist 0 0 0 0 0 1 --q0 0,0,0,0,0,0,0"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("info robot.urdf", "--fixed 'my base'"),
        ("info robot.mjcf", "suffix .urdf"),
        ("info robot.txt", "ends in .urdf, .mjcf or .xml"),
        ("solve panda --position 0.4 0.1 0.5 --rpy 180 0 0", "One degree is 0.0174533 rad"),
        ("solve panda --position 0.4 0 0.5 --max-move 0.1", "--max-move needs --q0"),
        ("solve panda --position 0.4 0 0.5 --timeout -1", "--timeout must be"),
        (f"{TURN} --duration -1", "--duration "),
        (f"{TURN} --duration 1 --max-speed -1", "--max-speed must be"),
        ("dataset panda out --count 0", "--count must be"),
        ("dataset panda out --part-rows 0", "--part-rows must be"),
        ("batch panda in out --position-tolerance -1", "--position-tolerance must be"),
        ("reach panda out --spacing -1", "--spacing must be"),
    ],
)
def test_errors_name_command_line_options_not_python_arguments(
    words: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suffix in (".urdf", ".mjcf", ".txt"):
        (tmp_path / f"robot{suffix}").write_text(FLOATING)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert hint in done.stderr
    assert not PYTHON.search(done.stderr), done.stderr


def test_commands_translate_every_python_phrase_of_error_messages() -> None:
    """A command replaces the Python arguments in errors about robot files and poses by options."""
    folder = Path(sp.__file__).parent
    phrases = []
    for file in [folder / "poses.py", *(folder / "describe").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise | ast.Assign | ast.Return):
                texts = [
                    each.value
                    for each in ast.walk(node)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
                phrases += [t for t in texts if re.search(r"fixed=|numpy\.|supple\.(urdf|mj)", t)]
    assert len(phrases) > 5
    for phrase in phrases:
        made = in_options(re.sub(r"fixed=\[$", "fixed=['j']", phrase))
        assert not re.search(r"fixed=|numpy\.|supple\.", made), phrase


@each(("old", "new"), [("track", "simulate"), ("follow", "plan-path")])
def test_the_error_about_an_old_command_name_states_the_new_one(old: str, new: str) -> None:
    assert f"It is called {new}" in CliRunner().invoke(cli, [old, "panda"]).output


def test_the_error_about_the_command_servo_names_simulate() -> None:
    assert "simulate" in CliRunner().invoke(cli, ["servo", "panda"]).output
