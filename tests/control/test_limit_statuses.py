"""A status names a limit only if that limit is finite and acts on the step.

SUPPLE_MOTIONS sets the number of random motions.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import generated
from supple import DLS, Limits, Servo, StepStatus, damping

MOTIONS = int(os.environ.get("SUPPLE_MOTIONS", "24"))
MODES = ("exact", "scale", "halt")
INF = np.inf


@pytest.mark.parametrize("seed", generated.seeds(MOTIONS))
def test_a_status_names_no_infinite_limit(seed: int) -> None:
    rng = np.random.default_rng((5, seed))
    arm = generated.robot(rng, joints=int(rng.integers(2, 9)), size=1.0)
    mode = MODES[seed % 3]
    finite = {name: bool(rng.random() < 0.5) for name in ("position", "speed", "norm")}
    finite["acceleration"] = bool(rng.random() < 0.7)
    finite["jerk"] = bool(rng.random() < 0.3)
    ends = (None, None) if finite["position"] else (-INF, INF)
    limits = Limits.for_robot(
        arm,
        lower=ends[0],
        upper=ends[1],
        max_speed=0.5 if finite["speed"] else INF,
        max_acceleration=5.0 if finite["acceleration"] else INF,
        max_jerk=100.0 if finite["jerk"] else INF,
        max_norm=0.8 if finite["norm"] else INF,
        mode=mode,  # type: ignore[arg-type]
    )
    step = (None, DLS(damping.Constant(0.01)))[int(rng.integers(2))]
    servo = Servo(arm, dt=0.01, limits=limits, step=step)
    named = {
        StepStatus.POSITION_LIMIT: finite["position"]
        and bool(np.isfinite([arm.lower, arm.upper]).any()),
        StepStatus.SPEED_LIMIT: finite["speed"],
        StepStatus.ACCELERATION_LIMIT: finite["acceleration"],
        StepStatus.JERK_LIMIT: finite["jerk"],
        StepStatus.NORM_LIMIT: finite["norm"],
        StepStatus.HALTING: mode == "halt",
        StepStatus.DIRECTION_LOST: mode != "exact",
    }
    absent = StepStatus(sum(status for status, exists in named.items() if not exists))
    q = generated.configurations(arm, 1, rng)[0]
    sizes = [len(servo.tasks), 6]
    for k in range(80):
        if k % 20 == 0:
            twists = rng.normal(size=sizes) * 10 ** rng.uniform(-1, 1)
        q = servo(q, list(twists) if len(twists) > 1 else twists[0])
        status = servo.status
        assert not status & absent, (k, status)
        if StepStatus.NORM_LIMIT in status:
            assert np.linalg.norm(servo.qd) <= 0.8 * (1 + 1e-9)
        if servo._held and servo._begun:
            assert status, "a step that limits changed has a cause"
