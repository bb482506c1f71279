"""A UR5e is driven through its wrist singularity, with and without damping.

The tool moves slowly and turns while joint 5 passes zero, where the axes of joints 4 and 6
coincide. The pseudoinverse requires joint speeds far above the limits. A `Servo` with its defaults
gives up a part of the motion and keeps every joint within its limits.
"""

import numpy as np

import supple as sp

DT, SECONDS = 0.004, 4.0  # [s]
TWIST = np.array([0.05, 0, 0, -0.4, 0, 0])  # twist of the tool, world axes [m/s, rad/s]


def drive(robot, servo, q):
    """Return the largest joint speed [rad/s] and the number of damped steps."""
    fastest, damped = 0.0, 0
    for _ in range(int(SECONDS / DT)):
        servo(q, TWIST, out=q)  # in place: nothing is allocated
        fastest = max(fastest, np.abs(servo.qd).max())
        damped += sp.StepStatus.DAMPED in servo.status
    return fastest, damped


def main():
    """Compare the pseudoinverse, the default damping and optimal damping."""
    robot = sp.load("ur5e")
    start = np.radians([0, -70, 100, -120, -40, 0])
    for name, servo in (
        (
            "pseudoinverse",
            sp.Servo(robot, step=sp.steps.Pseudoinverse(), limits=sp.Limits.none(robot), dt=DT),
        ),
        ("default", sp.Servo(robot, dt=DT)),
        ("‖q̇‖ <= 1.5 rad/s", sp.Servo(robot, step=sp.DLS(sp.damping.Optimal(1.5)), dt=DT)),
    ):
        fastest, damped = drive(robot, servo, start.copy())
        print(f"{name:>17}: fastest joint {fastest:6.2f} rad/s, {damped} damped steps")


if __name__ == "__main__":
    main()
