"""Retargeting of holosoma's climbing sequences to a Unitree G1, judged by holosoma's evaluation.

    python bench/retarget.py FOLDER [ROUNDS]

FOLDER has the unpacked wheel of holosoma-retargeting 0.1.0: five sequences of motion capture with
boxes, the robot, and the evaluation, which runs in an environment of its own ("holosoma": libigl,
mujoco, trimesh, tyro, scipy, jinja2). All frames, 120 per second, are retargeted twice: with
detected contacts, and with the contacts that the evaluation assumes. The evaluation takes every
fourth frame, as holosoma does. Times are CPU times of one core. Prints a table and writes it to
bench/results/.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import measure
import supple as sp
from supple.collision import Box
from supple.retargeting import PointMapping, Retargeted, default_limits
from supple.retargeting.points import names_of_points
from worker import Worker

SCALE = 1.32 / 1.78  # heights of robot and human [m], as in holosoma's evaluation
FPS, EVERY = 120.0, 4
TOES = ("LeftToeBase", "RightToeBase")
SLOW = 0.01  # largest motion of a standing toe between judged frames, scaled to the robot [m]


def box_of(file: Path) -> Box:
    """Return the box with the eight corners in an OBJ file, scaled to the size of the robot."""
    lines = [line.split() for line in file.read_text().splitlines()]
    corners = np.array([line[1:4] for line in lines if line[:1] == ["v"]], dtype=float)
    ways = corners[1:] - corners[0]
    edges = min(
        (ways[list(three)] for three in itertools.combinations(range(7), 3)),
        key=lambda three: np.abs(three @ three.T - np.diag(np.diag(three @ three.T))).max(),
    )
    lengths = np.linalg.norm(edges, axis=1)
    T = np.eye(4)
    T[:3, :3] = (edges / lengths[:, None]).T
    T[:3, 2] *= np.sign(np.linalg.det(T[:3, :3]))
    T[:3, 3] = SCALE * corners.mean(axis=0)
    return Box(SCALE * lengths, T)


def jumps(found: Retargeted) -> tuple[float, float]:
    """Return the largest speed and acceleration of a joint, relative to their limits."""
    limits = default_limits(found.robot)
    qd = found.qd[:, 6:]
    qdd = np.diff(qd, axis=0) * found.fps
    return (
        float((np.abs(qd) / limits.max_speed[6:]).max()),
        float((np.abs(qdd) / limits.max_acceleration[6:]).max()),
    )


def assumed_contacts(positions: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.bool_]:
    """Return a mask (T, 2) of the frames in which the evaluation assumes that each foot stands."""
    toes = SCALE * positions[::EVERY, [names.index(toe) for toe in TOES], :2]
    slow = np.linalg.norm(np.diff(toes, axis=0), axis=-1) <= SLOW
    made = np.zeros((len(positions), 2), dtype=bool)
    for k in range(len(slow)):
        made[EVERY * k : EVERY * (k + 1) + 1] |= slow[k]
    return made


def judge_motion(judge: Worker, sequence: str, found: Retargeted) -> list[str]:
    """Return the rows of the evaluation's table for a motion."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / f"{sequence}_original.npz"
        np.savez(file, qpos=found.q[::EVERY], cost=0.0)
        said = judge.ask(ask="judge", sequence=sequence, file=str(file))
    return [
        f"| {sequence[-1]} | {title} | {100 * of['penetrating']:.1f} % | "
        f"{1e3 * of['deepest']:.1f} | {100 * of['sliding']:.1f} % | {1e3 * of['fastest']:.1f} |"
        for title, of in (("1 cm", said["own"]), ("1 mm", said["strict"]))
    ]


