"""Run Pink and mink through drawn passages, in an environment where they are installed.

    python bench/passages_peers.py COMMANDS.npz JOINTS.npz

`bench/passages.py --peers PYTHON` calls this file; it needs only NumPy and the libraries. COMMANDS
has the arrays of each robot (the fields of `singularities.peers.Arm`, under "robot NUMBER/") and of
each passage ("NUMBER/": robot, dt, acceleration, q0, poses, twists). The joint angles of all
libraries are written to JOINTS.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "singularities"))
import peers

EXAMPLE = peers.EXAMPLE


def main(commands: str, joints: str) -> None:
    """Run all libraries through all passages."""
    given, found = np.load(commands), {}
    count = sum(name.endswith("/poses") for name in given.files)
    for i in range(count):
        robot, dt = f"robot {int(given[f'{i}/robot'])}", float(given[f"{i}/dt"])
        arm = peers.Arm(*(given[f"{robot}/{field}"] for field in peers.Arm._fields))
        limited = EXAMPLE._replace(acceleration=given[f"{i}/acceleration"])
        methods = {
            "Pink": lambda arm=arm, dt=dt: peers.pink_method(arm, dt, same=False),
            "Pink, same limits": lambda arm=arm, dt=dt, how=limited: peers.pink_method(
                arm, dt, same=False, how=how
            ),
            "mink": lambda arm=arm, dt=dt: peers.mink_method(arm, dt, same=False),
        }
        for name, make in methods.items():
            move, q = make(), given[f"{i}/q0"]
            path = [q]
            for pose, twist in zip(given[f"{i}/poses"], given[f"{i}/twists"], strict=False):
                try:
                    q = move(q, twist, pose)
                except Exception:  # the program has no solution, so the joints stop
                    q = path[-1]
                path.append(q)
            found[f"{name}/{i}"] = np.array(path)
    np.savez(joints, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
