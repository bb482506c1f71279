"""The viewer's controls: method, limits, display, joints, solutions, paths and recordings."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import supple as sp
from supple.errors import SuppleError
from supple.view.branch_names import branch_names
from supple.view.methods import method, method_names, numbers_of
from supple.view.path import ToolPath
from supple.view.posture import controlled_rows, coordinates
from supple.view.simulation import DT, MODES, Simulation

_SLIDER_DECADES = 2.0  # range of a parameter's slider on each side of the derived value [decades]
_NONE = "–"  # no solution is chosen
EXPORTS = {"CSV": ".csv", "NPZ": ".npz", "Parquet": ".parquet", "animation": ".html"}


class Panel:
    """The controls of the viewer, the most used ones first."""

    def __init__(self, server: Any, simulation: Simulation, view: Any) -> None:
        """Add the controls to the page.

        Args:
            server: The server of viser.
            simulation: The simulated robot, which the controls command.
            view: The viewer, whose display options the controls set.
        """
        self._server, self._simulation, self._view = server, simulation, view
        self._parameters: list[Any] = []
        gui = server.gui
        self._status = gui.add_markdown("")
        with gui.add_folder("Method"):
            self._method_controls()
        with gui.add_folder("Limits"):
            self._limit_controls()
        with gui.add_folder("Show"):
            self._picture_controls()
        with gui.add_folder("Solutions", expand_by_default=False):
            self._solution_controls()
        with gui.add_folder("Path", expand_by_default=False):
            self._path_controls()
        with gui.add_folder("Record", expand_by_default=False):
            self._record_controls()
        with gui.add_folder("Joints", expand_by_default=False):
            self._joint_controls()

    # ---- updates ---------------------------------------------------------------------------------

    def update(self) -> None:
        """Show the current status, error and damping as text, and the joint positions."""
        if not self._simulation.history:
            return
        last = self._simulation.history[-1]
        away = f"{1e3 * last.position_error:.1f} mm"
        if self._simulation.settings.task == "pose":
            away += f", {math.degrees(last.rotation_error):.1f}°"
        steps = self._simulation.recorded_steps
        taped = f" · recorded {steps * DT:.1f} s" if steps else ""
        words, space, joints = last.status.partition(" (")
        words = words.replace("_", " ") + space + joints
        self._status.content = (
            f"**{words}** · error {away}  \n"
            f"σ_min {last.sigma_min:.3g} · λ {last.damping:.3g}{taped}"
        )
        values = coordinates(self._simulation.robot, self._simulation.q).tolist()
        for slider, value in zip(self._sliders, values, strict=True):
            low, high = slider.min, slider.max
            slider.value = float(np.round(min(max(value, low), high), 4))
        self._record.label = "Stop recording" if self._simulation.recording else "Record"

    # ---- groups of controls ----------------------------------------------------------------------

    def _method_controls(self) -> None:
        gui, settings = self._server.gui, self._simulation.settings
        chosen = gui.add_dropdown(
            "Damping or step",
            method_names(),
            initial_value=settings.method,
            hint="Damping rule or step that turns the error into joint speeds.",
        )
        self._parameter_folder = gui.add_folder("Parameters")
        self._make_parameters()
        task = gui.add_dropdown("Task", ("pose", "position"), initial_value=settings.task)
        gain = gui.add_slider("Gain [1/s]", 1.0, 40.0, 0.5, settings.gain)

        @chosen.on_update
        def _(event: Any) -> None:
            if self._change(event, method=chosen.value, parameters={}):
                self._make_parameters()

        @task.on_update
        def _(event: Any) -> None:
            if self._change(event, task=task.value, parameters={}):
                self._view.gizmos.make(rotations=task.value == "pose")
                self._make_parameters()

        @gain.on_update
        def _(event: Any) -> None:
            self._change(event, gain=gain.value)

    def _make_parameters(self) -> None:
        """Add a slider for each numeric parameter of the method, centered at the derived value."""
        for handle in self._parameters:
            handle.remove()
        self._parameters = []
        settings, robot = self._simulation.settings, self._simulation.robot
        rows = controlled_rows(robot, settings.task == "position")
        made = method(settings.method, robot, dt=DT, frames=self._simulation.frames, rows=rows)
        with self._parameter_folder:
            for name, value in numbers_of(made).items():
                if value > 0 and math.isfinite(value):
                    self._parameters.append(self._parameter(name, value))
            if not self._parameters:
                self._parameters.append(self._server.gui.add_markdown("*none*"))

    def _parameter(self, name: str, value: float) -> Any:
        """Return a logarithmic slider for a parameter, centered at `value`."""
        middle = math.log10(value)
        slider = self._server.gui.add_slider(
            f"log₁₀ {name}",
            round(middle - _SLIDER_DECADES, 3),
            round(middle + _SLIDER_DECADES, 3),
            0.01,
            round(middle, 3),
            hint=f"{name} = {value:.4g} is the value derived from this robot.",
        )

        @slider.on_update
        def _(event: Any) -> None:
            parameters = {**self._simulation.settings.parameters, name: 10**slider.value}
            self._change(event, parameters=parameters)

        return slider

    def _limit_controls(self) -> None:
        gui, settings = self._server.gui, self._simulation.settings
        on = gui.add_checkbox("Joint limits", settings.limited)
        mode = gui.add_dropdown("Mode", MODES, initial_value=settings.mode)
        speed = gui.add_slider("Speed factor", 0.05, 1.0, 0.05, settings.speed_factor)
        acceleration = gui.add_slider(
            "Acceleration, 0: default", 0.0, 60.0, 1.0, settings.max_acceleration
        )
        norm = gui.add_slider("Norm of speeds, 0: none", 0.0, 10.0, 0.1, settings.max_norm)
        for control, name in (
            (on, "limited"),
            (mode, "mode"),
            (speed, "speed_factor"),
            (acceleration, "max_acceleration"),
            (norm, "max_norm"),
        ):
            control.on_update(self._setter(control, name))

    def _setter(self, control: Any, name: str) -> Callable[[Any], None]:
        def change(event: Any) -> None:
            self._change(event, **{name: control.value})

        return change

    def _picture_controls(self) -> None:
        gui, view, simulation = self._server.gui, self._view, self._simulation
        ghost = gui.add_checkbox(
            "Pseudoinverse ghost", False, hint="The same targets without damping and limits."
        )
        ellipsoid = gui.add_checkbox("Manipulability ellipsoid", view.shows_ellipsoids)
        moving = gui.add_checkbox(
            "Moving targets", simulation.moves_targets, hint="Targets move, partly out of reach."
        )
        home = gui.add_button("Back to the start")

        @ghost.on_update
        def _(_: Any) -> None:
            simulation.show_ghost(ghost.value)

        @ellipsoid.on_update
        def _(_: Any) -> None:
            view.show_ellipsoids(ellipsoid.value)

        @moving.on_update
        def _(_: Any) -> None:
            simulation.move_targets(moving.value)

        @home.on_click
        def _(_: Any) -> None:
            moving.value = False
            simulation.move_targets(False)
            simulation.go_to(view.start)

    def _solution_controls(self) -> None:
        gui, view, simulation = self._server.gui, self._view, self._simulation
        find = gui.add_button("Show all solutions", hint="Configurations that meet the targets.")
        chosen = gui.add_dropdown("Go to", (_NONE,), hint="Or click a ghost.")
        hide = gui.add_button("Hide them")
        words = gui.add_markdown("")

        def show(found: sp.Solutions | None, said: str) -> None:
            view.show_solutions(np.empty((0, simulation.robot.nq)) if found is None else found.q)
            chosen.options = (_NONE, *(() if found is None else branch_names(found)))
            chosen.value = _NONE
            words.content = said

        @find.on_click
        def _(event: Any) -> None:
            found = self._try(event, simulation.solutions)
            if found is not None:
                show(found, f"{len(found)} found" if len(found) else "out of reach")

        @hide.on_click
        def _(_: Any) -> None:
            show(None, "")

        @chosen.on_update
        def _(event: Any) -> None:
            if event.client is not None and chosen.value != _NONE:
                at = chosen.options.index(chosen.value) - 1
                simulation.move_along(view.solutions[at : at + 1])

    def _path_controls(self) -> None:
        gui, view, simulation = self._server.gui, self._view, self._simulation
        targets: list[Any] = []
        add = gui.add_button("Add target", hint="Adds the present target to the path.")
        plan = gui.add_button("Plan", hint="Finds a motion on lines through the targets.")
        play = gui.add_button("Play")
        clear = gui.add_button("Clear")
        self._path_words = gui.add_markdown("")

        @add.on_click
        def _(_: Any) -> None:
            targets.append(simulation.targets)
            self._path_words.content = f"{len(targets)} target{'s' * (len(targets) > 1)}"

        @plan.on_click
        def _(event: Any) -> None:
            found = self._try(event, lambda: simulation.plan_path(targets))
            if found is not None:
                self._try(event, lambda: view.show_path(found))

        @play.on_click
        def _(event: Any) -> None:
            if view.path is None:
                self._notify(event, "There is no path yet: add two targets and press Plan.")
            else:
                simulation.move_along(view.path.q)

        @clear.on_click
        def _(_: Any) -> None:
            targets.clear()
            view.show_path(None)

    def show_path(self, path: ToolPath | None) -> None:
        """Show the summary of a path; nothing for None."""
        self._path_words.content = "" if path is None else path.words.replace("\n", "  \n")

    def _record_controls(self) -> None:
        gui, simulation = self._server.gui, self._simulation
        self._record = gui.add_button("Record")
        replay = gui.add_button("Replay")
        kind = gui.add_dropdown("File", tuple(EXPORTS))
        export = gui.add_button("Export")

        @self._record.on_click
        def _(_: Any) -> None:
            simulation.record(not simulation.recording)

        @replay.on_click
        def _(event: Any) -> None:
            if not simulation.replay():
                self._notify(event, "Nothing is recorded yet.")

        @export.on_click
        def _(event: Any) -> None:
            made = self._try(event, lambda: exported(simulation, EXPORTS[kind.value]))
            if made is not None and event.client is not None:
                name = f"{simulation.robot.name}{EXPORTS[kind.value]}"
                event.client.send_file_download(name, made, save_immediately=True)

    def _joint_controls(self) -> None:
        """Add a slider for each coordinate: for a quaternion, three of its rotation vector."""
        robot = self._simulation.robot
        self._sliders = []
        for j, value in enumerate(coordinates(robot, self._simulation.q).tolist()):
            name = robot.joint_names[j]
            full = math.pi if not robot.prismatic[j] else 1.0
            low = float(robot.lower[j]) if np.isfinite(robot.lower[j]) else -full
            high = float(robot.upper[j]) if np.isfinite(robot.upper[j]) else full
            high = max(high, low + 1e-3)
            here = min(max(value, low), high)
            slider = self._server.gui.add_slider(name, low, high, (high - low) / 2000, here)
            slider.on_update(self._joint_mover(slider, j))
            self._sliders.append(slider)

    def _joint_mover(self, slider: Any, j: int) -> Callable[[Any], None]:
        def move(event: Any) -> None:
            if event.client is not None:  # moved by the user, not by `update`
                self._simulation.set_joint(j, slider.value)

        return move

    # ---- errors ----------------------------------------------------------------------------------

    def _change(self, event: Any, **settings: Any) -> bool:
        if event.client is None:
            return False

        def change() -> bool:
            self._simulation.change(**settings)
            return True

        return bool(self._try(event, change))

    def _try(self, event: Any, call: Callable[[], Any]) -> Any:
        """Return the result of a call; show an error of supple in the browser and return None."""
        try:
            return call()
        except SuppleError as error:
            self._notify(event, str(error))
            return None

    def _notify(self, event: Any, words: str) -> None:
        if event.client is not None:
            event.client.add_notification("supple", words, auto_close_seconds=8.0, color="orange")


def exported(simulation: Simulation, suffix: str) -> bytes:
    """Return the content of a file with the recording, in the format given by a suffix.

    Raises:
        InputError: There is no recording.
    """
    motion = simulation.trajectory()
    if motion is None:
        raise sp.errors.InputError("Nothing is recorded yet: press Record, move, and stop.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"motion{suffix}"
        if suffix == ".html":
            motion.animate().save(file)
        else:
            motion.save(file)
        return file.read_bytes()
