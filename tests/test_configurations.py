"""Only `integrate` and `difference` add to configurations or subtract them.

Joints with more coordinates than degrees of freedom, such as ball joints with quaternions, need
other formulas than q + v. These formulas can be in one place only if no other code adds to q, in
Python, in the kernel, in the drivers and on a GPU.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from cases import each
from generated import robot, seeds

ROOT = Path(__file__).parents[1]
# `integrate` and `difference` themselves, and a figure that draws joints inside their ranges.
EXEMPT = {
    "src/supple/kinematics/configuration.py",
    "include/supple/robot/configuration.hpp",
    "src/supple/plot/figures.py",
}
PYTHON = sorted((ROOT / "src/supple").rglob("*.py"))
KERNEL = sorted(
    path
    for folder in ("include/supple", "src/core", "src/supple")
    for kind in ("*.hpp", "*.cpp", "*.cu")
    for path in (ROOT / folder).rglob(kind)
)
NAME = r"(?:q|q0|q_|_q|q_rest|ghost_q|_ghost_q)"  # names of configurations
# Names of configurations in Python; some of them are also names of numbers.
PYTHON_NAME = re.compile(rf"{NAME}|solutions|layers")

# ---- Python --------------------------------------------------------------------------------------

# Functions that return configurations, alone or as the first of several results.
MAKERS = {
    *("integrate", "from_kernel", "within_limits", "clipped", "mirrored", "interpolated"),
    *("neutral", "unwound", "advanced", "tracked"),
}
# Functions of NumPy that return a configuration if an argument is a configuration.
KEEPERS = {
    *("append", "array", "asarray", "ascontiguousarray", "broadcast_to", "clip", "concatenate"),
    *("copy", "repeat", "reshape", "stack", "take_along_axis", "tile", "vstack", "where"),
}
Names = frozenset[str]


def is_configuration(node: ast.expr, known: Names = frozenset()) -> bool:
    """Return whether an expression is a configuration, some of its joints, or a multiple of it.

    The variables named in `known` are configurations.
    """
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in known or PYTHON_NAME.fullmatch(name) is not None
        case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return is_configuration(inner, known)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return is_configuration(left, known) or is_configuration(right, known)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in MAKERS:
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name), args=args):
            return name in KEEPERS and any(
                is_configuration(part, known)
                for one in args
                for part in (one.elts if isinstance(one, ast.List | ast.Tuple) else [one])
            )
        case ast.Call(func=ast.Attribute(value=inner, attr="copy" | "reshape" | "astype")):
            return is_configuration(inner, known)
    return False


def configurations_of(function: ast.AST) -> Names:
    """Return the names of the variables of a function that are configurations."""
    assigned: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                assigned += zip(targets, values, strict=False)
            case ast.Assign(targets=[ast.Tuple(elts=[first, *_])], value=value):
                assigned.append((first, value))
            case ast.Assign(targets=targets, value=value):
                assigned += [(one, value) for one in targets]
            case ast.For(target=target, iter=value):
                assigned.append((target, value))
    named = [(one.id, value) for one, value in assigned if isinstance(one, ast.Name)]
    known: Names = frozenset()
    while True:
        found = known | {name for name, value in named if is_configuration(value, known)}
        if found == known:
            return known
        known = found


def additions_in_python(text: str) -> Iterator[str]:
    """Yield the expressions that add to a configuration or subtract one."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nested = {node for one in functions for node in ast.walk(one) if node is not one}
    seen: set[ast.AST] = set()
    for function in [*(one for one in functions if one not in nested), tree]:
        known = configurations_of(function) if function is not tree else frozenset()
        for node in ast.walk(function):
            if node not in seen and _adds(node, known):
                yield ast.unparse(node)
            seen.add(node)


def _adds(node: ast.AST, known: Names) -> bool:
    """Return whether an expression adds to a configuration or subtracts one."""
    match node:
        case ast.BinOp(
            left=ast.Subscript(value=ast.Name(id="layers") | ast.Attribute(attr="layers")),
            right=ast.Constant(value=1),
        ):
            return False  # the layer after one of `layers`
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return is_configuration(left, known) or is_configuration(right, known)
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub()):
            return is_configuration(target, known)
        case ast.Call(
            func=ast.Attribute(
                value=ast.Name(id="np"), attr="diff" | "add" | "subtract" | "cumsum" | "mean"
            ),
            args=[first, *_],
        ):
            return is_configuration(first, known)
    return False


# ---- C++ and CUDA --------------------------------------------------------------------------------

# An entry of a configuration, which may be a term of a sum, a difference or an fma.
ENTRY = rf"(?:[\w.>-]*(?:\.|->))?\b{NAME}(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\])"
AFTER = re.compile(rf"{ENTRY}\)? *(?:[-+](?![-+>])=?)")
BEFORE = re.compile(rf"[\w\])] *[-+] *\(?(?:\d+ \* )?{ENTRY}")
FUSED = re.compile(rf"\bfma\([^;]*{ENTRY}\)")
# A variable q or q0 that is a number; pointers to configurations are declared with a star.
NUMBER = re.compile(r"\b(?:L|T|double|float)&? (q|q0)\b(?=[ ,)=;])")


