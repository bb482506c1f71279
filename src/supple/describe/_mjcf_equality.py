"""The active equalities of an MJCF model: couplings of joints, and loops of bodies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from supple.describe._mjcf_values import MAIN, Values
from supple.describe._pose import Array, from_wxyz, translation
from supple.errors import DescriptionError, short_repr, unknown_name_error

if TYPE_CHECKING:
    from supple.describe._mjcf_tree import Instance, TreeBody

READ = ("joint", "connect", "weld")
_MAX_LOOPS = 1_000  # bounds the time for any file; robots have tens of them
_Copies = tuple[int, ...]


class Equality(NamedTuple):
    """A coupling: q1 - ref1 = Σ c[i] (q2 - ref2)^i, or = c[0] if there is no second joint."""

    one: str
    two: str | None
    c: tuple[float, ...]


class TreeLoop(NamedTuple):
    """Two poses, one on each of two bodies; they coincide, or share their origin ("point")."""

    name: str
    kind: Literal["point", "weld"]
    bodies: tuple[int, int]
    poses: tuple[Array, Array]


class Equalities:
    """Reader of the equalities of a model and of the models that are attached to it."""

    def __init__(self, instances: Sequence[Instance], bodies: Sequence[TreeBody]) -> None:
        self.instances = instances
        self.bodies = bodies
        self.kinds = {joint.name: joint.kind for body in bodies for joint in body.joints}
        self.couplings: list[Equality] = []
        self.loops: list[TreeLoop] = []
        self.ignored: list[str] = []

    def read(self) -> None:
        """Read all equalities that are active."""
        for instance in self.instances:
            for element in instance.model.equalities:
                if element.tag not in READ:
                    if element.get("active") != "false":
                        self.ignored.append(element.tag)
                    continue
                held = instance.model.of_class(element.get("class") or MAIN)["equality"]
                values = Values(element, f"equality {element.tag}", held)
                if values.keyword("active", ("true", "false"), "true") == "false":
                    continue
                if element.tag == "joint":
                    self.couplings.extend(self._coupling(values, instance))
                    continue
                for loop in self._loops(element, values, instance):
                    self.loops.append(loop)
                    if len(self.loops) > _MAX_LOOPS:
                        most = f"contains more than {_MAX_LOOPS} loops, counting copies"
                        raise DescriptionError(f"{most}.")

    def _coupling(self, values: Values, instance: Instance) -> Iterator[Equality]:
        """Yield the coupling of a <joint> of <equality> for each copy of its joints."""
        c = tuple(values.numbers("polycoef", 5, (0, 1, 0, 0, 0), least=1).tolist())
        ones = self._joints(values.text("joint1"), instance, values)
        if not values.text("joint2"):
            yield from (Equality(one, None, c) for one in ones.values())
            return
        twos = self._joints(values.text("joint2"), instance, values)
        for copies, one in ones.items():
            if twos.get(copies) == one:
                raise values.error(f"couples {short_repr(one)} with itself")
            if copies in twos:  # MuJoCo drops couplings between different copies
                yield Equality(one, twos[copies], c)

    def _joints(self, name: str, instance: Instance, values: Values) -> dict[_Copies, str]:
        """Return the joints that a name in the file refers to, one per copy."""
        found = instance.named.get(("joint", name))
        if found is None:
            final = f"{instance.prefix}{name}{instance.suffix}"
            if not name or final not in self.kinds:
                if instance.prefix or instance.suffix:
                    return {}  # the joint was not attached
                names = [each for each in self.kinds if each]
                raise DescriptionError(
                    f"{values.what} of <equality>: {unknown_name_error('joint', name, names)}"
                )
            found = {(): final}
        for each in found.values():
            if self.kinds[each] not in ("hinge", "slide"):
                raise values.error(
                    f"couples {short_repr(each)}, which is neither a hinge nor a slide"
                )
        return found

    def _loops(self, element: Element, values: Values, instance: Instance) -> Iterator[TreeLoop]:
        """Yield the loop of a <connect> or <weld> for each copy of its bodies.

        A mocap body is moved by a simulation and is not part of the robot.
        """
        kind: Literal["point", "weld"] = "point" if element.tag == "connect" else "weld"
        by_site = bool(values.text("site1") or values.text("site2"))
        key = "site" if by_site else "body"
        ones = self._placed(key, values.text(f"{key}1"), instance, values)
        other = values.text(f"{key}2")
        twos: dict[_Copies, tuple[int, Array]] = {(): (0, np.eye(4))}
        if other or by_site:
            twos = self._placed(key, other, instance, values)
        for copies, (one, T_one) in ones.items():
            if copies not in twos and () not in twos:
                continue
            two, T_two = twos[copies if copies in twos else ()]
            if any(self.bodies[each].mocap for each in (one, two)):
                continue
            poses = (T_one, T_two) if by_site else self._anchors(kind, values, one, two)
            label = "".join(f"_{i}" for i in copies)
            name = f"{instance.prefix}{element.get('name', '')}{instance.suffix}"
            name = f"{name or element.tag + str(len(self.loops))}{label}"
            yield TreeLoop(name, kind, (one, two), poses)

    def _placed(
        self, key: str, name: str, instance: Instance, values: Values
    ) -> dict[_Copies, tuple[int, Array]]:
        """Return the bodies or sites that a name in the file refers to, with poses on bodies."""
        found: dict[_Copies, Any] | None = instance.named.get((key, name))
        if found is not None:
            return found
        if key == "body" and name == "world":
            return {(): (0, np.eye(4))}
        if name and (instance.prefix or instance.suffix):
            return {}  # the body was not attached
        names = [each for kind, each in instance.named if kind == key]
        raise DescriptionError(
            f"{values.what} of <equality>: {unknown_name_error(key, name, names)}"
        )

    def _anchors(self, kind: str, values: Values, one: int, two: int) -> tuple[Array, Array]:
        """Return two poses, one on each body; the equality keeps them together.

        Without a relative pose in the file, the two poses coincide at MuJoCo's qpos0.
        """
        T = np.linalg.inv(self._world[one]) @ self._world[two]
        anchor = values.numbers("anchor", 3, (0, 0, 0))
        if kind == "point":
            at = T[:3, :3].T @ (anchor - T[:3, 3])
            return translation(*anchor), translation(*at)
        relative = values.numbers("relpose", 7, (0, 1, 0, 0, 0, 0, 0))
        on = translation(*anchor)
        given = bool(relative[3:].any())
        return from_wxyz(relative[:3], relative[3:]) if given else T @ on, on

    @cached_property
    def _world(self) -> list[Array]:
        """The poses of all bodies in the world at qpos0."""
        poses: list[Array] = []
        for body in self.bodies:
            poses.append(body.pose if body.parent < 0 else poses[body.parent] @ body.pose)
        return poses
