"""Two arms on one torso hold a box: the hands keep their distance while they carry the box.

The second task is relative: the pose of the left hand in the frame of the right one. This pose
stays fixed while the right hand moves, also where damping or a limit slows the right hand down.
"""

import numpy as np

import supple as sp

LINK = """<link name="{side}_{k}"/><joint name="{side}_joint{k}" type="revolute">
<parent link="{parent}"/><child link="{side}_{k}"/><origin xyz="{xyz}"/><axis xyz="{axis}"/>
<limit lower="-2.8" upper="2.8" velocity="2" effort="1"/></joint>"""
ARM = (
    ("0 {shoulder} 0.4", "0 0 1"),
    ("0 0 0.1", "0 1 0"),
    ("0 0 0.2", "0 0 1"),
    ("0 0 0.2", "0 1 0"),
    ("0 0 0.2", "0 0 1"),
    ("0 0 0.2", "0 1 0"),
    ("0 0 0.1", "0 0 1"),
)


def torso():
    """Return a robot with two arms of seven joints, 0.5 m apart."""
    parts = ['<robot name="torso"><link name="base"/>']
    for side, shoulder in (("right", -0.25), ("left", 0.25)):
        for k, (xyz, axis) in enumerate(ARM):
            parent = f"{side}_{k - 1}" if k else "base"
            place = xyz.format(shoulder=shoulder)
            parts.append(LINK.format(side=side, k=k, parent=parent, xyz=place, axis=axis))
    return sp.urdf("".join([*parts, "</robot>"]))


def main():
    """Carry the box along a circle and measure how well the grip is kept."""
    robot = torso()
    right, left = "right_6", "left_6"
    q = np.tile([0.0, 0.6, 0.0, 1.2, 0.0, 0.8, 0.0], 2)
    start = robot.fk(q, right)
    grip = np.linalg.inv(start) @ robot.fk(q, left)  # pose of the left hand in the right hand

    def goals(t):
        """Return the target of each task at time t [s]."""
        carried = start.copy()
        carried[:3, 3] += [0.1 * np.sin(t), 0.1 * np.cos(t) - 0.1, 0.05 * np.sin(2 * t)]
        return carried, grip

    tasks = [sp.PoseTask(right), sp.PoseTask(left, base=right, weight=10.0)]
    motion = sp.simulate(robot, q, target=goals, tasks=tasks, dt=0.01, duration=6.0)
    held = np.linalg.inv(robot.fk(motion.q, right)) @ robot.fk(motion.q, left)
    slip = np.linalg.norm(held[:, :3, 3] - grip[:3, 3], axis=1).max()
    print(f"{robot.dof} joints, end effectors {robot.tips}")
    print(f"the box moves by {np.ptp(robot.fk(motion.q, right)[:, 0, 3]):.2f} m")
    print(f"the grip changes by at most {1e3 * slip:.3f} mm")


if __name__ == "__main__":
    main()
