"""No result is lost if processes are killed, disks are full, or a write crashes at any step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import supple as sp
from parquet_targets import contents, reachable, solved_targets, write
from sizes import nightly
from supple.cluster import Solve, solve_parquet
from supple.errors import InputError

SUPPORT = Path(__file__).parents[1] / "support"
UR5E = sp.load("ur5e")
ROWS, PART_ROWS = 20_000, 500


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """Return a file of targets, and the results of a run without interruption."""
    return solved_targets(UR5E, tmp_path_factory.mktemp("uninterrupted"), ROWS, PART_ROWS)


@pytest.mark.parametrize("seed", range(nightly(2, 1)))
def test_a_job_continues_after_kills_at_random_times(
    seed: int, tmp_path: Path, uninterrupted: tuple[Path, dict[str, bytes]]
) -> None:
    """After ten kills with signal 9, a last run gives the bytes of an uninterrupted run."""
    file, expected = uninterrupted
    (tmp_path / "targets.parquet").write_bytes(file.read_bytes())
    command = [sys.executable, str(SUPPORT / "killed.py"), "solve", str(tmp_path), "10", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    killed, *left = map(int, done.stdout.split())
    assert killed >= 5, "the job ended before it was killed often"
    assert left == sorted(left), "a committed part is lost"
    assert any(0 < count < ROWS // PART_ROWS for count in left)
    assert contents(tmp_path / "out") == expected


CRASH = """
import itertools, os, sys
import pyarrow.parquet
import supple as sp
from pathlib import Path
from supple.cluster import Solve, solve_parquet
folder = sys.argv[1]
def run(what, step):
    place, name = (os, "fsync") if what == "fsync" else (Path, "replace")
    real, calls = getattr(place, name), itertools.count(1)
    def crash(*arguments):
        now = next(calls) == step
        if now and what != "renamed":
            os.kill(os.getpid(), 9)
        made = real(*arguments)
        if now:
            os.kill(os.getpid(), 9)
        return made
    setattr(place, name, crash)
    solve_parquet(Solve(robot), folder + "/t.parquet", f"{folder}/{what}{step}", part_rows=20)
robot = sp.load("ur5e")
sp.solve(robot, robot.fk(robot.neutral()))  # compiles the solver for all processes
for what in sys.argv[2:]:
    for step in range(1, 100):
        pid = os.fork()
        if pid == 0:
            run(what, step)
            os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            print(step - 1)
            break
"""


def test_a_job_continues_after_a_crash_at_any_write_step(tmp_path: Path) -> None:
    """The crash is before a flush, or before or after a file is renamed."""
    file = write(tmp_path / "t.parquet", reachable(UR5E, 60))
    solve_parquet(Solve(UR5E), file, tmp_path / "expected", part_rows=20)
    expected, steps = contents(tmp_path / "expected"), {"fsync": 10, "rename": 5, "renamed": 5}
    command = [sys.executable, "-c", CRASH, str(tmp_path), *steps]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [int(count) for count in done.stdout.split()] == list(steps.values())
    for what, last in steps.items():
        for step in range(1, last + 1):
            out = tmp_path / f"{what}{step}"
            assert contents(out) != expected or step == last, out.name
            solve_parquet(Solve(UR5E), file, out, part_rows=20)
            assert contents(out) == expected, out.name


FILL = """
import resource, sys
import supple as sp
from supple.cluster import Solve, solve_parquet
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    solve_parquet(Solve(sp.load("ur5e")), sys.argv[1] + "/t.parquet", sys.argv[1] + "/out",
                  part_rows=200)
except OSError as error:
    print(type(error).__name__)
"""


def test_a_part_above_the_file_size_limit_leaves_no_file(tmp_path: Path) -> None:
    """The parts before the large part are committed."""
    small = write(tmp_path / "in/a.parquet", reachable(UR5E, 50))
    write(tmp_path / "in/b.parquet", reachable(UR5E, 200))
    solve_parquet(Solve(UR5E), tmp_path / "in", tmp_path / "expected", part_rows=200)
    sizes = {name: len(each) for name, each in contents(tmp_path / "expected").items()}
    limit = (sizes["part-000000.parquet"] + sizes["part-000001.parquet"]) // 2
    code = FILL.replace("/t.parquet", "/in")
    command = [sys.executable, "-c", code, str(tmp_path), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "OSError", done.stderr
    assert small.exists()
    assert set(contents(tmp_path / "out")) == {"_manifest.json", "part-000000.parquet"}
    made = solve_parquet(Solve(UR5E), tmp_path / "in", tmp_path / "out", part_rows=200)
    assert made.resumed == 1
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")


SMALL_DISK = """
import json, subprocess, sys
from pathlib import Path
from click.testing import CliRunner
from supple.cli.group import cli
source, disk = sys.argv[1:]
words = ["batch", "ur5e", source, disk + "/out", "--part-rows", "500", "--json"]
done = CliRunner().invoke(cli, words)
left = sorted(path.name for path in Path(disk, "out").iterdir())
subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
again = CliRunner().invoke(cli, words)
files = {p.name: p.read_bytes().hex() for p in Path(disk, "out").iterdir() if p.name != ".lock"}
print(json.dumps([done.exit_code, done.stderr, left, again.exit_code, files]))
"""


@pytest.mark.skipif(
    sys.platform != "linux"
    or subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs a mount namespace for a small disk",
)
def test_a_job_that_fills_its_disk_reports_it_and_can_be_continued(
    tmp_path: Path, uninterrupted: tuple[Path, dict[str, bytes]]
) -> None:
    """If the disk is too small, the command fails; with more space, a new run finishes the job."""
    import json

    file, expected = uninterrupted
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=300k tmpfs "$2" && exec "$0" -c "$3" "$1" "$2"'
    words = [sys.executable, str(file), str(tmp_path / "disk"), SMALL_DISK]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    code, says, left, again, files = json.loads(done.stdout)
    assert code == 2
    assert "No space left on device" in says
    assert not [name for name in left if name.endswith(".tmp")]
    assert 2 < len(left) < len(expected)
    assert again == 0
    assert {name: bytes.fromhex(each) for name, each in files.items()} == expected


def test_a_second_simultaneous_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", reachable(UR5E, 40))

    def second(done: int, total: int) -> None:
        with pytest.raises(InputError, match="another run is writing"):
            solve_parquet(Solve(UR5E), file, tmp_path / "out", part_rows=10)

    made = solve_parquet(Solve(UR5E), file, tmp_path / "out", part_rows=10, progress=second)
    assert made.counts == {"CONVERGED": 40}


def test_the_number_of_threads_does_not_change_the_bytes_of_a_job(
    tmp_path: Path, uninterrupted: tuple[Path, dict[str, bytes]]
) -> None:
    file, expected = uninterrupted
    code = (
        "import sys, supple as sp; from supple.cluster import Solve, solve_parquet\n"
        "solve_parquet(Solve(sp.load('ur5e')), sys.argv[1], sys.argv[2], part_rows=500)"
    )
    for threads in nightly(("1", "3"), ("3",)):
        out = tmp_path / threads
        environment = {**os.environ, "SUPPLE_THREADS": threads}
        command = [sys.executable, "-c", code, str(file), str(out)]
        subprocess.run(command, check=True, env=environment)
        assert contents(out) == expected
