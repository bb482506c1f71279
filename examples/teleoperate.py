"""Teleoperate a UR5e through its wrist singularity, within limits.

An operator moves the tool while the wrist turns through the configuration where two of its axes
coincide. The norm of the joint speeds stays within a chosen bound, no joint passes a limit, and the
tool follows the command as closely as the limits allow.
"""

import numpy as np

import supple as sp

DT = 0.004  # [s]
MAX_NORM = 1.5  # [rad/s]


def stick(time):
    """Return the commanded twist [v; w] of the tool, in world axes [m/s, rad/s]."""
    ramp = min(1.0, 2 * time)
    return ramp * np.array([0.05, 0, 0, -0.4, 0, 0])


def drive(robot, q, mode):
    """Drive for four seconds and print a line every 0.4 s; return the report of the step at 2 s."""
    servo = sp.Servo(
        robot,
        dt=DT,
        step=sp.DLS(sp.damping.Optimal(MAX_NORM)),
        limits=sp.Limits.for_robot(robot, max_acceleration=20.0, max_norm=MAX_NORM, mode=mode),
    )
    print(f"\nmode={mode!r}\n   t [s]   q5 [deg]  sigma_min  |qd| [rad/s]  tool speed kept  status")
    for k in range(1000):
        twist = stick(k * DT)
        servo(q, twist, out=q)  # in place: nothing is allocated
        if k % 100 == 99:
            done = robot.jacobian(q) @ servo.qd
            kept = done @ twist / (twist @ twist)
            print(
                f"{(k + 1) * DT:8.1f} {np.degrees(q[4]):10.1f} {servo.sigma_min:10.4f} "
                f"{np.linalg.norm(servo.qd):13.3f} {kept:16.0%}  {servo.status.name.lower()}"
            )
        if k == 499:
            report = servo.explain()
    return report


def main():
    """Compare the two limit modes from the same start."""
    robot = sp.load("ur5e")
    start = np.radians([0, -70, 100, -120, -40, 0])
    for mode in ("exact", "scale"):
        report = drive(robot, start.copy(), mode)
    print("\nAt 2 s:")
    print(report)


if __name__ == "__main__":
    main()
