"""A tracked hand drives an arm: the hand trembles, is lost, jumps, and lets go to reach farther.

A `PoseFilter` turns the samples of a tracker into targets that never jump; a `Servo` follows them
within the limits of the joints. In a program, the samples come from a headset, a phone or a camera,
and `t` is `time.monotonic()`.
"""

import numpy as np

import supple as sp

DT = 0.005  # time step of the control loop [s]
RATE = 90  # sampling rate of the tracker [1/s]
SECONDS = 6.0


def hand_at(t, rng):
    """Return a sample of the tracker at time t [s], or None while the tracker loses the hand."""
    if 1.0 < t < 1.5:
        return None
    place = np.array([0.4, 0.0, 1.2]) + 0.15 * np.array([np.sin(2 * t), np.sin(t), np.cos(t) - 1])
    place += 0.001 * np.sin(2 * np.pi * 9 * t)  # a tremor
    if t > 3.0:
        place += [0.0, 0.5, 0.0]  # from now on, the tracker reports places with an offset
    if rng.random() < 0.02:
        place = np.zeros(3)  # a glitch
    return sp.pose(place, rotation_vector=[0.0, 0.3 * np.sin(t), 0.0])


def clutch(t):
    """Return whether the button of the controller is pressed at time t [s]."""
    return not 4.0 < t < 4.5


def main():
    """Drive a Panda without and with smoothing; print how target and joints move."""
    robot = sp.load("panda")
    q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    for smoothing in (0.0, 0.2):
        rng = np.random.default_rng(0)
        hand = sp.poses.PoseFilter(smoothing=smoothing)
        servo = sp.Servo(robot, dt=DT)
        now, samples, dropped = q, 0, 0
        targets, speeds = [], []
        for k in range(int(SECONDS / DT)):
            t = k * DT
            if clutch(t) and hand.state == "released":
                hand.engage(robot.fk(now), t)
            elif not clutch(t):
                hand.release()
            while samples <= t * RATE:
                sample = hand_at(samples / RATE, rng)
                followed = hand.put(samples / RATE, sample)
                dropped += not followed and sample is not None and clutch(t)
                samples += 1
            targets.append(hand.at(t)[:3, 3])
            now = servo(now, target=hand.at(t))
            speeds.append(np.abs(servo.qd) / robot.max_speed)
        steps = np.linalg.norm(np.diff(targets, axis=0), axis=1) / DT
        shake = np.linalg.norm(np.diff(targets, 2, axis=0), axis=1) / DT**2
        print(
            f"smoothing {smoothing:.1f} s: {dropped} of {samples} samples dropped, target at most "
            f"{steps.max():.2f} m/s, shaking by {np.median(shake):.1f} m/s², joints at most "
            f"{np.max(speeds):.0%} of their speed"
        )


if __name__ == "__main__":
    main()
