"""The command `supple paper`, called as by a user."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from supple.papers import EXPERIMENTS, Outcome

import supple
from commands import run
from sizes import nightly
from supple.__main__ import main
from supple.cli import COMMANDS

SCRIPT = Path(sys.executable).with_name("supple")
Ran = Callable[[str], Outcome]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


# ---- real processes ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[str(SCRIPT)], [sys.executable, "-m", "supple"]])
def test_the_command_supple_is_installed(command: list[str]) -> None:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"supple, version {supple.__version__}\n"


def test_with_json_the_paper_command_prints_only_json_with_the_numbers_of_the_python_call(
    ran: Ran,
) -> None:
    """Stdout is JSON without other text, and stderr is empty."""
    done = subprocess.run(
        [str(SCRIPT), "paper", "n-gain", "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found == ran("n-gain").quantities
    assert done.stderr == ""


# [s] while workers import, and while they compute
@pytest.mark.parametrize("later", [0.0, nightly(3.0, 1.5)])
def test_ctrl_c_ends_a_long_run_with_all_its_processes(tmp_path: Path, later: float) -> None:
    """A SIGINT to the process group, as from a terminal, ends all processes; the exit status is
    130.

    The experiments take longer than the timeout of the test, so that no worker ends by itself.
    """
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.sched_getaffinity = lambda pid: {0, 1}\n"
        f"sys.argv = ['supple', 'paper', 'all', '--report', {str(tmp_path / 'page')!r}]\n"
        "from supple.__main__ import main; main()"
    )
    errors = tmp_path / "errors"
    with errors.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=stream, stderr=stream, start_new_session=True
        )
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            while len(children.read_text().split()) < 3:  # the two workers and the resource tracker
                assert process.poll() is None, errors.read_text()
                time.sleep(0.01)
            time.sleep(later)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(timeout=10) == 130, errors.read_text()
            deadline = time.monotonic() + 5
            while group_lives(process.pid) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not group_lives(process.pid)
        finally:
            if group_lives(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = errors.read_text()
    assert "Interrupted." in said
    assert "Traceback" not in said
    assert "leaked" not in said  # a pool of workers that is not closed leaves semaphores
    assert not list((tmp_path / "page").iterdir())


def test_an_interrupt_while_workers_start_is_raised_only_after_all_have_started() -> None:
    """If the interrupt were raised immediately, a worker would be left without its data."""
    done = python(
        "import os, signal, threading, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from supple.papers.running import _interrupts_delayed\n"
        "threading.Thread(target=time.sleep, args=(2,), daemon=True).start()\n"
        "try:\n"
        "    with _interrupts_delayed():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.2)\n"
        "        print('started')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    assert done.stdout == "started\ninterrupted\n", done.stderr


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_output_is_printed_if_the_encoding_lacks_some_characters(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All words in ASCII are printed."""
    monkeypatch.setenv("COLUMNS", "120")
    printed = []
    for words in (["n-gain"], [], ["σ"]):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            patch.setattr(sys, "argv", ["supple", "paper", *words])
            with pytest.raises(SystemExit) as end:
                main()
        assert (end.value.code or 0) == (2 if words == ["σ"] else 0)
        for stream in streams:
            stream.seek(0)
        printed.append([stream.read() for stream in streams])
    (claims, no), (listed, none), (_, error) = printed
    assert no == none == ""
    assert "unknown experiment '" in error
    assert claims.count("holds") + claims.count("does not") >= 4
    assert "n-gain" in claims
    assert "n-gain" in listed


