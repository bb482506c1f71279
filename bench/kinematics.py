"""Forward kinematics and Jacobian compared with Pinocchio, on one core, in one interleaved run.

python bench/kinematics.py [ROUNDS] prints a table and writes it to bench/results/.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pinocchio as pin

import measure
import supple as sp
from pinocchio_loop import loop
from supple import _core

BATCH, FEW, CALLS = 100_000, 2_000, 2_000
FRAME = "panda_hand"
WORLD = pin.LOCAL_WORLD_ALIGNED


def timed(work: Callable[[], object], count: int) -> Callable[[], float]:
    """Return a contender: a function that returns nanoseconds per configuration."""

    def measured() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) / count * 1e9

    return measured


def main(rounds: int) -> None:
    """Measure all contenders, check that they agree, and print and write the table."""
    measure.one_core()
    robot = sp.urdf(measure.PANDA)
    model = pin.buildModelFromUrdf(str(measure.PANDA))
    data, frame = model.createData(), model.getFrameId(FRAME)
    q = robot.random(BATCH, seed=0)
    T, J = np.empty((BATCH, 4, 4)), np.empty((BATCH, 6, 7))
    T_pin, J_pin = np.empty_like(T), np.empty_like(J)
    in_cpp = loop(measure.PANDA, FRAME, q, T_pin, J_pin)

    def python_loop() -> None:
        for i in range(FEW):
            J_pin[i] = pin.computeFrameJacobian(model, data, q[i], frame, WORLD)
            T_pin[i] = pin.updateFramePlacement(model, data, frame).homogeneous

    one = q[0].copy()

    def two_calls() -> None:
        for _ in range(CALLS):
            pin.computeFrameJacobian(model, data, one, frame, WORLD)
            pin.updateFramePlacement(model, data, frame)

    def one_call() -> None:
        _core.use_isa(_core.isas()[-1])
        for _ in range(CALLS):
            robot.fk_jacobian(one, FRAME)

    contenders: dict[str, Callable[[], float]] = {}
    for isa in _core.isas():

        def batch(isa: str = isa) -> None:
            _core.use_isa(isa)
            robot.fk_jacobian(q, FRAME, threads=1, out=(T, J))

        contenders[f"supple, batch, {isa}"] = timed(batch, BATCH)
    best_isa = _core.isas()[-1]

    def new_arrays() -> None:
        _core.use_isa(best_isa)
        robot.fk_jacobian(q, FRAME, threads=1)

    contenders |= {
        "supple, batch, new arrays": timed(new_arrays, BATCH),
        "Pinocchio in C++": lambda: in_cpp(0),
        "Pinocchio in C++, shifted by hand": lambda: in_cpp(1),
        "Pinocchio, Python loop": timed(python_loop, FEW),
        "supple, one call": timed(one_call, CALLS),
        "Pinocchio, two calls": timed(two_calls, CALLS),
    }
    took = measure.medians(measure.interleaved(contenders, rounds))
    _core.use_isa(best_isa)
    robot.fk_jacobian(q, FRAME, out=(T, J))
    in_cpp(1)
    difference = max(np.abs(T - T_pin).max(), np.abs(J - J_pin).max())
    in_cpp(0)
    difference = max(difference, np.abs(T - T_pin).max(), np.abs(J - J_pin).max())
    python_loop()
    difference = max(difference, np.abs(T - T_pin).max(), np.abs(J - J_pin).max())

    best = took[f"supple, batch, {best_isa}"]
    lines = [
        "# Forward kinematics and Jacobian of a Panda",
        "",
        f"{BATCH} configurations, float64, one core, {rounds} interleaved rounds, medians. "
        f"Largest difference from Pinocchio: {difference:.1e}.",
        measure.provenance(("supple", "pin", "numpy")),
        "",
        "| | ns per configuration | against supple's batch |",
        "|---|---:|---:|",
        *(f"| {name} | {ns:.0f} | {ns / best:.2f} |" for name, ns in took.items()),
        "",
        f"`import supple`: {import_time():.3f} s (median of 9 fresh processes, NumPy included).",
        "",
    ]
    print("\n".join(lines))
    print("written to", measure.write("kinematics", "\n".join(lines)))


def import_time() -> float:
    """Return the seconds that `import supple` takes in a new process."""
    code = "import time; t = time.perf_counter(); import supple; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        for _ in range(9)
    ]
    return sorted(runs)[4]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
