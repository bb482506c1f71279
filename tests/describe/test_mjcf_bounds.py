"""Reading or rejecting any MJCF file takes bounded work and memory, and opens no asset."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cases import each
from sizes import nightly

resource = pytest.importorskip("resource")

SUPPORT = Path(__file__).parents[1] / "support"
MEGABYTES = 500
CALLS = 2_000_000  # most function calls of a case: 500 for each allowed element
PART = nightly(1, 8)  # the files have 1/PART of the allowed size
WHOLE = "siblings"  # this case always has the allowed size


def model(before: str, inside: str, after: str = "") -> str:
    return f"<mujoco>{before}<worldbody>{inside}</worldbody>{after}</mujoco>"


def body(inside: str = "") -> str:
    return f"<body><joint/>{inside}</body>"


def asset(text: str) -> str:
    return model(f"<asset>{text}</asset>", body())


def size(text: str) -> str:
    return model(f"<size {text}/>", body() * 200)


def copies(count: object, inside: str, more: str = "") -> str:
    return f'<replicate count="{count}" offset="1 0 0" {more}>{inside}</replicate>'


def attached(inside: str, prefix: str = "p", file: str = "part") -> str:
    return model(f'<asset><model name="m" file="{file}.xml"/></asset>', inside.replace("@", prefix))


MANY = "more than 4000 bodies, joints, sites and frames"
TURNED = ' pos="1 2 3" xyaxes="1 2 3 4 5 6"'
LONG = "n" * 1_000_000
ATTACH = '<attach model="m" prefix="@"/>'
EQUALITIES = '<equality><joint joint1="a" joint2="b"/></equality>'
COUPLED = '<body><joint name="a"/><body><joint name="b"/></body></body>'
CLASSES = [f'<default class="c{i}">' for i in range(390)]

READ = {
    "a mesh that is a pipe": asset('<mesh name="m" file="pipe"/>'),
    "a mesh that is endless": asset('<mesh name="m" file="/dev/zero"/>'),
    "a height field that is a pipe": asset('<hfield name="h" file="pipe"/>'),
    "a texture that is a pipe": asset('<texture name="t" type="2d" file="pipe"/>'),
    "a skin that is a pipe": asset('<skin name="s" file="pipe"/>'),
    "a large height field": asset('<hfield name="h" size="1 1 1 1" nrow="30000" ncol="30000"/>'),
    "a large texture": asset('<texture name="t" builtin="flat" width="30000" height="30000"/>'),
    "a large deformable": model(
        "", body(), '<deformable><skin name="s" file="pipe"/></deformable>'
    ),
    "many keyframes": size('nkey="2000000"'),
    "much user data": size('nuser_body="2000000"'),
    "much memory": size('memory="1000G"'),
    "a long snake": model("", "<body><joint/>" * 390 + "</body>" * 390),
    "a comb": model("", "<body><joint/>" * 390 + body() * (1_500 // PART) + "</body>" * 390),
    "siblings": model("", body() * 1_999),
    "copies": model("", copies(1_330 // PART, body())),
    "single copies": model("", copies(1, body()) * (999 // PART)),
    "nested copies": model("", '<replicate count="1">' * 390 + body() + "</replicate>" * 390),
    "sites": model("", body("".join(f'<site name="s{i}"{TURNED}/>' for i in range(3_990 // PART)))),
    "frames": model("", body(f"<frame{TURNED}/>" * (3_990 // PART))),
    "copied sites": model("", body(copies(1_990 // PART, '<site name="s"/>', 'euler="1 2 3"'))),
    "joints": model("", f"<body>{'<joint/>' * 6}</body>" * (570 // PART)),
    "geoms": model("", body('<geom size="1"/>' * (19_000 // PART))),
    "nested classes": model("<default>" + "".join(CLASSES) + "</default>" * 391, body()),
    "equalities": model("", copies(700 // PART, COUPLED), EQUALITIES),
}

REFUSED = {
    "an include that is a pipe": ('<mujoco><include file="pipe"/></mujoco>', "regular file"),
    "a model that is a pipe": (attached(ATTACH, file="pipe.stl"), "no such file|regular file"),
    "nested copies": (model("", copies(100, copies(100, body()))), MANY),
    "deeply nested copies": (
        model("", '<replicate count="2">' * 300 + body() + "</replicate>" * 300),
        MANY,
    ),
    "a count with a sign": (model("", body() + copies("+100000", body())), MANY),
    "a huge count": (model("", body() + copies("9" * 5_000, "<geom/>")), MANY),
    "copies of nothing": (model("", copies(10**9, "")), MANY),
    "copied geoms": (
        model("", body(copies(1900, '<geom size="1"/>' * 400))),
        "more than 20000 elements",
    ),
    "attached bodies": (
        attached("".join(f"<frame>{ATTACH.replace('@', f'p{i}')}</frame>" for i in range(300))),
        MANY,
    ),
    "models in models": (attached(ATTACH * 2, file="tower10"), MANY),
    "a model in itself": (attached(ATTACH, file="self"), "includes itself"),
    "a body attached to itself": (
        model("", '<body name="c"><joint/><attach body="c" prefix="x"/></body>'),
        "more than 400 levels deep",
    ),
    "long copied names": (
        model("", copies(1000, f'<body name="{LONG}"><joint/></body>')),
        "names of .* at most 16 MB",
    ),
    "long separators": (model("", copies(1000, body(), f'sep="{LONG}"')), "names of .* at most 16"),
    "long prefixes": (
        attached(copies(100, ATTACH), LONG, "tower0"),
        "names of .* at most 16 MB",
    ),
    "a cable": (
        model("", '<body><composite type="cable" count="99999 1 1"/></body>'),
        "deformable body",
    ),
    "a cloth": (model("", '<flexcomp name="f" count="999 999 999"/>'), "deformable body"),
}  # fmt: skip

PROGRAM = """
import json, sys
import supple as sp
sys.path.insert(0, sys.argv[1])
from work import counted
cases = json.load(open("cases.json"))


