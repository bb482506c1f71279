"""An end-effector controller for 4,096 simulated arms, in the shape of ManiSkill's controllers.

An action (N, 6) in [-1, 1] moves the target of each end effector; inverse kinematics turns this
target into targets of the joints, near the joints' present positions.
"""

import time

import torch

import supple as sp
import supple.torch


class EndEffectorController:
    """Controls the poses of end effectors by displacements in the axes of the world.

    Args:
        robot: The arm.
        translation: Displacement for an action of 1 [m].
        rotation: Rotation for an action of 1 [rad].
    """

    def __init__(self, robot: sp.Robot, translation: float = 0.02, rotation: float = 0.1) -> None:
        self.robot = robot
        # One seed suffices: if there is no solution near the present position, the arm waits.
        self.solver = sp.Solver(robot, prefer="nearest", max_seeds=1)
        self.scale = torch.tensor([translation] * 3 + [rotation] * 3)

    def reset(self, q: torch.Tensor) -> None:
        """Start at the positions of the joints q (N, n)."""
        self.pose, self.target = sp.torch.fk(self.robot, q), q

    def set_action(self, action: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """Return targets of the joints (N, n) for actions (N, 6) at positions q (N, n)."""
        x = self.scale * action.clamp(-1, 1)
        zero = torch.zeros_like(x[:, 0])
        w = torch.stack(
            [zero, -x[:, 5], x[:, 4], x[:, 5], zero, -x[:, 3], -x[:, 4], x[:, 3], zero], dim=-1
        )
        moved = self.pose.clone()
        moved[:, :3, :3] = torch.linalg.matrix_exp(w.reshape(-1, 3, 3)) @ moved[:, :3, :3]
        moved[:, :3, 3] += x[:, :3]
        found, success = sp.torch.solve(self.solver, moved, q)
        self.target = torch.where(success[:, None], found, self.target)
        self.pose = torch.where(success[:, None, None], moved, self.pose)
        return self.target


torch.manual_seed(0)
robot = sp.load("panda")
controller = EndEffectorController(robot)
q = torch.tensor([0.0, 0.4, 0.0, -1.8, 0.0, 2.2, 0.8]).repeat(4096, 1)
q += 0.1 * torch.randn_like(q)
controller.reset(q)
begin = time.perf_counter()
for _ in range(10):
    action = 2 * torch.rand(4096, 6) - 1
    q = q + 0.8 * (controller.set_action(action, q) - q)  # a simulator would move the arms
took = time.perf_counter() - begin
error = sp.torch.fk(robot, controller.target)[:, :3, 3] - controller.pose[:, :3, 3]
print(f"{1e3 * took / 10:.1f} ms for a step of 4,096 arms; largest error {error.abs().max():.1e} m")
assert error.abs().max() < 1e-4
