"""Run other libraries, in their environments, through the passages."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import supple as sp

from .conditions import Command, exact
from .passages import Passage
from .singular import Array

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("qp", "position")  # folders in .venv-peers, from `make bench-singularities`


def moving(robot: sp.Robot) -> list[int]:
    """Return the indices of the joints that move the end effector, from the root on."""
    J = np.abs(robot.jacobian(robot.random(4, seed=0))).max(axis=(0, 1))
    return [j for j in range(robot.dof) if J[j] > 0]


def placements(robot: sp.Robot) -> Array:
    """Return the poses (n + 1, 4, 4) of joints and end effector, each in the frame before it.

    Only joints that move the end effector are included; each rotates about or slides along z.
    """
    q = np.zeros(robot.dof)
    T = robot.base
    found, joints = [], {joint.name: joint for joint in robot.description.joints}
    for j in moving(robot):
        joint = joints[robot.joint_names[j]]
        before = T
        here = robot.fk(q, joint.child) @ np.linalg.inv(joint.child_placement)
        T = here @ z_to(joint.axis)
        found.append(np.linalg.inv(before) @ T)
    return np.array([*found, np.linalg.inv(T) @ robot.fk(q)])


def z_to(axis: Array) -> Array:
    """Return a rotation (4, 4) that takes z to a unit vector; the identity for z itself."""
    z = np.asarray(axis, dtype=np.float64)
    x = np.eye(3)[np.argmin(np.abs(z))]
    if abs(z[2]) == 1:
        x = np.array([1.0, 0.0, 0.0])
    x = x - z * (z @ x)
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.column_stack([x, np.cross(z, x), z])
    return T


def commands(inputs: dict[str, tuple[Passage, Command]]) -> dict[str, Array]:
    """Return the input of the other libraries as arrays by name."""
    arrays: dict[str, Array] = {}
    for name, (passage, command) in inputs.items():
        robot = passage.robot
        if f"{robot.name}/placements" not in arrays:
            chain = moving(robot)
            for limit in ("lower", "upper", "max_speed"):
                arrays[f"{robot.name}/{limit}"] = getattr(robot, limit)[chain]
            arrays[f"{robot.name}/slides"] = robot.prismatic[chain]
            arrays[f"{robot.name}/rows"] = np.array(passage.rows)
            arrays[f"{robot.name}/placements"] = placements(robot)
        chain = moving(robot)
        arrays[f"{name}/q0"] = passage.q0[chain]
        arrays[f"{name}/dt"] = np.array(passage.dt)
        arrays[f"{name}/poses"], arrays[f"{name}/twists"] = command.poses, command.twists
        arrays[f"{name}/noise"] = command.noise[:, chain]
        arrays[f"{name}/delay"] = np.array(command.delay)
    return arrays


def plain(passages: list[Passage]) -> dict[str, tuple[Passage, Command]]:
    """Return the undisturbed inputs of passages by their names."""
    return {str(passage): (passage, exact(passage)) for passage in passages}


def whole(passage: Passage, q: Array) -> Array:
    """Return the angles (K + 1, n) of all joints, given those that move the end effector."""
    all_of = np.repeat(passage.q0[None], len(q), axis=0)
    all_of[:, moving(passage.robot)] = q
    return all_of


Settings = dict[str, dict[str, list[list[float]]]]  # library -> robot -> settings to run


def joints(
    inputs: dict[str, tuple[Passage, Command]], settings: Settings | None = None
) -> tuple[dict[str, dict[str, Array]], list[str]]:
    """Return the joint angles (K + 1, n) by library and input, and notes on the libraries.

    If settings are given, only the tuned libraries are run, under names such as "Pink#3" for the
    fourth setting. Results for the same inputs and program are cached in the environment's folder.
    """
    found: dict[str, dict[str, Array]] = {}
    notes = []
    quiet = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "OPENBLAS", "MKL")}
    with tempfile.TemporaryDirectory() as folder:
        arrays_in = commands(inputs)
        given = Path(folder) / "commands.npz"
        np.savez(given, **arrays_in)  # type: ignore[arg-type]
        more = []
        if settings is not None:
            more = [str(Path(folder) / "settings.json")]
            Path(more[0]).write_text(json.dumps(settings))
        for environment in ENVIRONMENTS[:1] if more else ENVIRONMENTS:
            python = ROOT / ".venv-peers" / environment / "bin/python"
            if not python.exists():
                notes.append(f"- {environment}: **left out**, its environment is not there")
                continue
            script = Path(__file__).with_name("peers.py")
            parts = [key.encode() + arrays_in[key].tobytes() for key in sorted(arrays_in)]
            parts += [script.read_bytes(), json.dumps(settings).encode()]
            key = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
            got = python.parents[1] / f"joints-{key}.npz"
            if not got.exists():
                new = Path(folder) / "joints.npz"
                subprocess.run(
                    [str(python), "-W", "ignore", str(script), str(given), str(new), *more],
                    check=True,
                    env=os.environ | quiet,
                )
                shutil.move(new, got)
            with np.load(got) as arrays:
                for key in arrays.files:
                    name, what = key.split("/")
                    if what == "about":
                        notes.append(f"- {name}: {json.loads(str(arrays[key]))}")
                    elif what == "missing":
                        notes.append(f"- {name}: **left out**, {json.loads(str(arrays[key]))}")
                    else:
                        found.setdefault(name, {})[what] = whole(inputs[what][0], arrays[key])
    return found, notes
