"""Contenders of bench/gradients.py in processes of their own: PyRoki and Newton, on a CPU.

    python bench/gradients_peers.py NAME SEEDS URDF TIP     driven by bench/worker.py

Each library solves poses from several seeds and returns, for every target, the configuration with
the smallest cost. Both libraries use float32. Times are CPU times, without compilation.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

Array = np.ndarray
Solve = Callable[[Array], Array]


def pyroki(count: int, path: str, tip: str) -> tuple[Solve, list[str]]:
    """Return a solver with the costs and weights of PyRoki's basic example, and joint names."""
    import jax
    import jax.numpy as jnp
    import jaxlie
    import jaxls
    import pyroki as pk
    import yourdfpy

    robot = pk.Robot.from_urdf(yourdfpy.URDF.load(path, load_meshes=False, mesh_dir=""))
    link = jnp.array(robot.links.names.index(tip))

    def from_seed(target: Any, seed: Any) -> tuple[Any, Any]:
        joints = robot.joint_var_cls(0)
        pose = jaxlie.SE3.from_matrix(target)
        costs = [
            pk.costs.pose_cost_analytic_jac(
                robot, joints, pose, link, pos_weight=50.0, ori_weight=10.0
            ),
            pk.costs.limit_cost(robot, joints, weight=100.0),
        ]
        found = (
            jaxls.LeastSquaresProblem(costs, [joints])
            .analyze()
            .solve(
                initial_vals=jaxls.VarValues.make([joints.with_value(seed)]),
                verbose=False,
                linear_solver="dense_cholesky",
                trust_region=jaxls.TrustRegionConfig(lambda_initial=1.0),
            )
        )
        q = found[joints]
        reached = jaxlie.SE3(robot.forward_kinematics(q)[link])
        return q, jnp.abs((pose.inverse() @ reached).log()).max()

    @jax.jit
    def one(target: Any, seeds: Any) -> Any:
        q, error = jax.vmap(from_seed, in_axes=(None, 0))(target, seeds)
        return q[jnp.argmin(error)]

    lower, upper = np.array(robot.joints.lower_limits), np.array(robot.joints.upper_limits)
    share = np.random.default_rng(0).random((count, len(lower)))
    seeds = jnp.asarray(lower + share * (upper - lower), jnp.float32)

    def solve(T: Array) -> Array:
        return np.stack([np.asarray(one(t, seeds)) for t in jnp.asarray(T, jnp.float32)])

    return solve, list(robot.joints.actuated_names)


def newton(count: int, path: str, tip: str) -> tuple[Solve, list[str]]:
    """Return Newton's solver with its default optimizer and iterations, and joint names."""
    import newton
    import warp as wp
    from newton import ik

    wp.config.quiet = True

    wp.set_device("cpu")
    builder = newton.ModelBuilder()
    builder.add_urdf(path, floating=False)
    labels = getattr(builder, "body_label", None) or builder.body_key
    link = [label.split("/")[-1] for label in labels].index(tip)
    model = builder.finalize(device="cpu")
    joints = getattr(model, "joint_label", None) or model.joint_key
    starts, ends = model.joint_q_start.numpy()[:-1], model.joint_q_start.numpy()[1:]
    names = [
        label.split("/")[-1] for label, a, b in zip(joints, starts, ends, strict=True) if b - a == 1
    ]
    kept: dict[int, Any] = {}

    def prepared(targets: int) -> Any:
        if targets not in kept:
            position = ik.IKObjectivePosition(
                link_index=link,
                link_offset=wp.vec3(0.0, 0.0, 0.0),
                target_positions=wp.zeros(targets, dtype=wp.vec3),
            )
            rotation = ik.IKObjectiveRotation(
                link_index=link,
                link_offset_rotation=wp.quat_identity(),
                target_rotations=wp.zeros(targets, dtype=wp.vec4),
            )
            limit = ik.IKObjectiveJointLimit(
                joint_limit_lower=model.joint_limit_lower,
                joint_limit_upper=model.joint_limit_upper,
                weight=10.0,
            )
            solver = ik.IKSolver(
                model,
                targets,
                [position, rotation, limit],
                jacobian_mode=ik.IKJacobianType.ANALYTIC,
                sampler=ik.IKSampler.ROBERTS,
                n_seeds=count,
            )
            q = wp.zeros((targets, model.joint_coord_count), dtype=wp.float32)
            kept[targets] = solver, position, rotation, q
        return kept[targets]

    def solve(T: Array) -> Array:
        solver, position, rotation, q = prepared(len(T))
        position.target_positions.assign(T[:, :3, 3].astype(np.float32))
        rotation.target_rotations.assign(_xyzw(T[:, :3, :3]).astype(np.float32))
        solver.step(q, q)
        return np.array(q.numpy())

    return solve, names


def _xyzw(R: Array) -> Array:
    """Return the quaternions of rotations (..., 3, 3)."""
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_matrix(R).as_quat())


def main() -> None:
    """Answer the requests of bench/gradients.py."""
    name, seeds, *place = sys.argv[1:]
    packages = {"pyroki": ["almond-pyroki", "jax"], "newton": ["newton", "warp-lang"]}[name]
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # for messages of the libraries
        try:
            solve, joints = {"pyroki": pyroki, "newton": newton}[name](int(seeds), *place)
        except ImportError as error:
            print(json.dumps({"missing": str(error)}), file=answers, flush=True)
            return
        for line in sys.stdin:
            question = json.loads(line)
            if question["ask"] == "about":
                answer: dict[str, Any] = {"versions": {each: version(each) for each in packages}}
            else:
                T = np.array(question["targets"])
                begin = time.process_time()
                q = solve(T)
                seconds = time.process_time() - begin
                answer = {"seconds": seconds, "q": q.tolist(), "joints": joints}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
