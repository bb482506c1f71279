"""The foreign functions that supple registers with XLA: layout, results, lifetimes and errors."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from floating import floating_arm, rescaled
from jax_doubles import doubles
from supple.errors import InputError

jax = pytest.importorskip("jax")
jnp = jax.numpy
sj = pytest.importorskip("supple.jax")

ROOT = Path(__file__).parents[2]
needs_ffi = pytest.mark.skipif(not hasattr(jax, "ffi"), reason="JAX has jax.ffi since 0.5.0")
# Each struct of supple, the same struct of XLA, and the fields that supple reads.
LAYOUT = {
    ("Extension", "Extension_Base"): {"size": "struct_size", "type": "type", "next": "next"},
    ("Version", "Api_Version"): {
        "size": "struct_size",
        "extensions": "extension_start",
        "major": "major_version",
        "minor": "minor_version",
    },
    ("ErrorRequest", "Error_Create_Args"): {
        "size": "struct_size",
        "extensions": "extension_start",
        "message": "message",
        "code": "errc",
    },
    ("Api", "Api"): {"version": "api_version", "create_error": "XLA_FFI_Error_Create"},
    ("Buffer", "Buffer"): {"type": "dtype", "data": "data", "rank": "rank", "dims": "dims"},
    ("Buffers", "Args"): {"count": "size", "types": "types", "values": "args"},
    ("Buffers", "Rets"): {"count": "size", "types": "types", "values": "rets"},
    ("Name", "ByteSpan"): {"begin": "ptr", "length": "len"},
    ("Scalar", "Scalar"): {"type": "dtype", "value": "value"},
    ("Attributes", "Attrs"): {
        "count": "size",
        "types": "types",
        "names": "names",
        "values": "attrs",
    },
    ("CallFrame", "CallFrame"): {
        "size": "struct_size",
        "extensions": "extension_start",
        "api": "api",
        "context": "ctx",
        "stage": "stage",
        "arguments": "args",
        "results": "rets",
        "attributes": "attrs",
    },
    ("Metadata", "Metadata"): {"version": "api_version"},
    ("MetadataExtension", "Metadata_Extension"): {"base": "extension_base", "metadata": "metadata"},
}
WHOLE = {"Extension", "Version", "ErrorRequest", "Buffer", "Buffers", "Name", "Scalar"}
CONSTANTS = {
    "execute": "ExecutionStage_EXECUTE",
    "boolean": "DataType_PRED",
    "int64": "DataType_S64",
    "float32": "DataType_F32",
    "float64": "DataType_F64",
    "invalid_argument": "Error_Code_INVALID_ARGUMENT",
    "failed_precondition": "Error_Code_FAILED_PRECONDITION",
    "internal": "Error_Code_INTERNAL",
    "metadata_extension": "Extension_Metadata",
    "buffer_value": "ArgType_BUFFER",
    "scalar_attribute": "AttrType_SCALAR",
    "major_version": "API_MAJOR",
}


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with doubles():
        yield


def callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj, "_has_foreign_functions", lambda: False)


@needs_ffi
def test_the_layout_of_the_structs_is_that_of_the_installed_jax(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("a compiler is not here")
    checks = [
        f"offsetof({mine}, {field}) == offsetof(XLA_FFI_{theirs}, {other})"
        for (mine, theirs), fields in LAYOUT.items()
        for field, other in fields.items()
    ]
    checks += [
        f"sizeof({mine}) == sizeof(XLA_FFI_{theirs})" for mine, theirs in LAYOUT if mine in WHOLE
    ]
    checks += [f"int({mine}) == int(XLA_FFI_{theirs})" for mine, theirs in CONSTANTS.items()]
    source = tmp_path / "layout.cpp"
    source.write_text(
        '#include "xla/ffi/api/c_api.h"\n#include "bindings/xla.hpp"\n'
        "using namespace supple::xla;\n" + "".join(f"static_assert({one});\n" for one in checks)
    )
    folders = [f"-I{jax.ffi.include_dir()}", f"-I{ROOT / 'src/core'}"]
    subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-w", *folders, source], check=True)


@needs_ffi
def test_the_installed_jax_calls_the_kernel_without_python() -> None:
    assert sj._has_foreign_functions()
    robot = supple.load("ur5e")
    T = jnp.asarray(robot.fk(np.zeros((2, 6))))
    for call in (
        lambda t: sj.solve(supple.Solver(robot), t),
        lambda t: sj.solve(supple.Solver(robot), t, jnp.zeros(6)),
        jax.grad(lambda t: sj.solve(supple.Solver(robot), t)[0].sum()),
    ):
        made = str(jax.make_jaxpr(call)(T))
        assert "ffi_call" in made
        assert "pure_callback" not in made


def compiled(results: Any) -> Any:
    return jax.jit(lambda: results())()


def _panda() -> supple.Robot:
    return supple.load("panda")


def _position(robot: supple.Robot) -> supple.Solver:
    return supple.Solver(robot, supple.PositionTask(robot.tips[0]))


ROBOTS: dict[str, Any] = {
    "six joints": lambda: supple.load("ur5e"),
    "a sliding joint": lambda: supple.load("stanford"),
    "a redundant arm": _panda,
    "several tips": lambda: supple.load("double_y"),
    "quaternions": floating_arm,
}
SOLVERS: dict[str, Any] = {
    "poses": supple.Solver,
    "positions": _position,
    "an order": lambda robot: supple.Solver(robot, prefer="limits"),
    "small moves": lambda robot: supple.Solver(robot, max_move=0.5),
    "a time limit": lambda robot: supple.Solver(robot, timeout=100),
}


@pytest.mark.parametrize(
    ("kind", "dtype"), [("quaternions", np.float32), *((kind, np.float64) for kind in ROBOTS)]
)
def test_foreign_functions_give_the_results_and_gradients_of_callbacks(
    kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = ROBOTS[kind]()
    rng = np.random.default_rng(0)
    q = jnp.asarray(rescaled(robot, robot.random(5, seed=1)).reshape(5, 1, -1), dtype)
    k = (len(robot.tips),) if len(robot.tips) > 1 else ()
    x = jnp.asarray(rng.normal(size=(5, 1, *k, 6)), dtype)
    weight = jnp.asarray(rng.normal(size=(5, 1, robot.nv)), dtype)

    def results() -> Any:
        return (
            sj.fk(robot, q),
            sj.jacobian(robot, q),
            sj.step(robot, q, x, lambda2=0.1),
            jax.grad(lambda q: (sj.fk(robot, q) ** 3).sum())(q),
            jax.grad(lambda q: (sj.jacobian(robot, q) ** 3).sum())(q),
            *jax.grad(
                lambda q, x: (weight * sj.step(robot, q, x, lambda2=0.1)).sum(), argnums=(0, 1)
            )(q, x),
        )

    foreign = compiled(results)
    callbacks(monkeypatch)
    for one, other in zip(foreign, compiled(results), strict=True):
        assert one.dtype == other.dtype == dtype
        np.testing.assert_allclose(one, other, rtol=1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize(
    ("kind", "solving"),
    [
        ("six joints", "poses"),
        ("six joints", "positions"),
        ("a sliding joint", "small moves"),
        ("a redundant arm", "a time limit"),
        ("several tips", "an order"),
        ("several tips", "poses"),
        ("quaternions", "poses"),
    ],
)
def test_solve_as_a_foreign_function_gives_the_solutions_of_callbacks(
    kind: str, solving: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = ROBOTS[kind]()
    solver, q = SOLVERS[solving](robot), robot.random(6, seed=2)
    q0 = jnp.asarray(q + 0.01)
    T = jnp.asarray(robot.fk(q)).at[1].add(20.0).at[2].set(jnp.nan)
    T = T.at[1].set(T[0]).at[1, ..., :3, 3].set(20.0)
    if solving == "positions":
        T = T[..., :3, 3]

    def results() -> Any:
        found = [sj.solve(solver, T, q0)]
        if solving != "small moves":
            found.append(sj.solve(solver, T))
            found.append(jax.vmap(lambda t: sj.solve(solver, t))(T))
        bars = jax.grad(lambda t, x: (sj.solve(solver, t, x)[0] ** 2).sum(), argnums=(0, 1))
        return *found, bars(T, q0)

    foreign = compiled(results)
    # A robot on a floating base reaches every pose.
    assert foreign[0][1].tolist() == [True, kind == "quaternions", False, True, True, True]
    callbacks(monkeypatch)
    for one, other in zip(foreign, compiled(results), strict=True):
        for mine, theirs in zip(one, other, strict=True):
            assert np.isfinite(mine).all()
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_foreign_functions_solve_one_target_as_a_call_of_the_solver_and_several_as_its_batch() -> (
    None
):
    for robot in (supple.load("ur5e"), supple.load("panda")):
        solver, T = supple.Solver(robot), robot.fk(robot.random(20, seed=6))
        for t in T:
            np.testing.assert_array_equal(sj.solve(solver, jnp.asarray(t))[0], solver(t).q)
        found = sj.solve(solver, jnp.asarray(T))[0]
        np.testing.assert_array_equal(found, solver.batch(T).q)
        mapped = jax.vmap(lambda t, s=solver: sj.solve(s, t)[0])(jnp.asarray(T))
        np.testing.assert_array_equal(found, mapped)


def test_results_in_float32_are_those_in_float64_rounded() -> None:
    robot = _panda()
    q = jnp.asarray(robot.random(50, seed=3), jnp.float32)
    for function in (sj.fk, sj.jacobian):
        wide = function(robot, q.astype(jnp.float64))
        np.testing.assert_array_equal(function(robot, q), wide.astype(jnp.float32))


def test_a_compiled_function_keeps_its_solver_until_the_function_is_deleted() -> None:
    T = jnp.asarray(supple.load("ur5e").fk(np.full((2, 6), 0.7)))
    made: list[Any] = []

    def solved(t: Any) -> Any:  # only the compiled function keeps the solver
        solver = supple.Solver(supple.load("ur5e"))
        made.append(weakref.ref(solver))
        return sj.solve(solver, t)[0].sum()

    functions: list[Any] = [jax.jit(solved), jax.jit(jax.grad(solved)), jax.jit(solved)]
    functions[2] = functions[2].lower(T).compile()
    first = [np.asarray(function(T)) for function in functions]
    gc.collect()
    for function, expected in zip(functions, first, strict=True):
        np.testing.assert_array_equal(function(T), expected)
    del function, functions
    jax.clear_caches()
    gc.collect()
    assert not any(one() for one in made)


@needs_ffi
def test_a_solver_that_no_longer_exists_raises_an_error() -> None:
    T = jnp.asarray(supple.load("ur5e").fk(np.full((2, 6), 0.7)))
    compiled = (
        jax.jit(lambda t: sj.solve(supple.Solver(supple.load("ur5e")), t)[0]).lower(T).compile()
    )
    jax.clear_caches()
    gc.collect()
    with pytest.raises(Exception, match="must exist in this process"):
        compiled(T).block_until_ready()


def test_several_threads_can_call_a_foreign_function_at_the_same_time() -> None:
    robots = [supple.load(name) for name in ("ur5e", "puma560", "panda")]
    solvers = [supple.Solver(robot) for robot in robots]
    functions = [jax.jit(lambda t, s=solver: sj.solve(s, t)[0]) for solver in solvers]
    targets = [jnp.asarray(robot.fk(robot.random(40, seed=4))) for robot in robots]
    expected = [function(T) for function, T in zip(functions, targets, strict=True)]
    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(functions[k % 3], targets[k % 3]) for k in range(60)]
        for k, job in enumerate(jobs):
            np.testing.assert_array_equal(job.result(), expected[k % 3])


SEVERAL = """
import jax, numpy as np, supple, supple.jax
jax.config.update("jax_enable_x64", True)
robot = supple.load("ur5e")
solver = supple.Solver(robot)
T = supple.jax.fk(robot, robot.random(8, seed=0))
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(np.array(jax.devices()), ("batch",))
shared = jax.device_put(T, NamedSharding(mesh, PartitionSpec("batch")))
loss = lambda t: supple.jax.solve(solver, t)[0].sum()
np.testing.assert_allclose(jax.jit(jax.grad(loss))(shared), jax.grad(loss)(T))
one = jax.pmap(lambda t: supple.jax.solve(solver, t)[0])(T.reshape(4, 2, 4, 4))
np.testing.assert_array_equal(one.reshape(8, 6), supple.jax.solve(solver, T)[0])
print(len(jax.devices()))
"""
LEAVING = """
import threading, time, jax, supple, supple.jax
robot = supple.load("panda")
solver = supple.Solver(robot, max_seeds=100_000, threads=1)
T = supple.jax.fk(robot, robot.random(2000, seed=0).astype("float32"))
T = jax.block_until_ready(T.at[:, :3, 3].multiply(1.3))
solved = jax.jit(lambda t: supple.jax.solve(solver, t)[0]).lower(T).compile()
threading.Thread(target=lambda: solved(T).block_until_ready(), daemon=True).start()
time.sleep(0.5)
print("done")
"""


@pytest.mark.parametrize(("code", "said"), [(SEVERAL, "4\n"), (LEAVING, "done\n")])
def test_a_process_that_used_several_devices_or_has_unfinished_work_ends_normally(
    code: str, said: str
) -> None:
    flags = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=flags,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, said), run.stderr


@needs_ffi
def test_on_backends_other_than_the_cpu_the_kernel_is_called_by_callbacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = supple.load("ur5e")
    q = jnp.asarray(robot.random(3, seed=5))
    expected = sj.fk(robot, q)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    made = str(jax.make_jaxpr(lambda q: sj.fk(robot, q))(q))
    assert "ffi_call" in made
    assert "pure_callback" in made
    np.testing.assert_array_equal(jax.jit(lambda q: sj.fk(robot, q))(q), expected)


@needs_ffi
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, q, T: sj.fk(r, q.at[1, 2].set(jnp.nan)), "q must be finite.* row 1"),
        (lambda r, q, T: sj.step(r, q.at[1, 2].set(jnp.inf), q, lambda2=1.0), "q must be finite"),
        (lambda r, q, T: sj.solve(supple.Solver(r), T.at[1, 0, 0].set(3)), "poses.* row 1"),
        (lambda r, q, T: sj.solve(supple.Solver(r), T[0] * jnp.nan), "must be finite"),
        (lambda r, q, T: sj.solve(supple.Solver(r), T, q * 90), "q0 must be in radians"),
    ],
)
def test_errors_for_nonfinite_and_invalid_values_name_the_argument_and_row(
    call: Any, message: str
) -> None:
    robot = supple.load("ur5e")
    q = jnp.full((2, 6), 0.7)
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(call(robot, q, sj.fk(robot, q)))


def test_second_derivatives_raise_an_error() -> None:
    """Without the error, JAX would return zeros or wrong values."""
    robot = supple.load("ur5e")
    solver, q = supple.Solver(robot), jnp.full(6, 0.7)
    T, x = sj.fk(robot, q), jnp.ones(6)
    losses = [
        (lambda q: sj.fk(robot, q).sum(), q),
        (lambda q: sj.jacobian(robot, q).sum(), q),
        (lambda q: sj.step(robot, q, x, lambda2=0.1).sum(), q),
        (lambda x: sj.step(robot, q, x, lambda2=0.1).sum(), x),
        (lambda t: sj.solve(solver, t, q)[0].sum(), T),
        (lambda q: sj.solve(solver, T, q)[0].sum(), q),
    ]
    for loss, at in losses:
        with pytest.raises(InputError, match="first derivatives"):
            jax.grad(lambda at, loss=loss: (jax.grad(loss)(at) ** 2).sum())(at)
        with pytest.raises(InputError, match="first derivatives"):
            jax.jacrev(jax.grad(loss))(at)
        with pytest.raises(TypeError, match="forward-mode"):
            jax.hessian(loss)(at)
