"""Count the goals of MotionBenchMaker that are solved without collisions, and time a call.

    python bench/goals.py                        # a few goals, from tests/collision/data
    python bench/goals.py --data FOLDER          # all goals; see the README of tests/collision/data

FOLDER has mbm_panda.json.gz and mbm_ur5.json.gz, lists of problems with "obstacles" and "goal", and
panda_spherized.urdf and ur5_spherized.urdf. The pose of the tool at a goal is the target.
"""

import argparse
import gzip
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np

import supple as sp
from supple.collision.scenes import scene_of

SAMPLE = Path(__file__).parents[1] / "tests/collision/data"
REPEATS = 5


def problems(name: str, folder: Path | None) -> tuple[sp.Robot, list[dict]]:
    """Return a robot and its problems."""
    if folder is None:
        every = json.loads((SAMPLE / "goals.json").read_text())
        robot = sp.urdf(SAMPLE / f"{name}.urdf")
        return robot, [each for each in every if each["robot"] == name]
    robot = sp.urdf(folder / f"{name}_spherized.urdf")
    return robot, json.loads(gzip.decompress((folder / f"mbm_{name}.json.gz").read_bytes()))


def measure(name: str, folder: Path | None) -> None:
    """Print how many goals are solved, and the time of a call [µs]."""
    robot, every = problems(name, folder)
    times, counts, free, proven = [], Counter(), 0, 0
    for problem in every:
        world = sp.World(scene_of(problem["obstacles"], "obstacles", None)[0])
        q = np.array([problem["goal"].get(joint, 0.0) for joint in robot.joint_names])
        solver, target = sp.Solver(robot, world=world), robot.fk(q)
        own = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            found = solver(target)
            own.append(time.perf_counter() - begin)
        times.append(1e6 * np.median(own))
        is_free = not sp.collision.collides(robot, world, q)
        free += is_free
        counts[str(found.status), is_free] += 1
        proven += found.is_proven
        if found:
            assert found.clearance >= 0
    median, mean, most = np.median(times), np.mean(times), np.percentile(times, 99)
    print(f"{name}: {len(every)} goals, {free} of them free: solved {counts['converged', True]}")
    print(f"  of the others: solved {counts['converged', False]}, proven to be blocked {proven}")
    print(f"  µs a call: median {median:.1f}, mean {mean:.1f}, 99 % below {most:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of all problems")
    given = parser.parse_args()
    for each in ("panda", "ur5"):
        measure(each, given.data)
