"""Run other libraries, in their environments, through the passages."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import supple as sp

from .passages import Passage
from .singular import Array

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("qp", "position")  # of .venv-peers, made by `make bench-singularities`


def placements(robot: sp.Robot) -> Array:
    """Return T of each joint in the previous one, and of the end effector (n + 1, 4, 4).

    The arm has no branches, and all joints turn about their z axis.
    """
    found, T, description = [], np.eye(4), robot.description
    for joint in description.joints:
        T = T @ joint.origin
        if joint.moves:
            if joint.kind != "revolute" or not np.allclose(joint.axis, (0, 0, 1)):
                raise ValueError(f"{robot.name}: {joint.name} does not turn about its z axis")
            found.append(T)
            T = np.eye(4)
        T = T @ joint.child_placement
    for frame in description.frames:
        if frame.name == robot.tips[0]:
            T = T @ frame.placement
    return np.array([*found, T])


def commands(passages: list[Passage]) -> dict[str, Array]:
    """Return the input of the other libraries as arrays."""
    arrays: dict[str, Array] = {}
    for passage in passages:
        robot, name = passage.robot, str(passage)
        for limit in ("lower", "upper", "max_speed"):
            arrays[f"{robot.name}/{limit}"] = getattr(robot, limit)
        arrays[f"{robot.name}/placements"] = placements(robot)
        for each in ("q0", "poses", "twists", "dt"):
            arrays[f"{name}/{each}"] = np.asarray(getattr(passage, each))
    return arrays


def joints(passages: list[Passage]) -> tuple[dict[str, dict[str, Array]], list[str]]:
    """Return the joint angles (K + 1, n) of each library and passage, and notes."""
    found: dict[str, dict[str, Array]] = {}
    notes = []
    quiet = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "OPENBLAS", "MKL")}
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "commands.npz", Path(folder) / "joints.npz"
        np.savez(given, **commands(passages))  # type: ignore[arg-type]
        for environment in ENVIRONMENTS:
            python = ROOT / ".venv-peers" / environment / "bin/python"
            if not python.exists():
                notes.append(f"- {environment}: **left out**, its environment is not there")
                continue
            script = str(Path(__file__).with_name("peers.py"))
            subprocess.run(
                [str(python), "-W", "ignore", script, str(given), str(got)],
                check=True,
                env=os.environ | quiet,
            )
            with np.load(got) as arrays:
                for key in arrays.files:
                    name, what = key.split("/")
                    if what == "about":
                        notes.append(f"- {name}: {json.loads(str(arrays[key]))}")
                    elif what == "missing":
                        notes.append(f"- {name}: **left out**, {json.loads(str(arrays[key]))}")
                    else:
                        found.setdefault(name, {})[what] = arrays[key]
    return found, notes
