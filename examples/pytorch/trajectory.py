"""A differentiable trajectory: shape a path of the hand by a cost of the joints.

The hand moves between two points on a path that may bend. The example bends the path so that the
joints accelerate little and the forearm keeps its distance from a ball.
"""

import torch

import supple as sp
import supple.torch

robot = sp.load("ur5e")
solver = sp.Solver(robot)
q_start = torch.tensor([-0.5, -1.4, 1.8, -1.9, -1.5, 0.2], dtype=torch.float64)
begin = sp.torch.fk(robot, q_start)
shift = torch.tensor([0.1, 0.5, 0.1], dtype=torch.float64)
share = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]
waves = torch.sin(torch.pi * share * torch.arange(1, 4))  # zero at both ends
forearm = robot.frames[4]


def poses(bends: torch.Tensor) -> torch.Tensor:
    """Return the poses (20, 4, 4) of a straight line, bent by waves of three amplitudes (3, 3)."""
    places = begin[:3, 3] + share * shift + waves @ bends
    top = torch.cat([begin[:3, :3].repeat(20, 1, 1), places[..., None]], dim=-1)
    return torch.cat([top, begin[3:].repeat(20, 1, 1)], dim=-2)


# Each pose starts at the solution on the straight line, so that the branch stays the same.
bends = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
seeds = [q_start]
for T in poses(bends.detach()):
    seeds.append(sp.torch.solve(solver, T, seeds[-1])[0])
q0 = torch.stack(seeds[1:])
ball = sp.torch.fk(robot, q0[10], forearm)[:3, 3] + torch.tensor([0.0, 0.0, 0.08])
radius = 0.12


def cost(q: torch.Tensor) -> torch.Tensor:
    """Return the cost of joints (20, 6) along the path."""
    acceleration = (q[2:] - 2 * q[1:-1] + q[:-2]) * 19**2
    away = (sp.torch.fk(robot, q, forearm)[:, :3, 3] - ball).norm(dim=-1)
    return (acceleration**2).mean() + 1e4 * (torch.relu(radius - away) ** 2).sum()


fit = torch.optim.Adam([bends], lr=2e-3)
costs = []
for _ in range(100):
    q, success = sp.torch.solve(solver, poses(bends), q0)
    loss = cost(q)
    fit.zero_grad()
    loss.backward()
    fit.step()
    costs.append(loss.item())
print(f"cost {costs[0]:.2f} -> {costs[-1]:.2f}, all poses reached: {bool(success.all())}")
assert costs[-1] < 0.5 * costs[0]
assert success.all()
