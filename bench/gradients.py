"""Kinematics, gradients and inverse kinematics of a Panda in PyTorch: supple, pytorch_kinematics.

    python bench/gradients.py            # writes results/gradients.MACHINE.md; needs peers-torch

Both run on one core, in float64, on the same URDF and the same configurations.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from typing import Any

import pytorch_kinematics as pk
import torch

import supple
import supple.torch
from measure import PANDA, interleaved, medians, one_core, provenance, write

COUNT, TARGETS, ROUNDS = 10_000, 500, 7
TIP = "panda_hand"


def main() -> None:
    """Measure and write the table."""
    one_core()
    torch.set_num_threads(1)
    robot = supple.urdf(PANDA).with_tips(TIP)
    keep = [name for name in robot.joint_names if "finger" in name]
    robot = robot.freeze(keep) if keep else robot
    with contextlib.redirect_stderr(io.StringIO()):
        chain = pk.build_serial_chain_from_urdf(PANDA.read_bytes(), TIP).to(dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    lower, upper = torch.tensor(robot.lower), torch.tensor(robot.upper)

    def drawn(count: int) -> torch.Tensor:
        share = torch.rand(count, robot.nq, generator=generator, dtype=torch.float64)
        return lower + share * (upper - lower)

    q, aimed = drawn(COUNT), drawn(TARGETS)
    T = supple.torch.fk(robot, aimed)
    there = chain.forward_kinematics(aimed).get_matrix()
    # pytorch_kinematics reads the lengths and angles of a file in float32.
    assert (there - T).abs().max() < 1e-5, "the libraries disagree about the robot"
    solver = supple.Solver(robot, position_tolerance=1e-4, rotation_tolerance=1e-3, threads=1)
    search = pk.PseudoInverseIK(
        chain,
        pos_tolerance=1e-4,
        rot_tolerance=1e-3,
        num_retries=10,
        joint_limits=torch.stack([lower, upper], dim=1),
        max_iterations=100,
        early_stopping_any_converged=True,
        lr=0.2,
    )

    def timed(run: Callable[[], Any]) -> Callable[[], float]:
        def once() -> float:
            begin = time.perf_counter()
            run()
            return time.perf_counter() - begin

        return once

    def backward(forward: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Any]:
        def run() -> None:
            x = q.clone().requires_grad_()
            forward(x).square().sum().backward()

        return run

    def solve_backward() -> None:
        target = T.clone().requires_grad_()
        supple.torch.solve(solver, target)[0].sum().backward()

    def theirs(x: torch.Tensor) -> torch.Tensor:
        return chain.forward_kinematics(x).get_matrix()

    def ours(x: torch.Tensor) -> torch.Tensor:
        return supple.torch.fk(robot, x)

    quick = {
        "fk": (timed(lambda: ours(q)), timed(lambda: theirs(q))),
        "fk and its gradient": (timed(backward(ours)), timed(backward(theirs))),
        "Jacobian": (
            timed(lambda: supple.torch.jacobian(robot, q)),
            timed(lambda: chain.jacobian(q)),
        ),
    }
    contenders = {
        f"{name} {k}": run
        for name, both in quick.items()
        for k, run in zip("ab", both, strict=True)
    }
    found = medians(interleaved(contenders, ROUNDS))
    each = {name: 1e6 * seconds / COUNT for name, seconds in found.items()}
    rows = [f"| {name} | {each[f'{name} a']:.2f} | {each[f'{name} b']:.2f} |" for name in quick]
    solving = {
        "a": timed(lambda: supple.torch.solve(solver, T)),
        "b": timed(solve_backward),
        "c": timed(lambda: search.solve(pk.Transform3d(matrix=T))),
    }
    times = medians(interleaved(solving, 3))
    a, b, c = (1e6 * times[name] / TARGETS for name in "abc")
    met = float(supple.torch.solve(solver, T)[1].double().mean())
    other = float(search.solve(pk.Transform3d(matrix=T)).converged_any.double().mean())
    rows += [
        f"| inverse kinematics, random targets | {a:.1f} | {c:.0f} |",
        f"| solved | {met:.1%} | {other:.1%} |",
        f"| inverse kinematics and its gradient | {b:.1f} | not available |",
    ]
    text = "\n".join(
        [
            "# Gradients in PyTorch",
            "",
            provenance(["torch", "pytorch_kinematics", "supple"]),
            "",
            f"Panda, one core, float64, µs each: kinematics of {COUNT:,} configurations, inverse",
            f"kinematics of {TARGETS} random reachable targets to 1e-4 m and 1e-3 rad.",
            "pytorch_kinematics: `PseudoInverseIK` with 10 starts of up to 100 iterations.",
            "",
            "| | supple | pytorch_kinematics |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
    print(text)
    write("gradients", text)


if __name__ == "__main__":
    main()