def additions_in_kernel(text: str) -> Iterator[str]:
    """Yield the lines that add to a configuration or subtract one."""
    code = re.sub(r"//.*", "", text)
    for part in re.split(r"(?<=^}\n)", code, flags=re.MULTILINE):  # functions, one after the other
        numbers = {match[1] for match in NUMBER.finditer(part)}
        alone = [
            re.compile(rf"(?<![\w.*>&]){name} *[-+](?![-+>])|[\w\])] *[-+] *{name}\b(?![\[(])")
            for name in numbers
        ]
        for line in part.splitlines():
            if any(pattern.search(line) for pattern in (AFTER, BEFORE, FUSED, *alone)):
                yield line.strip()


# ---- tests ---------------------------------------------------------------------------------------


def exempt(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix() in EXEMPT


def test_python_code_adds_to_configurations_only_by_integrate_and_difference() -> None:
    assert {
        path.name: found
        for path in PYTHON
        if not exempt(path) and (found := [*additions_in_python(path.read_text())])
    } == {}


def test_kernel_code_adds_to_configurations_only_by_integrate_and_difference() -> None:
    assert {
        path.name: found
        for path in KERNEL
        if not exempt(path) and (found := [*additions_in_kernel(path.read_text())])
    } == {}


@each(
    "line",
    [
        "q + dq",
        "q0 - dq",
        "self.q[1:] - other",
        "q[j] += 0.1",
        "np.diff(q, axis=0)",
        "2 * q - low",
        "self._q - self.ghost_q",
        "x + np.asarray(q)",
        "np.cumsum(path.q)",
        "high - q[..., moves]",
        "def f(self):\n    then, good = self.q, 1\n    return then - other",
        "def f(path):\n    then = np.array(path.q[1:])\n    return then[:, None] - other",
        "def f(q):\n    for each in q:\n        y = each - other",
        "def f(q):\n    before, after = q[i], 1\n    return other - before",
        "def f(q):\n    a = np.where(known, other, q)\n    b = a.copy()\n    b -= other",
    ],
)
def test_python_code_that_adds_to_a_configuration_is_reported(line: str) -> None:
    assert [*additions_in_python(line)]
    assert not [
        *additions_in_python(re.sub(r"\bq\b", "v", line).replace("q0", "v").replace("_q", "v"))
    ]


@pytest.mark.parametrize(
    "call",
    ["integrate(robot, v, w)", "robot.neutral()", "path.advanced(v, x, y)", "from_kernel(r, v)"],
)
def test_python_code_that_subtracts_from_a_returned_configuration_is_reported(call: str) -> None:
    for line in (f"then = {call}", f"then, good = {call}"):
        text = f"def f():\n    {line}\n    return then - other"
        assert [*additions_in_python(text)]
        assert not [*additions_in_python(text.replace(call, "g(v)"))]
    for line in ("self.solutions[i + 1] - other", "layers[1:] - layers[:-1]"):
        assert [*additions_in_python(line)]
    assert not [*additions_in_python("layers[i] + 1")]


@each(
    "line",
    [
        "at.q[j] = at.q[j] + dq[j];",
        "q[j] += dq[j];",
        "x = target[i] - q[task.coordinate[i]];",
        "next[j] = fma(speed, dt, state.q[j]);",
        "at_.q[j] = (q[j] + then[j]) / 2;",
        "const double q = x; y = upper - q;",
        "void f(const L& q) { return q - lower; }",
        "a = abs(2 * q[j] - middle);",
        "a = b - 2 * q[j];",
    ],
)
def test_kernel_code_that_adds_to_a_configuration_is_reported(line: str) -> None:
    assert [*additions_in_kernel(line)]
    assert not [*additions_in_kernel(re.sub(r"\bq\b", "v", line))]


@each(
    "line",
    [
        "const double* const q = all.q + i * n;",
        "f(q, -q[j]);",
        "rotated(h, -q5)",
        "q[i + 1] = x;",
    ],
)
def test_sums_of_pointers_and_indices_are_not_reported(line: str) -> None:
    assert not [*additions_in_kernel(line)]


def test_integrating_the_difference_of_two_configurations_gives_the_second() -> None:
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        made = robot(rng)
        q0, q1 = made.random((3, 2), seed=rng), made.random((3, 2), seed=rng)
        v = made.difference(q1, q0)
        assert v.shape == (3, 2, made.nv)
        assert made.nv == made.dof
        size = np.maximum(np.abs(q0), np.abs(q1))
        assert (np.abs(made.integrate(q0, v) - q1) <= 4e-16 * size).all()
        assert (made.integrate(q0, 0 * v) == q0).all()
        assert (made.difference(q0, q0) == 0).all()
        assert made.integrate(q0[0, 0], v).shape == (3, 2, made.nq)


def test_a_servo_moves_to_the_integral_of_its_velocities_within_the_limits() -> None:
    for seed in seeds(10):
        rng = np.random.default_rng(seed)
        made = robot(rng)
        servo = sp.Servo(made, dt=0.01)
        q = made.random(seed=rng)
        after = servo(
            q, velocity=rng.normal(size=6 if len(made.tips) == 1 else (len(made.tips), 6))
        )
        expected = np.clip(made.integrate(q, 0.01 * servo.qd), made.lower, made.upper)
        np.testing.assert_allclose(after, expected, rtol=1e-14, atol=1e-14)


@each("name", ["integrate", "difference"])
def test_integrate_and_difference_refuse_wrong_shapes(name: str) -> None:
    made = sp.load("ur5e")
    call = getattr(made, name)
    with pytest.raises(sp.errors.InputError, match="shape"):
        call(np.zeros(6), np.zeros(5))
    with pytest.raises(sp.errors.InputError, match="leading axes"):
        call(np.zeros((2, 6)), np.zeros((3, 6)))
