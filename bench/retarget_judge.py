"""The evaluation of holosoma-retargeting, for `retarget.py`, in its own process.

    python bench/retarget_judge.py FOLDER

FOLDER has the unpacked wheel. Each line of the input asks for one sequence, by its name and a
file with "qpos" and "cost". An answer has the results of holosoma's own evaluation, with its
tolerances (1 cm of penetration, 1 cm of sliding per frame) and with those of this benchmark (1 mm).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

STRICT = 1e-3  # tolerance of this benchmark [m]


def main(folder: Path) -> None:
    """Answer questions until the input ends."""
    package = folder / "holosoma_retargeting"
    os.chdir(package)
    sys.path.insert(0, str(folder))
    for unused in ("smplx", "torch"):  # imported for motions in other formats
        if find_spec(unused) is None:
            sys.modules[unused] = ModuleType(unused)
    try:
        import igl  # noqa: F401
        from holosoma_retargeting.config_types.data_type import MotionDataConfig
        from holosoma_retargeting.config_types.robot import RobotConfig
        from holosoma_retargeting.evaluation import eval_retargeting as judge
    except ImportError as error:
        print(json.dumps({"missing": f"{error}"}), flush=True)
        return
    robot = RobotConfig("g1", robot_urdf_file="models/g1/g1_29dof_spherehand.urdf")
    data = MotionDataConfig(data_format="mocap", robot_type="g1")
    tolerances: dict[str, float] = {}
    make = judge.RetargetingEvaluator.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        vars(self).update(tolerances)

    judge.RetargetingEvaluator.__init__ = made
    for line in sys.stdin:
        question = json.loads(line)
        if question["ask"] == "about":
            print(json.dumps({"versions": {"mujoco": version("mujoco")}, "note": ""}), flush=True)
            continue
        answer = {}
        for name in ("own", "strict"):
            tolerances.clear()
            if name == "strict":
                tolerances |= {"penetration_tolerance": STRICT, "sliding_threshold": STRICT}
            with contextlib.redirect_stdout(io.StringIO()):
                _, found = judge._evaluate_single_task(
                    question["sequence"],
                    question["file"],
                    "demo_data/climb",
                    vars(robot),
                    vars(data),
                    "multi_boxes",
                    "robot_terrain",
                )
            depths, slides = found["penetration_max_depths"], found["max_toe_sliding_velocities"]
            answer[name] = {
                "penetrating": found["penetration_duration"],
                "deepest": max(depths, default=0.0),
                "sliding": float(found["sliding_duration"]),
                "fastest": float(max(slides, default=0.0)),
            }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
