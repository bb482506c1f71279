"""An animated figure: four hands of a branching tree follow targets that move out of reach.

Buss's double Y has 25 joints and four end effectors. The targets swing far outside the workspace of
the double Y. An animation must not tremble there, so the example counts how often hands reverse.
Constants that Buss tuned by hand track a little closer; `Curvature` needs no tuning.
"""

import math

import numpy as np

import supple as sp

DT, FRAMES = 1 / 60, 600  # duration of a frame [s], number of frames
CENTER = np.array([[2, 0.5, 0.3], [0.5, 0.4, -0.2], [-0.5, 0.6, 0.3], [-1.6, 0.3, -0.2]])
SIZE = np.array([[3, 0.4, 1.4], [0.8, 0.6, 2], [1.6, 0.4, 1], [1.6, 0.6, 0.6]])
RATE = np.array([[3, 7, 5], [4, 4, 3], [6, 7, 8], [4, 4, 3]]) / 6  # [rad/s]


def targets(t):
    """Return the target positions of the four hands (4, 3) [m]."""
    return list(CENTER + SIZE * np.sin(RATE * t))


def reversals(places):
    """Count moves of a hand, longer than a millimeter, that reverse the previous one."""
    moves = np.diff(places, axis=0)
    back = (moves[1:] * moves[:-1]).sum(axis=-1) < 0
    lengths = np.linalg.norm(moves, axis=-1)
    return int((back & (lengths[1:] > 1e-3) & (lengths[:-1] > 1e-3)).sum())


def main():
    """Compare several steps on the same motion; the DLS constants are those of Buss's program."""
    figure = sp.load("double_y")
    hands = [sp.PositionTask(tip) for tip in figure.tips]
    limits = sp.Limits.none(figure)
    print("step                        mean distance [m]    hand reversals   fastest joint [rad/s]")
    for name, step in (
        ("truncated SVD", sp.steps.TruncatedSVD(0.01)),
        ("DLS, constant", sp.DLS(sp.damping.Constant(1.1**2))),
        ("DLS, clamped", sp.steps.ErrorClamp(sp.DLS(sp.damping.Constant(0.7**2)), 0.4 / DT)),
        ("SDLS", sp.steps.SDLS(math.radians(45) / DT)),
        ("DLS, curvature", sp.DLS(sp.damping.Curvature.for_robot(figure, dt=DT))),
    ):
        motion = sp.simulate(
            figure,
            figure.neutral(),
            target=targets,
            tasks=hands,
            dt=DT,
            duration=FRAMES * DT,
            step=step,
            limits=limits,
            gain=1 / DT,  # reach the target in each frame
            feedforward=False,
        )
        distance = np.linalg.norm(motion.error.reshape(-1, 4, 3), axis=-1).mean()
        places = figure.fk(motion.q)[..., :3, 3]
        fastest = np.abs(motion.qd).max()
        print(f"{name:<24} {distance:20.3f} {reversals(places):17} {fastest:23.1f}")


if __name__ == "__main__":
    main()
