"""The viewer's 3D scene: robots, ghosts, draggable targets and manipulability ellipsoids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.errors import SuppleError
from supple.plot import palette
from supple.plot.shape import Shape
from supple.view.bodies import Solid
from supple.view.posture import followed_frames

Array = NDArray[np.float64]

_HIDDEN_BELOW = 1e-9  # lower bound on σ₁ in the scale of an ellipsoid, avoids division by zero


class Figure:
    """A robot in the scene: one node for each link, with its solids."""

    def __init__(
        self,
        server: Any,
        name: str,
        robot: sp.Robot,
        solids: Sequence[Solid],
        *,
        color: str | None = None,
        opacity: float | None = None,
        clicked: Callable[[], None] | None = None,
    ) -> None:
        """Add the robot to a scene.

        Args:
            server: The server of viser.
            name: Name of the robot's node in the scene.
            robot: The robot.
            solids: The robot's solids.
            color: Color of all solids, "#rrggbb"; by default each has its own.
            opacity: Opacity of a ghost, 0 to 1; opaque by default.
            clicked: Function called when the user clicks the robot.
        """
        self._robot, self._links = robot, tuple(dict.fromkeys(each.link for each in solids))
        self._root = server.scene.add_frame(f"/{name}", show_axes=False)
        self._nodes = []
        for i, link in enumerate(self._links):
            node = f"/{name}/{i}"
            self._nodes.append(server.scene.add_frame(node, show_axes=False))
            for k, each in enumerate(one for one in solids if one.link == link):
                mesh = server.scene.add_mesh_simple(
                    f"{node}/{k}",
                    each.vertices.astype(np.float32),
                    each.faces.astype(np.uint32),
                    color=each.color if color is None else palette.rgb(color),
                    opacity=opacity,
                    cast_shadow=opacity is None,
                    receive_shadow=opacity is None,
                    side="double" if opacity is None else "front",
                )
                if clicked is not None:
                    mesh.on_click(lambda _: clicked())

    def place(self, q: Array) -> None:
        """Move all links to their poses at a configuration (n,)."""
        for node, T in zip(self._nodes, self._robot.fk(q, self._links), strict=True):
            node.position, node.wxyz = T[:3, 3], sp.poses.wxyz(T)

    def show(self, on: bool) -> None:
        """Show or hide the robot."""
        if self._root.visible != on:
            self._root.visible = on

    def remove(self) -> None:
        """Remove the robot from the scene."""
        self._root.remove()


def add_solids(server: Any, name: str, solids: Sequence[Solid]) -> None:
    """Add solids that stand still, with vertices in the world, to a scene."""
    for each in solids:
        server.scene.add_mesh_simple(
            f"/{name}/{each.link}",
            each.vertices.astype(np.float32),
            each.faces.astype(np.uint32),
            color=each.color,
            side="double",
        )


class Gizmos:
    """Handles in the scene by which the user drags the targets of end effectors and of a base."""

    def __init__(
        self, server: Any, robot: sp.Robot, size: float, moved: Callable[[int, Array], None]
    ) -> None:
        """Add the handles.

        Args:
            server: The server of viser.
            robot: The robot.
            size: Size of the handles [m].
            moved: Function called with the index of the end effector and the pose (4, 4) of its
                target when the user drags it.
        """
        self._server, self._moved, self._size = server, moved, size
        self._tips = followed_frames(robot)
        self.held: set[int] = set()
        self._refused = False
        self._handles: list[Any] = []
        self.make(rotations=True)

    def make(self, *, rotations: bool) -> None:
        """Create the handles anew, with or without rings for rotations."""
        places = [(handle.position, handle.wxyz) for handle in self._handles]
        for handle in self._handles:
            handle.remove()
        self.held.clear()
        self._handles = [self._new(k, rotations) for k in range(len(self._tips))]
        for handle, (position, wxyz) in zip(self._handles, places, strict=False):
            handle.position, handle.wxyz = position, wxyz

    def _new(self, k: int, rotations: bool) -> Any:
        handle = self._server.scene.add_transform_controls(
            f"/targets/{k}",
            scale=self._size,
            line_width=3.5,
            disable_rotations=not rotations,
            depth_test=False,
        )

        @handle.on_update
        async def _(event: Any) -> None:  # async, so that messages are handled in order
            if event.phase == "end":
                self.held.discard(k)
            else:
                self.held.add(k)
            try:
                self._moved(k, pose_of(event.target))
            except (SuppleError, ValueError):  # an invalid pose: `place` moves the handle back
                self._refused = True

        return handle

    def place(self, targets: Array) -> None:
        """Move all handles that the user does not hold to targets (tips, 4, 4)."""
        refused, self._refused = self._refused, False
        for k, (handle, T) in enumerate(zip(self._handles, targets, strict=True)):
            if refused or k not in self.held:
                handle.position, handle.wxyz = T[:3, 3], sp.poses.wxyz(T)

    def show(self, on: bool) -> None:
        """Show or hide the handles."""
        for handle in self._handles:
            handle.visible = on


def pose_of(node: Any) -> Array:
    """Return the pose (4, 4) of a node of the scene."""
    return np.asarray(sp.pose(np.asarray(node.position), wxyz=np.asarray(node.wxyz)))


class Ellipsoid:
    """The manipulability ellipsoid of an end effector, with an arrow along its shortest axis.

    The ellipsoid contains the velocities of the end effector for ‖q̇‖ <= 1.
    """

    def __init__(self, server: Any, name: str, shape: Shape) -> None:
        from supple.view.bodies import trimesh_module

        self._size = 0.22 * shape.size
        ball = trimesh_module().creation.icosphere(subdivisions=3, radius=1.0)
        self._ball = server.scene.add_mesh_simple(
            f"/{name}/ball",
            np.asarray(ball.vertices, dtype=np.float32),
            np.asarray(ball.faces, dtype=np.uint32),
            color=palette.rgb(palette.GREEN),
            opacity=0.28,
            cast_shadow=False,
            receive_shadow=False,
        )
        self._arrow = server.scene.add_arrows(
            f"/{name}/direction",
            np.array([[[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]], [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]]),
            palette.rgb(palette.VERMILION),
            shaft_radius=0.03,
            head_radius=0.09,
            head_length=0.22,
        )
        self.show(False)

    def place(self, position: NDArray[Any], J: NDArray[Any]) -> None:
        """Draw the ellipsoid of J (3, n), the position rows of the Jacobian, at a position (3,)."""
        U, sigma, _ = np.linalg.svd(J)
        sigma = np.concatenate([sigma, np.zeros(3 - len(sigma))])
        scale = self._size / max(float(sigma[0]), _HIDDEN_BELOW)
        if np.linalg.det(U) < 0:
            U = U * [1, 1, -1]
        turn = sp.poses.wxyz(sp.pose(rotation=U))
        least = 0.01 * self._size
        self._ball.position = self._arrow.position = position
        self._ball.wxyz = self._arrow.wxyz = turn
        self._ball.scale = tuple(max(scale * float(s), least) for s in sigma)
        length = 1.25 * self._size
        self._arrow.scale = (length, length, length)

    def show(self, on: bool) -> None:
        """Show or hide the ellipsoid and its arrow."""
        self._ball.visible = self._arrow.visible = on
