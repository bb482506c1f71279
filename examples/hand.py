"""A hand with three fingers puts its fingertips on an object, in one call.

The tips are the end effectors of a branching robot. Tasks that share no joint are solved
separately, so that three fingers cost no more than three small arms.
"""

import numpy as np

import supple as sp

JOINT = """<link name="{child}"/><joint name="{name}" type="revolute">
<parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}" rpy="0 0 {yaw}"/>
<axis xyz="{axis}"/><limit lower="{lower}" upper="1.6" velocity="5" effort="1"/></joint>"""
TIP = """<link name="{tip}"/><joint name="{tip}_mount" type="fixed">
<parent link="{parent}"/><child link="{tip}"/><origin xyz="0.03 0 0"/></joint>"""
FINGERS = {"thumb": np.pi, "index": 0.5, "ring": -0.5}  # direction of each finger [rad]


def three_fingers():
    """Return a hand: each finger spreads, then bends three times."""
    parts = ['<robot name="hand"><link name="palm"/>']
    for finger, yaw in FINGERS.items():
        root = f"{0.04 * np.cos(yaw)} {0.04 * np.sin(yaw)} 0"
        parent = "palm"
        for k, (xyz, turn, axis, lower) in enumerate(
            (
                (root, yaw, "0 0 1", -0.6),
                ("0.01 0 0", 0, "0 -1 0", -0.3),
                ("0.04 0 0", 0, "0 -1 0", 0.0),
                ("0.03 0 0", 0, "0 -1 0", 0.0),
            )
        ):
            child = f"{finger}_{k}"
            parts.append(
                JOINT.format(
                    name=f"{child}_joint",
                    parent=parent,
                    child=child,
                    xyz=xyz,
                    yaw=turn,
                    axis=axis,
                    lower=lower,
                )
            )
            parent = child
        parts.append(TIP.format(tip=f"{finger}_tip", parent=parent))
    return sp.urdf("".join([*parts, "</robot>"]))


def main():
    """Grasp spheres of several sizes above the palm."""
    hand = three_fingers()
    print(f"{hand.dof} joints, fingertips {hand.tips}")
    tasks = [sp.PositionTask(tip) for tip in hand.tips]
    for radius in (0.02, 0.03, 0.04, 0.15):
        around = [[np.cos(yaw), np.sin(yaw), 0] for yaw in FINGERS.values()]
        contacts = [radius * np.array(side) + [0, 0, 0.07] for side in around]
        found = sp.solve(hand, contacts, tasks=tasks)
        print(f"sphere of {1e3 * radius:.0f} mm: {found}")


if __name__ == "__main__":
    main()