def test_importing_supple_imports_neither_packages_of_extras_nor_the_papers() -> None:
    done = python(
        "import sys, supple; print([m for m in ('click', 'rich', 'matplotlib', 'supple.papers') "
        "if m in sys.modules])"
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_click_or_rich_the_command_prints_its_version(module: str) -> None:
    done = python(
        f"import sys; sys.modules[{module!r}] = None; sys.argv = ['supple', '--version']\n"
        "from supple.__main__ import main; main()"
    )
    assert done.stdout == f"supple, version {supple.__version__}\n"
    assert done.stderr == ""


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_without_click_or_rich_the_command_prints_its_help(words: list[str]) -> None:
    done = python(
        f"import sys; sys.modules['click'] = None; sys.argv = ['supple', *{words!r}]\n"
        "from supple.__main__ import main; main()"
    )
    assert done.returncode == 0
    assert done.stderr == ""
    for name, summary in COMMANDS.items():
        assert name in done.stdout
        assert summary in done.stdout
    assert 'pip install "click>=8.1" "rich>=13.7,<15"' in done.stdout


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_click_or_rich_other_commands_say_what_to_install(module: str) -> None:
    done = python(
        f"import sys; sys.modules[{module!r}] = None; sys.argv = ['supple', 'paper']\n"
        "from supple.__main__ import main; main()"
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert 'pip install "click>=8.1" "rich>=13.7,<15"' in done.stderr
    assert "Traceback" not in done.stderr


# Runs commands one after another, and prints the exit status of each.
WITHOUT_MATPLOTLIB = """
import sys
sys.modules["matplotlib"] = None
from supple.__main__ import main
for words in ([], ["n-gain", "--plot", "x.svg"], ["n-gain", "--report", "x"]):
    sys.argv = ["supple", "paper", *words]
    try:
        main()
    except SystemExit as end:
        print(f"<{end.code or 0}>", file=sys.stderr)
"""


def test_without_matplotlib_all_paper_commands_except_figures_work() -> None:
    done = python(WITHOUT_MATPLOTLIB)
    listed, *refused = re.split(r"(<\d>)\n", done.stderr)[:-1]
    assert listed == ""
    assert refused[::2] == ["<0>", "<2>", "<2>"]
    for error in refused[1::2]:
        assert 'pip install "matplotlib>=3.8"' in error
    assert "n-gain" in done.stdout


# ---- what it prints ------------------------------------------------------------------------------


def test_the_help_of_supple_lists_the_paper_command() -> None:
    for word in ("-h", "--help"):
        assert "paper" in run(word).output
    assert "--report" in run("paper", "--help").output


def test_the_paper_command_without_a_name_lists_every_experiment() -> None:
    done = run("paper")
    assert done.exit_code == 0
    for experiment in EXPERIMENTS.values():
        assert experiment.name in done.stdout
        assert experiment.title.split()[0] in done.stdout


def test_the_printed_table_has_every_claim_with_its_verdict() -> None:
    done = run("paper", "n-gain")
    assert done.exit_code == 0
    assert done.stdout.count("✓ holds") == 4
    assert done.stdout.count("✗ does not") == 1
    for heading in ("the paper says", "we measure", "why"):
        assert heading in done.stdout


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("columns", [10, 40, 79])
def test_a_narrow_terminal_gets_a_list_instead_of_a_table(ran: Ran, columns: int) -> None:
    """The list has all claims in order, and its lines fit the width."""
    done = run("paper", "n-gain", columns=columns)
    assert done.exit_code == 0
    assert max(cell_len(line.rstrip()) for line in done.stdout.splitlines()) <= columns
    for claim in ran("n-gain").claims:
        mark = "✓ holds" if claim.holds else "✗ does not"
        row = f"the paper says: {claim.paper} we measure: {claim.measured} {mark} why: {claim.why}"
        assert squeezed(row) in squeezed(done.stdout)
    listed = squeezed(run("paper", columns=columns).stdout)
    for each in EXPERIMENTS.values():
        assert squeezed(f"{each.name} ({each.figure}): {each.title}") in listed


@pytest.mark.parametrize("columns", [80, 120])
def test_printed_tables_of_claims_cut_no_word(ran: Ran, columns: int) -> None:
    said = run("paper", "n-gain", columns=columns).stdout
    assert "…" not in said
    for claim in ran("n-gain").claims:
        for word in f"{claim.paper} {claim.measured} {claim.why}".split():
            assert word in said
    listed = run("paper", columns=columns).stdout
    assert "…" not in listed
    assert all(f"{each.name} " in listed for each in EXPERIMENTS.values())


def test_units_in_square_brackets_are_printed_and_not_interpreted_as_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dataclasses import replace

    from supple.papers import Claim, Outcome

    said = Outcome({"a": 1}, (Claim("[m/s] [red]", "1 [bold]", True, "[/]"),), lambda figure: None)
    strange = replace(EXPERIMENTS["n-gain"], run=lambda progress, **values: said)
    monkeypatch.setitem(EXPERIMENTS, "n-gain", strange)
    done = run("paper", "n-gain")
    assert done.exit_code == 0
    for words in ("[m/s] [red]", "1 [bold]", "[/]"):
        assert words in done.stdout


@pytest.mark.parametrize("suffix", ["svg", "PNG"])
def test_the_paper_command_writes_a_figure(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"figure.{suffix}"
    done = run("paper", "w-one-link", "--json", "--plot", str(file))
    assert done.exit_code == 0
    assert json.loads(done.stdout)
    assert f"written to {file}" in done.stderr
    assert file.stat().st_size > 1000


def test_json_of_all_experiments_has_for_each_name_the_json_of_this_experiment(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "w-one-link"
    one = json.loads(run("paper", name, "--json", "--report", str(tmp_path)).stdout)
    assert one == ran(name).quantities
    monkeypatch.setattr("supple.cli.paper.EXPERIMENTS", {name: EXPERIMENTS[name]})
    assert json.loads(run("paper", "all", "--json").stdout) == {name: one}


@pytest.mark.parametrize("more", [[], ["--report"]])
def test_numbers_and_curves_with_changed_parameters_equal_those_of_the_python_call(
    tmp_path: Path, more: list[str]
) -> None:
    """This holds with and without a report; the curves are read from files by NumPy."""
    words = [*more, *([str(tmp_path)] if more else []), "--json"]
    done = run("paper", "n-gain", "--set", "spread=2", "--csv", str(tmp_path / "c"), *words)
    assert done.exit_code == 0, done.stderr
    outcome = EXPERIMENTS["n-gain"](spread=2)
    assert json.loads(done.stdout) == outcome.quantities
    file = tmp_path / "c/n-gain.ratio.csv"
    assert f"written to {file}" in done.stderr
    names = file.read_text(encoding="utf-8").splitlines()[0].split(",")
    assert names == list(outcome.curves)
    found = np.loadtxt(file, delimiter=",", skiprows=1)
    np.testing.assert_array_equal(found.T, list(outcome.curves.values()))


def test_parameters_other_than_those_of_the_paper_are_printed_with_both_values() -> None:
    said = squeezed(run("paper", "n-gain", "--set", "matrices=150").stdout)
    assert "matrices=500" in said
    assert "here150" in said


# ---- what it refuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["paper", "mk-two-lnk"], "unknown experiment 'mk-two-lnk'; did you mean 'mk-two-link'"),
        (["paper", "x"], "'w-one-link'"),
        (["paper", "n-gain", "--plot", "f.gif"], "one of png, svg, pdf; given: f.gif"),
        (["paper", "n-gain", "--plot", "/no/such/f.svg"], "the folder /no/such does not exist"),
        (["paper", "all", "--plot", "f.svg"], "--report"),
        (["paper", "--json"], "NAME of an experiment"),
        (["paper", "n-gain", "--report", __file__], "is a file"),
        (["paper", "n-gain", "--report", f"{__file__}/below"], "cannot write"),
        (["paper", "n-gain", "--plot", "f.svg", "--report", "x"], "--plot is for one experiment"),
        (["papers"], "did you mean 'paper'"),
        (["paper", "n-gain", "--set", "sprad=2"], "did you mean 'spread'"),
        (["paper", "n-gain", "--set", "sprad=2"], "Available: 'spread', 'matrices'"),
        (["paper", "n-gain", "--set", "spread"], "NAME=VALUE"),
        (["paper", "n-gain", "--set", "spread=much"], "must be a number above 0"),
        (["paper", "n-gain", "--set", "matrices=200.5"], "must be an integer"),
        (["paper", "n-gain", "--set", "spread=nan"], "given: 'nan'"),
        (["paper", "all", "--set", "spread=2"], "changes one experiment"),
        (["paper", "--csv", "x"], "NAME of an experiment"),
        (["paper", "n-gain", "--csv", __file__], "is a file"),
    ],
)
def test_bad_input_is_refused_with_a_reason_and_exit_code_2(words: list[str], said: str) -> None:
    """The last line of stderr states the reason; only the usage may precede the reason."""
    done = run(*words)
    *before, reason = done.stderr.splitlines()
    assert not before or before[0].startswith("Usage: ")
    assert said in reason
    assert done.exit_code == 2
    assert done.stdout == ""
    assert reason.startswith("Error: ")
