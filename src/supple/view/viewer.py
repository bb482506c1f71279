"""The viewer: a server of viser with the scene and the controls, and the loop that updates them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import supple as sp
from supple.errors import DeviceError, MissingExtraError
from supple.plot import palette
from supple.plot.shape import shape_of
from supple.view.bodies import solids_of, trimesh_module
from supple.view.file_bodies import solids_in
from supple.view.panel import Panel
from supple.view.path import PathFigure, ToolPath
from supple.view.plots import Plots
from supple.view.posture import up_axis
from supple.view.scene import Ellipsoid, Figure, Gizmos, add_solids
from supple.view.simulation import DT, Simulation
from supple.view.world_bodies import link_solids, obstacle_solids

Array = NDArray[np.float64]

PARTS = ("behind the robot", "slice", "whole")  # parts of a map
HOST, PORT = "127.0.0.1", 8080
_FRAME_INTERVAL = 1 / 60  # time between frames [s]
_TEXT_INTERVAL = 0.12  # time between updates of the status text and the joint sliders [s]
_CHART_INTERVAL = 0.15  # time between updates of the charts [s]
_MIN_DRAWN_CHANGE = 1e-7  # change of a coordinate below which nothing is drawn [rad or m]
_GHOST_DISTANCE = 0.01  # joint difference from the robot above which the ghost is drawn [rad or m]
_VIEW_ANGLE = 0.8  # vertical angle of view [rad]
_VIEW_WIDTH_RATIO = 0.8  # width of the view that shows the whole robot, relative to its height


class Viewer:
    """A view of a robot in the browser; `close` stops its server."""

    def __init__(
        self,
        robot: sp.Robot,
        *,
        file: Path | None = None,
        q: ArrayLike | None = None,
        host: str = HOST,
        port: int = PORT,
        moving: bool = False,
        world: sp.World | None = None,
        **settings: Any,
    ) -> None:
        """Start the server; `url` is its address.

        Args:
            robot: The robot.
            file: The robot's URDF or MJCF file, for meshes; without meshes, the robot is drawn from
                its kinematics.
            q: Initial configuration (n,) [rad or m]; chosen automatically by default.
            host: Address to listen on; only this machine by default.
            port: Port; the next free one if it is taken.
            moving: Whether the targets move by themselves from the start.
            world: Obstacles to draw, with the shapes of links over the robot's meshes.
            settings: Fields of `Settings`, such as method="Optimal".

        Raises:
            MissingExtraError: viser is not installed.
        """
        viser = viser_module()
        self.simulation = Simulation(robot, q, **settings)
        self.start = self.simulation.q
        solids, problems = ([], []) if file is None else solids_in(file, robot)
        self.has_meshes, self.problems = bool(solids), problems
        shape = shape_of(robot)
        solids = solids or solids_of(robot, shape)
        # A request that is not a websocket, such as one by curl, must not print an error.
        logging.getLogger("websockets").setLevel(logging.CRITICAL)
        try:
            with _silent():
                self._server = viser.ViserServer(host=host, port=port, verbose=False)
        except OSError as error:
            raise DeviceError(f"the viewer cannot listen at {host}:{port}: {error}") from error
        server = self._server
        self._decorate(shape)
        self.figure = Figure(server, "robot", robot, solids)
        self.model: Figure | None = None
        if world is not None:
            self.model = Figure(server, "shapes", robot, link_solids(robot, world), opacity=0.35)
            add_solids(server, "obstacles", obstacle_solids(world))
        self.ghost = Figure(
            server, "pseudoinverse", robot, solids, color=palette.VERMILION, opacity=0.35
        )
        self.ghost.show(False)
        self._solids, self._ghosts = solids, list[Figure]()
        self._size = shape.size
        self.path: ToolPath | None = None
        self._path_figure: PathFigure | None = None
        self.solutions: Array = np.empty((0, robot.nq))
        self.shows_ellipsoids = False
        self._ellipsoids = [
            Ellipsoid(server, f"ellipsoid{k}", shape) for k in range(len(robot.tips))
        ]
        size = (0.28 if len(self.simulation.frames) == 1 else 0.18) * shape.size
        self._dragged = threading.Event()
        self.gizmos = Gizmos(server, robot, size, self._drag)
        if self.simulation.settings.task == "position":
            self.gizmos.make(rotations=False)
        self.simulation.move_targets(moving)
        self._panel = Panel(server, self.simulation, self)
        self._plots = self._plot_panel(robot)
        server.on_client_connect(self._fit)
        server.on_client_disconnect(lambda _: self.gizmos.held.clear())
        self._drawn: Array | None = None
        self._draw()
        self._running = True
        self._thread = threading.Thread(target=self._loop, name="supple view", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{self._server.get_host()}:{self._server.get_port()}"

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.get_port())

    def close(self) -> None:
        """Stop the loop and the server."""
        self._running = False
        self._thread.join(timeout=5)
        with _silent():
            self._server.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- display ---------------------------------------------------------------------------------

    def show_ellipsoids(self, on: bool) -> None:
        """Show or hide the manipulability ellipsoids with the singular directions."""
        self.shows_ellipsoids = on
        for each in self._ellipsoids:
            each.show(on)

    def show_solutions(self, q: Array) -> None:
        """Show configurations (k, n) as ghosts, replacing the previous ones.

        The arm moves to a ghost that the user clicks.
        """
        with self._server.atomic():
            for each in self._ghosts:
                each.remove()
            self.solutions = np.array(q)
            self._ghosts = []
            root = self.simulation.robot.description.root  # does not move and needs no ghosts
            moving = [solid for solid in self._solids if solid.link != root]
            for k, one in enumerate(q):
                ghost = Figure(
                    self._server,
                    f"solution{k}",
                    self.simulation.robot,
                    moving,
                    color=palette.SKY,
                    opacity=0.25,
                    clicked=partial(self.simulation.move_along, one[None]),
                )
                ghost.place(one)
                self._ghosts.append(ghost)

    def show_path(self, motion: sp.paths.PlannedPath | sp.Trajectory | None) -> None:
        """Show the path of the tool in a motion, and offer to play it; None removes it.

        Balls mark the places where the robot changes its branch.
        """
        path = None
        if motion is not None:
            path = ToolPath.of(motion, self.simulation.robot, DT)
        with self._server.atomic():
            if self._path_figure is not None:
                self._path_figure.remove()
            self.path = path
            self._path_figure = None if path is None else PathFigure(self._server, path, self._size)
        self._panel.show_path(path)

    def show_points(self, points: Array, values: Array, size: float) -> None:
        """Show points, colored from vermilion for zero to blue for the largest value.

        At first, only the points behind the robot are shown, so that they do not hide the robot; a
        folder of the panel selects another part.

        Args:
            points: Positions (N, 3) in the world [m].
            values: Values of the points (N,), not negative.
            size: Diameter of a point [m].
        """
        share = (values / values.max(initial=1e-9))[:, None]
        ends = [np.array(palette.rgb(each)) for each in (palette.VERMILION, palette.BLUE)]
        colors = np.asarray((1 - share) * ends[0] + share * ends[1], np.uint8)
        points = np.asarray(points, np.float64)
        with self._server.gui.add_folder("Map"):
            chosen = self._server.gui.add_dropdown("Part", PARTS, initial_value=PARTS[0])

        def show(_: Any = None) -> None:
            kept = self._part(points, chosen.value, size)
            self.points = self._server.scene.add_point_cloud(
                "/points", points[kept].astype(np.float32), colors[kept], point_size=size
            )

        chosen.on_update(show)
        self.map_part = chosen
        show()

    def _part(self, points: Array, part: str, size: float) -> NDArray[np.bool_]:
        """Return a mask (N,) of the points that belong to a part of a map, one of `PARTS`."""
        robot, toward = self.simulation.robot, self._view[1].copy()  # toward the camera
        toward[up_axis(robot)] = 0.0
        ahead = (points - robot.base[:3, 3]) @ (toward / max(np.linalg.norm(toward), 1e-12))
        if part == "slice":
            return np.asarray(np.abs(ahead) <= 2 * size)
        return np.asarray(ahead <= 0) if part == "behind the robot" else np.ones(len(points), bool)

    def _decorate(self, shape: Any) -> None:
        """Set up the floor, the light, the camera and the title."""
        server, size = self._server, shape.size
        robot = self.simulation.robot
        up = up_axis(robot)
        server.scene.set_up_direction("+y" if up == 1 and not shape.flat else "+z")
        server.gui.configure_theme(
            show_logo=False, show_share_button=False, brand_color=palette.rgb(palette.BLUE)
        )
        server.gui.set_panel_label(f"supple · {robot.name}")
        arm = shape.poses(robot, self.start)[:, :3, 3]
        floor = robot.base[:3, 3].copy()
        if shape.flat:
            floor[2] -= 0.02 * size
        elif up == 1:
            floor[1] = arm[:, 1].min()
        else:  # below the feet of a robot whose base is its pelvis
            floor[2] = min(floor[2], arm[:, 2].min())
        server.scene.add_grid(
            "/floor",
            width=6 * size,
            height=6 * size,
            plane="xz" if up == 1 and not shape.flat else "xy",
            position=tuple(map(float, floor)),
            cell_size=size / 4,
            section_size=size,
            cell_color=(222, 226, 230),
            section_color=(190, 196, 202),
        )
        way = np.array([0.05, -0.15, 1.0] if shape.flat else [0.6, -0.7, 0.33])
        if up == 1 and not shape.flat:
            way = np.array([0.4, 0.25, 1.0])
        away = 1.2 * size / np.tan(_VIEW_ANGLE / 2)
        camera = server.initial_camera
        camera.fov = _VIEW_ANGLE
        middle = 0.5 * shape.center + 0.25 * (arm.min(axis=0) + arm.max(axis=0))
        self._view = middle, away * way / np.linalg.norm(way)
        camera.position = tuple(map(float, middle + self._view[1]))
        camera.look_at = tuple(map(float, middle))
        camera.up = (0.0, 1.0, 0.0) if up == 1 else (0.0, 0.0, 1.0)

    def _fit(self, client: Any) -> None:
        """Move the camera of a narrow page back, so that the panels do not cover the robot.

        The view is as high as the page, and between the panels it may be narrow. A camera that the
        user has moved stays where it is.
        """
        (middle, offset), camera, scale = self._view, client.camera, 1.0

        @camera.on_update
        def _(_: Any) -> None:
            nonlocal scale
            needed = max(1.0, _VIEW_WIDTH_RATIO / camera.aspect)
            untouched = np.abs(np.asarray(camera.position) - middle - scale * offset).max()
            if abs(needed - scale) > 0.01 and untouched < 1e-3 * self._size:
                scale = needed
                camera.position = middle + scale * offset

    def _plot_panel(self, robot: sp.Robot) -> Plots:
        panel = self._server.gui.add_panel()
        with panel.add_tab("Live plots"):
            plots = Plots(self._server, robot)
        panel.dock_left()
        panel.set_width(340)
        self._server.gui.main_panel.dock_right()
        return plots

    # ---- time ------------------------------------------------------------------------------------

    def _loop(self) -> None:
        before = words = curves = time.perf_counter()
        while self._running:
            now = time.perf_counter()
            self.simulation.advance(now - before)
            before = now
            self._draw()
            if now - words > _TEXT_INTERVAL:
                words = now
                self._panel.update()
            if now - curves > _CHART_INTERVAL:
                curves = now
                self._plots.update(list(self.simulation.history))
            if self._dragged.wait(max(_FRAME_INTERVAL - (time.perf_counter() - now), 0.001)):
                self._dragged.clear()
                time.sleep(DT)  # one step later, draw without waiting for the next frame

    def _drag(self, tip: int, pose: Array) -> None:
        self.simulation.set_target(tip, pose)
        self._dragged.set()

    def _draw(self) -> None:
        simulation = self.simulation
        q = simulation.q
        targets = simulation.targets
        shown = [simulation.shows_ghost, self.shows_ellipsoids]
        state = np.concatenate([q, simulation.ghost_q, targets.ravel(), shown])
        if self._drawn is not None and np.allclose(state, self._drawn, 0.0, _MIN_DRAWN_CHANGE):
            return  # nothing is sent while nothing moves
        self._drawn = state
        with self._server.atomic():
            self.figure.place(q)
            if self.model is not None:
                self.model.place(q)
            apart = (
                np.abs(simulation.robot.difference(simulation.ghost_q, q)).max() > _GHOST_DISTANCE
            )
            self.ghost.show(simulation.shows_ghost and bool(apart))
            if simulation.shows_ghost:
                self.ghost.place(simulation.ghost_q)
            self.gizmos.place(targets)
            if self.shows_ellipsoids:
                tips = simulation.robot.tips
                T, J = simulation.robot.fk_jacobian(q, tips)
                for k, each in enumerate(self._ellipsoids):
                    each.place(T[k, :3, 3], J[k, :3])
        self._server.flush()


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress viser's messages on the terminal."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


def viser_module() -> Any:
    """Return the module viser.

    Raises:
        MissingExtraError: viser or trimesh is not installed.
    """
    trimesh_module()
    try:
        import viser
    except ModuleNotFoundError as error:
        raise MissingExtraError("view", "the viewer") from error
    return viser
