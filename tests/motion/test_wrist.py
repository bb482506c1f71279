"""`SphericalWrist`: separate steps for arm and wrist, compared with the full step."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple import DLS, Linearization, damping
from supple.damping.scale import Scale
from supple.steps import Pseudoinverse, SphericalWrist, WeightedDLS

Array = np.ndarray
SPHERICAL = ["puma560", "puma560_mk", "stanford", "iiwa14"]


@pytest.mark.parametrize("name", SPHERICAL)
def test_the_spherical_wrist_of_an_arm_is_detected(name: str) -> None:
    robot = supple.load(name)
    assert isinstance(SphericalWrist.for_robot(robot), SphericalWrist)
    SphericalWrist.for_robot(robot.with_base(np.diag([-1.0, -1, 1, 1]) + np.eye(4, k=3)))


@pytest.mark.parametrize(("name", "missed"), [("ur5e", 0.01), ("panda", 0.01)])
def test_the_error_about_a_wrist_that_is_not_spherical_states_its_offset(
    name: str, missed: float
) -> None:
    with pytest.raises(supple.errors.InputError, match=r"by \d\S* m") as caught:
        SphericalWrist.for_robot(supple.load(name))
    distance = float(str(caught.value).split(" by ")[-1].split(" m")[0])
    assert missed < distance < 0.2


@pytest.mark.parametrize("name", ["planar2", "planar3", "y"])
def test_planar_and_branched_robots_are_refused_as_they_have_no_spherical_wrist(name: str) -> None:
    with pytest.raises(supple.errors.InputError, match="given"):
        SphericalWrist.for_robot(supple.load(name))


@pytest.mark.parametrize("axes", ["world", "body"])
@pytest.mark.parametrize("name", ["puma560", "puma560_mk", "stanford"])
def test_the_undamped_wrist_step_is_that_of_the_inverse_of_j(name: str, axes: str) -> None:
    robot, rng = supple.load(name), np.random.default_rng(1)
    step = SphericalWrist.for_robot(robot, arm=damping.Constant(0.0), wrist=damping.Constant(0.0))
    looked = 0
    for q in robot.random(50, seed=rng):
        lin = Linearization(robot.jacobian(q, axes=axes), rng.normal(size=6))
        if lin.condition < 100:
            looked += 1
            np.testing.assert_allclose(step(lin), Pseudoinverse()(lin), rtol=1e-7, atol=1e-9)
    assert looked > 10


@pytest.mark.parametrize("name", SPHERICAL)
def test_wrist_steps_are_finite_and_arm_speeds_bounded_at_singularities(name: str) -> None:
    robot, rng = supple.load(name), np.random.default_rng(2)
    step = SphericalWrist.for_robot(robot, arm=damping.Constant(0.01), wrist=damping.Constant(0.04))
    folded = np.zeros(robot.dof)
    for q in (folded, np.full(robot.dof, np.pi / 2), *robot.random(20, seed=rng)):
        e = rng.normal(size=6)
        dq = step(Linearization(robot.jacobian(q), e))
        assert np.isfinite(dq).all()
        # 0.5 m is longer than the distance from wrist to tool.
        far = np.linalg.norm(e[:3]) + 0.5 * np.linalg.norm(e[3:])
        assert np.linalg.norm(dq[:-3]) <= far / 0.2
    no_motion = step(Linearization(np.zeros((6, 6)), np.ones(6)))
    assert not no_motion.any()


def test_the_damped_wrist_step_tends_to_the_full_step_as_damping_decreases() -> None:
    """Lengths are in units of the reach, as in Wampler's paper, which states that both steps are
    "approximately the same for α >= 0.1". Here, they differ by more than 10 % for α >= 0.1.
    """
    robot = supple.load("puma560")
    reach = Scale.for_robot(robot).reach
    weight = np.r_[np.full(3, reach**-2), np.ones(3)]
    rng, medians = np.random.default_rng(3), []
    configurations = robot.random(200, seed=rng)
    tasks = rng.normal(size=(200, 6)) * np.sqrt(1 / weight)
    for alpha in (0.01, 0.1, 0.5):
        parts = SphericalWrist.for_robot(
            robot, arm=damping.Constant((alpha * reach) ** 2), wrist=damping.Constant(alpha**2)
        )
        whole = WeightedDLS(damping.Constant(alpha**2), weight)
        off = []
        for q, e in zip(configurations, tasks, strict=True):
            lin = Linearization(robot.jacobian(q), e)
            exact = whole(lin)
            off.append(np.linalg.norm(parts(lin) - exact) / np.linalg.norm(exact))
        medians.append(float(np.median(off)))
    print("median differences at 0.01, 0.1, 0.5:", medians)
    assert medians[0] < 0.1 < medians[1] < medians[2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SphericalWrist(0.1, damping.Constant(1.0)),  # type: ignore[arg-type]
        lambda: SphericalWrist(damping.Constant(1.0), damping.Constant(1.0))(
            Linearization(np.ones((3, 6)), np.ones(3))
        ),
    ],
)
def test_wrist_steps_refuse_bad_input(make: object) -> None:
    with pytest.raises(supple.errors.InputError, match="given"):
        make()  # type: ignore[operator]


def test_weighted_dls_equals_dls_with_scaled_rows() -> None:
    """The weights are the squares of the scales."""
    robot = supple.load("puma560")
    J, e = robot.jacobian(robot.random(seed=4)), np.arange(6.0)
    scale = np.r_[np.full(3, 0.5), np.ones(3)]
    scaled = DLS(damping.Constant(0.01))(Linearization(scale[:, None] * J, scale * e))
    weighted = WeightedDLS(damping.Constant(0.01), scale**2)(Linearization(J, e))
    np.testing.assert_allclose(weighted, scaled, rtol=1e-9)