def main(folder: Path, rounds: int) -> None:
    """Retarget and judge all sequences, and print and write the table."""
    measure.one_core()
    package = folder / "holosoma_retargeting"
    robot = sp.mjcf(package / "models/g1/g1_29dof_spherehand.xml")
    judge = Worker("holosoma", "retarget_judge.py", (folder.resolve(),))
    names = names_of_points(53, "holosoma")
    ways = ("detected", "assumed")
    rows: dict[str, list[str]] = {way: [] for way in ways}
    judged: dict[str, list[str]] = {way: [] for way in ways}
    frames, seconds = 0, dict.fromkeys(ways, 0.0)
    for sequence in sorted((package / "demo_data/climb").iterdir()):
        positions = np.load(next(sequence.glob("*.npy")))
        boxes = {file.stem: box_of(file) for file in sorted(sequence.glob("box_models/*.obj"))}
        world = sp.World(boxes)
        frames += len(positions)
        for way in ways:
            contacts = assumed_contacts(positions, names) if way == "assumed" else None
            motion = sp.retargeting.HumanMotion(names, positions, FPS, contacts=contacts)
            times = []
            for _ in range(rounds):
                begin = time.process_time()
                mapping = PointMapping.guess(robot, motion, scale=SCALE)
                found = sp.retarget(robot, motion, mapping=mapping, world=world)
                times.append(time.process_time() - begin)
            took = statistics.median(times)
            seconds[way] += took
            speed, acceleration = jumps(found)
            slide, depth = found.slide[found.contacts], found.penetration
            rows[way].append(
                f"| {sequence.name[-1]} | {len(motion)} | {len(motion) / took:.0f} | "
                f"{100 * found.contacts.mean():.0f} % | {1e3 * slide.max():.2f} | "
                f"{100 * (slide > 1e-3).mean():.2f} % | {1e3 * depth.max():.2f} | "
                f"{100 * (depth > 1e-3).mean():.2f} % | {speed:.3f} | {acceleration:.3f} |"
            )
            if not judge.missing:
                judged[way] += judge_motion(judge, sequence.name, found)
    lines = [
        "# Retargeting of climbing sequences",
        "",
        "The five climbing sequences of holosoma-retargeting 0.1.0 onto its Unitree G1 with 29 "
        f"joints, from key points alone: {frames} frames at {FPS:g} frames/s. With detected "
        f"contacts, {frames / seconds['detected']:.0f} frames per second of CPU time on one core, "
        f"including the measurement of the human's limbs; medians of {rounds} rounds. All links "
        "but standing feet are kept out of boxes and at a distance from each other.",
        measure.provenance(("supple", "numpy")),
        "",
        "Slide: the largest distance of a point of a standing foot's sole from its place at the "
        "beginning of the stance, over all frames with contact, and the share of these frames "
        "above 1 mm. Depth: that of the deepest link in the ground or a box, and the share of "
        "frames above 1 mm. Speeds and accelerations are the largest ones relative to their "
        "limits.",
    ]
    titles = {
        "detected": "Contacts that are detected",
        "assumed": "Contacts that holosoma's evaluation assumes",
    }
    says = {
        "detected": "",
        "assumed": "The evaluation regards a foot as standing where the human's toe, in the "
        f"robot's scale, moves by at most {100 * SLOW:g} cm along the ground in 1/30 s, also in "
        "the air. `retarget` gets the same contacts by the argument `contacts=` of the motion.",
    }
    for way in ways:
        lines += ["", f"## {titles[way]}", ""]
        lines += [says[way], ""] if says[way] else []
        lines += [
            "| sequence | frames | frames/s | standing | slide [mm] | above 1 mm | depth [mm] | "
            "above 1 mm | speed | acceleration |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            *rows[way],
        ]
        if not judged[way]:
            continue
        lines += [
            "",
            "By holosoma's evaluation, with its own tolerances of 1 cm of penetration and 1 cm of "
            "sliding per frame at 30 frames/s, and with 1 mm:",
            "",
            "| sequence | tolerance | frames that penetrate | deepest [mm] | standing frames that "
            "slide | fastest [mm/frame] |",
            "|---|---|---:|---:|---:|---:|",
            *judged[way],
        ]
    lines += ["", f"- {judge.line}" if judge.missing else "- judged by holosoma-retargeting 0.1.0"]
    lines += [""]
    judge.close()
    print("\n".join(lines))
    print("written to", measure.write("retarget", "\n".join(lines)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
