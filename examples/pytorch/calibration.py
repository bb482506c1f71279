"""Calibrate a tool and the zeros of the joints from measured poses, by gradients through fk."""

import torch

import supple as sp
import supple.torch

torch.manual_seed(0)
robot = sp.load("panda")
double = {"dtype": torch.float64}


def displacement(x: torch.Tensor) -> torch.Tensor:
    """Return the pose (..., 4, 4) of a twist [v; w] (..., 6): its matrix exponential."""
    v, (a, b, c) = x[..., :3], x[..., 3:].unbind(-1)
    o = torch.zeros_like(a)
    rows = [o, -c, b, v[..., 0], c, o, -a, v[..., 1], -b, a, o, v[..., 2], o, o, o, o]
    return torch.linalg.matrix_exp(torch.stack(rows, dim=-1).reshape(*x.shape[:-1], 4, 4))


def measured(q: torch.Tensor, zeros: torch.Tensor, tool: torch.Tensor) -> torch.Tensor:
    """Return the poses of a tool on a robot whose joint angles are the readings q plus `zeros`."""
    return sp.torch.fk(robot, q + zeros) @ displacement(tool)


# The angles that the robot reads, and the poses that a camera sees. The zeros of the first and
# the last joint are not calibrated, as a change of base or tool has the same effect.
share = torch.rand(100, robot.nq, **double)
lower, upper = torch.tensor(robot.lower), torch.tensor(robot.upper)
q = lower + share * (upper - lower)
inner = torch.tensor([0, 1, 1, 1, 1, 1, 0], **double)
true_zeros = 0.02 * inner * torch.randn(robot.nq, **double)
true_tool = torch.tensor([0.01, -0.02, 0.12, 0.05, 0.02, -0.1], **double)
T = measured(q, true_zeros, true_tool)
T[:, :3, 3] += 1e-4 * torch.randn(100, 3, **double)

zeros = torch.zeros(robot.nq, **double, requires_grad=True)
tool = torch.zeros(6, **double, requires_grad=True)
fit = torch.optim.LBFGS([zeros, tool], max_iter=60, line_search_fn="strong_wolfe")


def loss() -> torch.Tensor:
    """Return the mean squared error of the poses, with its gradient."""
    fit.zero_grad()
    error = ((measured(q, inner * zeros, tool) - T) ** 2).mean()
    error.backward()
    return error


fit.step(loss)
print("error of the joints' zeros [rad]:", (inner * zeros - true_zeros).abs().max().item())
print("error of the tool [m, rad]:      ", (tool - true_tool).abs().max().item())
assert (inner * zeros - true_zeros).abs().max() < 1e-3
