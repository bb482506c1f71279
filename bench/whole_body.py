"""Whole-body control of a humanoid with a floating base: supple, placo, Pink and mink.

    python bench/whole_body.py [ROUNDS]

Both hands of a Unitree G1 follow curves while the feet and the center of mass stay in place.
A weak task holds its posture, and positions and speeds stay within their limits. Each library runs
the same commands with the same weights in its own process (`whole_body_peers.py`), in interleaved
rounds. Errors are measured by supple's kinematics. Prints a table and writes it to bench/results/.
"""

from __future__ import annotations

import sys
import tempfile
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import measure
import supple as sp
from arms import G1, for_mujoco
from servo_humanoid import POSE, SIDEWAYS
from whole_body_peers import CENTER, DT, FOOT, HAND, POSTURE
from worker import OWN, Worker

Array = NDArray[np.float64]

STEPS = 400  # number of steps of one pass over the curves
RADIUS = 0.06  # radius of the curves [m]
HANDS = ("left_rubber_hand", "right_rubber_hand")
FEET = ("left_ankle_roll_link", "right_ankle_roll_link")
ENVIRONMENTS = {
    "supple": OWN,
    "placo": "placo",
    "placo, feet as constraints": "placo",
    "Pink": "qp",
    "mink": "qp",
}


def files(folder: Path) -> tuple[Path, Path]:
    """Write a file without and a file with a floating joint above the pelvis, and return both."""
    root = ET.parse(measure.FILES / G1).getroot()
    for link in root.iter("link"):
        for tag in ("visual", "collision"):
            for element in link.findall(tag):
                link.remove(element)
    fixed, floating = folder / "g1.urdf", folder / "g1_floating.urdf"
    fixed.write_text(ET.tostring(root, encoding="unicode"))
    for_mujoco(root)
    ET.SubElement(root, "link", name="world")
    joint = ET.SubElement(root, "joint", name="base", type="floating")
    ET.SubElement(joint, "parent", link="world")
    ET.SubElement(joint, "child", link="pelvis")
    floating.write_text(ET.tostring(root, encoding="unicode"))
    return fixed, floating


def first(robot: sp.Robot) -> Array:
    """Return the first configuration, with bent knees and elbows."""
    q = robot.neutral()
    for k, name in enumerate(robot.position_names):
        for part, angle in {**POSE, **SIDEWAYS, "waist": 0.0}.items():
            right = part in SIDEWAYS and name.startswith("right")
            q[k] = (-angle if right else angle) if part in name else q[k]
    q[2] = -min(robot.fk(q, foot)[2, 3] for foot in FEET)
    return q


def curves(robot: sp.Robot, q: Array) -> Array:
    """Return the poses of both hands in each step (STEPS, 2, 4, 4)."""
    poses = np.repeat(robot.fk(q, HANDS)[None], STEPS, axis=0)
    t = 2 * np.pi * np.arange(STEPS) / STEPS
    for k in range(2):
        moved = np.stack([np.sin(t), np.sin(2 * t) / 2, (1 - np.cos(t)) * (1 - 2 * k)], axis=-1)
        poses[:, k, :3, 3] += RADIUS * moved
    return poses


def main(rounds: int) -> None:
    """Run all libraries, and print and write the table."""
    measure.one_core()
    with tempfile.TemporaryDirectory() as name:
        fixed, floating = files(Path(name))
        robot = sp.urdf(floating)
        q = first(robot)
        joints = list(robot.position_names[7:])
        targets, stands = curves(robot, q), robot.fk(q, FEET)
        motion = Path(name) / "motion.npz"
        center = robot.center_of_mass(q)
        np.savez(
            motion,
            hands=HANDS,
            feet=FEET,
            targets=targets,
            stands=stands,
            center=center,
            joints=joints,
            q=q,
        )
        everyone = {
            title: Worker(
                environment,
                "whole_body_peers.py",
                (title, fixed if environment == "placo" else floating, motion),
            )
            for title, environment in ENVIRONMENTS.items()
        }
        workers = {title: worker for title, worker in everyone.items() if not worker.missing}
        asked = {title: partial(worker.ask, ask="time") for title, worker in workers.items()}
        took = measure.medians(measure.interleaved(asked, rounds))
        rows, notes = [], []
        for title, worker in everyone.items():
            notes.append(f"- {title}: {worker.line}")
            if worker.missing:
                continue
            tail = worker.ask(ask="tail")
            moved = np.array(worker.ask(ask="moves"))
            away = robot.fk(moved, HANDS)[..., :3, 3] - targets[..., :3, 3]
            slip = robot.fk(moved, FEET)[..., :3, 3] - stands[:, :3, 3]
            hands, feet = np.linalg.norm(away, axis=-1), np.linalg.norm(slip, axis=-1)
            swing = np.abs(robot.center_of_mass(moved) - center)[:, :2].max()
            rows.append(
                f"| {title} | {took[title] / 1e3:.1f} | {tail / 1e3:.0f} | "
                f"{1e3 * np.median(hands):.3f} | "
                f"{1e3 * hands.max():.3f} | {1e6 * feet.max():.2f} | {1e3 * swing:.3f} |"
            )
            worker.close()
    lines = [
        "# One whole-body step of a humanoid",
        "",
        f"A Unitree G1 with a floating base, {robot.dof} degrees of freedom: poses of both hands "
        f"along curves (weight {HAND:g}), poses of both feet ({FOOT:g}), center of mass in x and y "
        f"({CENTER:g}), posture ({POSTURE:g}), limits of positions and speeds. dt = {DT:g} s, one "
        f"call from Python, one core, medians of {rounds} interleaved passes over {STEPS} steps, "
        "each pass by its median step. The 99th percentile is that of the shortest times of each "
        "step in 3 passes. Errors are those of one pass.",
        measure.provenance(("supple", "numpy")),
        "",
        "| | µs per step | 99th percentile | hands, median [mm] | hands, largest [mm] | "
        "feet, largest [µm] | "
        "center of mass, largest [mm] |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        *notes,
        "",
    ]
    print("\n".join(lines))
    print("written to", measure.write("whole_body", "\n".join(lines)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
