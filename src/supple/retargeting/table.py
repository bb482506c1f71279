"""Tables of GMR, which assign bodies of a human to the frames of a robot that follow them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from supple._arrays.checks import number
from supple.errors import InputError, join_names
from supple.kinematics import Robot
from supple.motion.linearization import Array
from supple.poses import pose
from supple.retargeting.humanoid import Humanoid
from supple.retargeting.mapping import FOOT_WEIGHT, ROTATION_WEIGHT, Follow
from supple.retargeting.motion import HumanMotion


@dataclass(frozen=True, eq=False)
class TableMapping:
    """A mapping by a table of GMR: frames follow poses of bodies, scaled about the root.

        position:  scale root + scale_b (x_b - root) + R p_offset,    R = R_b R_offset

    Attributes:
        humanoid: The limbs of the robot.
        follows: The frames that follow.
        bodies: Names of the human's bodies, in the order of `follows`.
        scales: Scale of each of these bodies about the root.
        offsets: Position and rotation offsets (k, 4, 4) in the axes of the body [m].
        root: Name of the human's root.
        scale: Scale of the root.
        ground: Height of the ground in the motion [m].
    """

    humanoid: Humanoid
    follows: tuple[Follow, ...]
    scales: Array
    offsets: Array
    root: str
    scale: float
    ground: float = 0.0

    @classmethod
    def load(
        cls, robot: Robot | Humanoid, file: str | os.PathLike[str], *, height: float | None = None
    ) -> TableMapping:
        """Read a table of GMR: {"human_scale_table": ..., "ik_match_table2": {frame: [body, ...]}}.

        Each row is [body, position weight, rotation weight, position offset, quaternion wxyz].

        Args:
            robot: The robot.
            file: The JSON file.
            height: Height of the human [m]; by default the height that the table assumes.

        Raises:
            InputError: The file is not such a table, or names a frame that the robot lacks.
        """
        humanoid = robot if isinstance(robot, Humanoid) else Humanoid.of(robot)
        path = Path(file)
        try:
            read = json.loads(path.read_text())
            rows = {**read.get("ik_match_table1", {}), **read["ik_match_table2"]}
            root, table = str(read["human_root_name"]), read["human_scale_table"]
            assumed = float(read.get("human_height_assumption", 1.8))
            ratio = 1.0 if height is None else number(height, "height", above=0) / assumed
            follows, scales, offsets = [], [], []
            for frame, (body, position, rotation, p, wxyz) in rows.items():
                if not float(position) + float(rotation) > 0:
                    continue
                if frame not in humanoid.robot.frames:
                    raise InputError(
                        f"{path.name} names a frame {frame!r} that {humanoid.robot.name} does not "
                        f"have; available: {join_names(humanoid.robot.frames)}"
                    )
                follows.append(Follow(frame, str(body), float(position), float(rotation)))
                scales.append(ratio * float(table.get(body, table[root])))
                offsets.append(pose(p, wxyz=wxyz))
        except InputError:
            raise
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path.name} is not a table of GMR: {error!r}") from error
        if not follows:
            raise InputError(f"{path.name} has no row with a weight above 0")
        follows = _in_meters(humanoid, follows)
        base = ratio * float(table[root])
        ground = float(read.get("ground_height", 0.0))
        return cls(
            humanoid, tuple(follows), np.array(scales), np.array(offsets), root, base, ground
        )

    def check(self, motion: HumanMotion) -> None:
        """Raise an error if the motion lacks rotations, or a body of the table."""
        missing = [
            name
            for name in (self.root, *(follow.body for follow in self.follows))
            if name not in motion.names
        ]
        if missing:
            raise InputError(
                f"the motion has no {join_names(sorted(set(missing)))}; available: "
                f"{join_names(motion.names)}"
            )
        if motion.rotations is None:
            raise InputError("a table of GMR needs a motion with rotations; given: positions only")

    def feet(self, motion: HumanMotion) -> Array:
        """Return the bodies that both feet follow (T, 2, points, 3) [m]."""
        names = {follow.frame: follow.body for follow in self.follows}
        own = []
        for leg in self.humanoid.legs:
            if leg.end not in names:
                raise InputError(
                    f"the table has no row for the foot {leg.end!r}; available: {join_names(names)}"
                )
            own.append(motion.positions[:, [motion.names.index(names[leg.end])]])
        return np.asarray(np.stack(own, axis=1))

    def targets(self, motion: HumanMotion) -> Array:
        """Return the pose of each frame that follows, at each frame of a motion (T, k, 4, 4)."""
        assert motion.rotations is not None
        root = motion.positions[:, [motion.names.index(self.root)]]
        which = [motion.names.index(follow.body) for follow in self.follows]
        made = np.zeros((len(motion), len(which), 4, 4))
        made[..., 3, 3] = 1.0
        R = motion.rotations[:, which] @ self.offsets[:, :3, :3]
        away = motion.positions[:, which] - root
        made[..., :3, 3] = self.scale * root + self.scales[:, None] * away
        made[..., :3, 3] += (R @ self.offsets[:, :3, 3:])[..., 0] - [0, 0, self.ground]
        made[..., :3, :3] = R
        return made


def _in_meters(humanoid: Humanoid, follows: list[Follow]) -> list[Follow]:
    """Scale GMR's weights, which are per meter and about 10 to 100: the largest becomes 1."""
    length = sum(humanoid.length(humanoid.legs[0]))
    most = max(max(follow.position, follow.rotation) for follow in follows)
    feet = {leg.end for leg in humanoid.legs}
    made = []
    for each in follows:
        position, rotation = (each.position * length / most, each.rotation / most)
        if each.frame in feet:
            position, rotation = FOOT_WEIGHT, FOOT_WEIGHT * ROTATION_WEIGHT
        made.append(replace(each, position=position, rotation=rotation))
    return made
