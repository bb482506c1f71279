"""Let a humanoid follow a walking human, whose motion is given as a whole and as a stream.

    python examples/retarget.py [ROBOT.urdf [MOTION]]

Without arguments, a small figure follows a synthetic human motion.
"""

import sys

import numpy as np

import supple as sp
from supple.retargeting import PointMapping, Retargeter, walking


def figure() -> sp.Robot:
    """Return a small humanoid."""
    joint = (
        '<link name="{0}">{5}</link><joint name="{0}" type="revolute"><parent link="{1}"/>'
        '<child link="{0}"/><origin xyz="{2}"/><axis xyz="{3}"/>'
        '<limit {4} velocity="12" effort="9"/></joint>'
    )
    sole = (
        '<collision><origin xyz="0.03 0 -0.05"/><geometry><box size="0.2 0.08 0.02"/></geometry>'
        "</collision>"
    )
    x, y, z = "1 0 0", "0 1 0", "0 0 1"
    rows = [("torso", "pelvis", "0 0 0.1", z, -2, 2, "")]
    for s, sign in (("left", ""), ("right", "-")):
        rows += [
            (f"{s}_hip_yaw", "pelvis", f"0 {sign}0.1 -0.05", z, -1.5, 1.5, ""),
            (f"{s}_hip_roll", f"{s}_hip_yaw", "0 0 0", x, -1, 1, ""),
            (f"{s}_thigh", f"{s}_hip_roll", "0 0 0", y, -2.5, 1.2, ""),
            (f"{s}_shin", f"{s}_thigh", "0 0 -0.35", y, 0, 2.6, ""),
            (f"{s}_ankle", f"{s}_shin", "0 0 -0.35", y, -1.2, 1.2, ""),
            (f"{s}_foot", f"{s}_ankle", "0 0 0", x, -0.6, 0.6, sole),
            (f"{s}_shoulder", "torso", f"0 {sign}0.18 0.35", y, -3, 2, ""),
            (f"{s}_arm_roll", f"{s}_shoulder", "0 0 0", x, -1.6, 1.6, ""),
            (f"{s}_upper_arm", f"{s}_arm_roll", "0 0 0", z, -1.5, 1.5, ""),
            (f"{s}_forearm", f"{s}_upper_arm", "0 0 -0.25", y, -2.4, 0, ""),
            (f"{s}_wrist", f"{s}_forearm", "0 0 -0.2", z, -1, 1, ""),
        ]
    parts = [joint.format(*row[:4], f'lower="{row[4]}" upper="{row[5]}"', row[6]) for row in rows]
    return sp.urdf(f'<robot name="figure"><link name="pelvis"/>{"".join(parts)}</robot>')


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word.endswith((".urdf", ".npz", ".npy", ".bvh"))]
    robot = sp.urdf(given[0]) if given else figure()
    human = sp.retargeting.HumanMotion.load(given[1]) if given[1:] else walking(2.0, seed=1)

    motion = sp.retarget(robot, human)
    print(motion)

    # The same as a stream: each frame completes the configuration of an earlier one.
    stream = Retargeter(PointMapping.guess(robot, human), human.fps)
    made = [stream.push(human[k : k + 1]) for k in range(len(human))]
    made.append(stream.finish())
    print("the stream is the same:", np.array_equal(np.concatenate(made), motion.q))
    print(f"with a latency of {1e3 * stream.latency / stream.fps:.0f} ms")
