"""Train a small network through inverse kinematics: it learns where to hold a tool.

The network sees a point and chooses the pose of the flange. The loss is a function of the joint
angles: the tip of a stick must touch the point while the joints stay near the middle of their
ranges.
"""

import torch

import supple as sp
import supple.torch

torch.manual_seed(0)
robot = sp.load("panda")
solver = sp.Solver(robot)
middle = torch.as_tensor((robot.lower + robot.upper) / 2, dtype=torch.float32)
stick = torch.tensor([0.0, 0.0, 0.15, 1.0])


def pose(six: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return poses whose axes are two vectors made orthonormal, at positions."""
    x = torch.nn.functional.normalize(six[..., :3], dim=-1)
    y = six[..., 3:] - (six[..., 3:] * x).sum(-1, keepdim=True) * x
    y = torch.nn.functional.normalize(y, dim=-1)
    top = torch.stack([x, y, torch.linalg.cross(x, y), at], dim=-1)
    last = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(*top.shape[:-2], 1, 4)
    return torch.cat([top, last], dim=-2)


network = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.Tanh(), torch.nn.Linear(64, 9))
train = torch.optim.Adam(network.parameters(), lr=5e-3)
down = torch.tensor([1.0, 0.0, 0.0, 0.0, -1.0, 0.0])
history = []
for _ in range(150):
    points = torch.rand(64, 3) * torch.tensor([0.3, 0.6, 0.3]) + torch.tensor([0.35, -0.3, 0.2])
    out = network(points)
    above = points + torch.tensor([0.0, 0.0, 0.15])
    q, success = sp.torch.solve(solver, pose(down + out[:, :6], above + 0.2 * out[:, 6:]), middle)
    tip = (sp.torch.fk(robot, q) @ stick)[:, :3]
    touch = ((tip - points) ** 2).sum(-1)
    strain = ((q - middle) ** 2).sum(-1)
    loss = ((touch + 0.002 * strain) * success).sum() / success.sum()
    train.zero_grad()
    loss.backward()
    train.step()
    history.append(loss.item())
first, last = sum(history[:10]) / 10, sum(history[-10:]) / 10
print(f"loss {first:.4f} -> {last:.4f}; {success.float().mean().item():.0%} of the poses reached")
assert last < 0.7 * first