def peak():
    # ru_maxrss would include the memory of the parent process.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


found = {}
for name, text in cases.items():
    open("main.xml", "w").write(text)
    with counted() as work:
        try:
            sp.mjcf("main.xml")
            said = ""
        except sp.errors.SuppleError as error:
            said = str(error)
    found[name] = said, work.calls, peak() // 1024
    print(json.dumps({name: found[name]}), flush=True)
"""


def written(folder: Path) -> None:
    """Write the files that the cases refer to."""
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.stl.xml")
    (folder / "part.xml").write_text(model("", body("<body><joint/></body>" * 400)))
    (folder / "self.xml").write_text(attached(ATTACH, file="self"))
    (folder / "tower0.xml").write_text(model("", body()))
    for i in range(10):
        twice = "".join(f"<frame>{ATTACH.replace('@', side)}</frame>" for side in "lr")
        (folder / f"tower{i + 1}.xml").write_text(attached(twice * 2, file=f"tower{i}"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int, int]]:
    """Return the message, number of calls and peak memory [MB] of each case."""
    folder = tmp_path_factory.mktemp("mjcf")
    written(folder)
    cases = {f"read: {name}": text for name, text in READ.items()}
    cases |= {f"refused: {name}": text for name, (text, _) in REFUSED.items()}
    (folder / "cases.json").write_text(json.dumps(cases))
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SUPPORT)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    every: dict[str, tuple[str, int, int]] = {}
    for line in said.stdout.splitlines():
        every |= json.loads(line)
    assert len(every) == len(cases), f"stopped after {list(every)[-1:]}: {said.stderr[-500:]}"
    return every


@pytest.mark.parametrize("name", READ)
def test_large_mjcf_parts_without_kinematics_cost_little_time_and_memory(
    found: dict[str, tuple[str, int, int]], name: str
) -> None:
    said, calls, megabytes = found[f"read: {name}"]
    assert said == ""
    assert calls < (CALLS if name == WHOLE else CALLS / PART)
    assert megabytes < MEGABYTES


@each("name", REFUSED)
def test_mjcf_files_that_expand_beyond_bounds_are_refused_cheaply(
    found: dict[str, tuple[str, int, int]], name: str
) -> None:
    said, calls, megabytes = found[f"refused: {name}"]
    assert re.search(REFUSED[name][1], said), said
    assert calls < CALLS
    assert megabytes < MEGABYTES
