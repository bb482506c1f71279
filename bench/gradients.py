"""Kinematics, gradients and inverse kinematics of a Panda, for learning: supple and others.

    python bench/gradients.py            # writes results/gradients.MACHINE.md; needs peers-torch

pytorch_kinematics runs in the same process; PyRoki and Newton (bench/gradients_peers.py) in an
environment of their own, peers-learning. All run on one core, on the same URDF, configurations and
targets. Times are CPU times, which depend less on other work.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytorch_kinematics as pk
import torch

import supple
import supple.torch
from measure import PANDA, interleaved, medians, one_core, provenance, write
from worker import Worker

COUNT, TARGETS, ROUNDS = 10_000, 200, 7
BATCHES = {1: 200, 100: 40, 1000: 8, 10_000: 1}  # sizes of batches, and calls in a round
TIP = "panda_hand"
POSITION, ROTATION = 1e-4, 1e-3  # tolerances [m, rad]


def timed(run: Callable[[], Any], calls: int = 1) -> Callable[[], float]:
    """Return a function that returns the CPU time of a call."""

    def once() -> float:
        begin = time.process_time()
        for _ in range(calls):
            run()
        return (time.process_time() - begin) / calls

    return once


def kinematics(robot: supple.Robot, chain: Any, q: torch.Tensor) -> list[str]:
    """Return rows of times per configuration of a batch, for supple and pytorch_kinematics."""

    def backward(forward: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Any]:
        def run() -> None:
            x = q.clone().requires_grad_()
            forward(x).square().sum().backward()

        return run

    def theirs(x: torch.Tensor) -> torch.Tensor:
        return chain.forward_kinematics(x).get_matrix()

    def ours(x: torch.Tensor) -> torch.Tensor:
        return supple.torch.fk(robot, x)

    quick = {
        "fk": (lambda: ours(q), lambda: theirs(q)),
        "fk and its gradient": (backward(ours), backward(theirs)),
        "Jacobian": (lambda: supple.torch.jacobian(robot, q), lambda: chain.jacobian(q)),
    }
    contenders = {
        f"{name} {k}": timed(run)
        for name, both in quick.items()
        for k, run in zip("ab", both, strict=True)
    }
    found = medians(interleaved(contenders, ROUNDS))
    each = {name: 1e6 * seconds / COUNT for name, seconds in found.items()}
    return [f"| {name} | {each[f'{name} a']:.2f} | {each[f'{name} b']:.2f} |" for name in quick]


def cost_of_gradients(solver: supple.Solver, T: torch.Tensor) -> list[str]:
    """Return rows of times of `solve` and of its backward pass, for batches of several sizes."""
    rows = []
    for size, calls in BATCHES.items():
        targets = T[:size].clone().requires_grad_()
        q = supple.torch.solve(solver, targets)[0]
        bar = torch.ones_like(q)

        def forward(targets: torch.Tensor = targets) -> Any:
            return supple.torch.solve(solver, targets)

        def backward(q: Any = q, x: Any = targets, bar: Any = bar) -> Any:
            return torch.autograd.grad(q, x, bar, retain_graph=True)

        runs = {"a": timed(forward, calls), "b": timed(backward, calls)}
        found = medians(interleaved(runs, ROUNDS))
        a, b = (1e6 * found[name] for name in "ab")
        rows.append(f"| {size:,} | {a:,.0f} | {b:,.0f} | {b / a:.0%} |")
    return rows


def solved(robot: supple.Robot, q: Any, T: Any) -> float:
    """Return the share of configurations that meet their targets within the joint limits."""
    found = robot.fk(np.asarray(q, float))
    away = np.linalg.norm(found[:, :3, 3] - T[:, :3, 3], axis=-1)
    # For the angle between two rotations, 2 sin(angle / 2) is the norm of their difference over √2.
    turned = np.linalg.norm(found[:, :3, :3] - T[:, :3, :3], axis=(-2, -1)) / np.sqrt(2)
    inside = ((q >= robot.lower - 1e-6) & (q <= robot.upper + 1e-6)).all(axis=-1)
    return float(np.mean((away <= POSITION) & (turned <= ROTATION) & inside))


def solving(robot: supple.Robot, chain: Any, solver: supple.Solver, T: torch.Tensor) -> Any:
    """Return rows of times and successes of inverse kinematics, and lines about contenders."""
    lower, upper = torch.tensor(robot.lower), torch.tensor(robot.upper)
    pseudo_inverse = pk.PseudoInverseIK(
        chain,
        pos_tolerance=POSITION,
        rot_tolerance=ROTATION,
        num_retries=10,
        joint_limits=torch.stack([lower, upper], dim=1),
        max_iterations=100,
        early_stopping_any_converged=True,
        lr=0.2,
    )
    poses, results = T.numpy(), {}

    def ours() -> None:
        results["supple"] = supple.torch.solve(solver, T)[0].numpy()

    def both() -> None:
        target = T.clone().requires_grad_()
        q = supple.torch.solve(solver, target)[0]
        q.sum().backward()
        results["supple, with the gradient"] = q.detach().numpy()

    def theirs() -> None:
        found = pseudo_inverse.solve(pk.Transform3d(matrix=T))
        best = found.err_pos.add(found.err_rot).argmin(dim=1)
        results["pytorch_kinematics, 10 starts"] = found.solutions[
            torch.arange(len(T)), best
        ].numpy()

    contenders = {
        "supple": timed(ours),
        "supple, with the gradient": timed(both),
        "pytorch_kinematics, 10 starts": timed(theirs),
    }
    workers = {
        f"{label}, {seeds} seed{'s' if seeds > 1 else ''}": Worker(
            "learning", "gradients_peers.py", [name, seeds, PANDA, TIP]
        )
        for label, name, seeds in (
            ("PyRoki", "pyroki", 1),
            ("PyRoki", "pyroki", 16),
            ("Newton", "newton", 16),
        )
    }

    def asked(name: str, worker: Worker) -> Callable[[], float]:
        def run() -> float:
            answer = worker.ask(ask="solve", targets=poses.tolist())
            order = [answer["joints"].index(joint) for joint in robot.joint_names]
            results[name] = np.array(answer["q"])[:, order]
            return float(answer["seconds"])

        return run

    contenders |= {name: asked(name, each) for name, each in workers.items() if not each.missing}
    times = medians(interleaved(contenders, 3))
    rows = [
        f"| {name} | {solved(robot, results[name], poses):.1%} "
        f"| {1e6 * times[name] / len(T):,.1f} |"
        for name in contenders
    ]
    about = [f"- {name}: {each.line}" for name, each in workers.items()]
    for each in workers.values():
        each.close()
    return rows, about


def main() -> None:
    """Measure and write the tables."""
    one_core()
    torch.set_num_threads(1)
    robot = supple.urdf(PANDA).with_tips(TIP)
    keep = [name for name in robot.joint_names if "finger" in name]
    robot = robot.freeze(keep) if keep else robot
    with contextlib.redirect_stderr(io.StringIO()):
        chain = pk.build_serial_chain_from_urdf(PANDA.read_bytes(), TIP).to(dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    lower, upper = torch.tensor(robot.lower), torch.tensor(robot.upper)
    share = torch.rand(COUNT, robot.nq, generator=generator, dtype=torch.float64)
    q = lower + share * (upper - lower)
    T = supple.torch.fk(robot, q)
    there = chain.forward_kinematics(q).get_matrix()
    # pytorch_kinematics reads the lengths and angles of a file in float32.
    assert (there - T).abs().max() < 1e-5, "the libraries disagree about the robot"
    solver = supple.Solver(
        robot, position_tolerance=POSITION, rotation_tolerance=ROTATION, threads=1
    )
    rows, about = solving(robot, chain, solver, T[:TARGETS])
    text = "\n".join(
        [
            "# Gradients, and inverse kinematics for learning",
            "",
            provenance(["torch", "pytorch_kinematics", "supple"]),
            "",
            "A Panda on one core; CPU time, because other cores may be busy.",
            "",
            f"Kinematics of {COUNT:,} configurations in PyTorch, float64, µs each:",
            "",
            "| | supple | pytorch_kinematics |",
            "|---|---|---|",
            *kinematics(robot, chain, q),
            "",
            "`supple.torch.solve` of a batch of random reachable targets, and its backward pass, "
            "µs:",
            "",
            "| targets | solve | backward | share |",
            "|---:|---:|---:|---:|",
            *cost_of_gradients(solver, T),
            "",
            f"The same {TARGETS} random reachable targets to {POSITION:.0e} m and "
            f"{ROTATION:.0e} rad within the joint limits,",
            "judged by `Robot.fk` in float64:",
            "",
            "| | solved | µs for a target |",
            "|---|---:|---:|",
            *rows,
            "",
            "pytorch_kinematics: `PseudoInverseIK`, up to 100 iterations, float64. PyRoki: costs",
            "of poses and limits, weights of its basic example, `jit`, one target at a time.",
            "Newton: `IKSolver` with 50 iterations of `LM`, spread seeds and costs of limits, all",
            "targets in a batch. PyRoki and Newton work in float32, and their times are those of a",
            "second call, which compiles nothing. They are made for GPUs.",
            "",
            *about,
            "",
        ]
    )
    print(text)
    write("gradients", text)


if __name__ == "__main__":
    main()
