"""MJCF files (MuJoCo) -> Description."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from supple.describe._include import check_included
from supple.describe._pose import Array, from_wxyz, motion, translation
from supple.describe._source import Budget, PathOrText, Source, read_source
from supple.describe.description import Description, Frame, Joint, Kind, Mimic
from supple.describe.weld import names_to_weld, welded
from supple.errors import DescriptionError, MissingExtraError, shown

_MAX_DEPTH = 400
_MAX_ELEMENTS = 20_000  # MuJoCo's time grows as the square of the siblings


def mjcf(source: PathOrText, *, fixed: str | Iterable[str] = ()) -> Description:
    """A robot from an MJCF file, or from an MJCF text (a string that starts with "<").

    MuJoCo compiles the model; its tree becomes the description, and q is MuJoCo's qpos:

    - a body is a link, the root is "world"; a body without joint is fixed to its parent;
    - hinge -> revolute, or continuous if unlimited; slide -> prismatic; `ref` and the joint's
      anchor `pos` are kept; several joints on a body have links "<body>/<joint>" between them;
    - free and ball joints are refused unless named in `fixed`, and are then welded at qpos0; a
      free joint without a name is called "<body>/free";
    - a site is a frame (unnamed ones are left out; "<site>_site" if a body has its name);
    - an active equality between two joints is a mimic if it is linear, and refused if not; one
      that pins a single joint welds it there. Loops, tendons, contacts, actuators and keyframes
      are no part of the tree and are not read;
    - unnamed bodies and joints are called "body<id>" and "joint<id>".

    Args:
        source: a path or the text itself; with the files it includes at most 16 MB and 20,000
            elements, no document type.
        fixed: names of joints to weld at qpos0; what mimics them stands still too.

    Raises:
        DescriptionError: a file that cannot be read, or that MuJoCo does not accept.
        UnknownNameError: a name in `fixed` that no joint has.
        MissingExtraError: MuJoCo is not installed.
    """
    budget = Budget(max_elements=_MAX_ELEMENTS, max_depth=_MAX_DEPTH)
    file = read_source(source, budget, root="mujoco")
    try:
        check_included(file, budget)
        return _Reader(_compiled(file)).description(fixed)
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error


def _compiled(file: Source) -> Any:
    try:
        import mujoco  # heavy and optional: only when an MJCF is read
    except ImportError as error:
        raise MissingExtraError("mujoco", "reading an MJCF file") from error
    with _quiet(mujoco):
        try:
            if file.path is None:
                return mujoco.MjModel.from_xml_string(file.data.decode())
            return mujoco.MjModel.from_xml_path(str(file.path))
        except Exception as error:
            problem = " ".join(str(error).split())
            raise DescriptionError(f"MuJoCo does not accept it: {problem}.") from error


@contextmanager
def _quiet(mujoco: Any) -> Iterator[None]:
    """No warnings printed nor MUJOCO_LOG.TXT written; a handler that the user has set stays."""
    if mujoco.get_mju_user_warning() is not None:
        yield
        return
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)


class _Reader:
    """A compiled MjModel and the names of its parts."""

    def __init__(self, model: Any) -> None:
        import mujoco

        self.model = model
        self.types = mujoco.mjtJoint
        self.equality = mujoco.mjtEq.mjEQ_JOINT
        self.bodies = self._named("body", model.nbody)
        self.joints = self._named("joint", model.njnt)
        for j in range(model.njnt):
            if not model.joint(j).name and model.jnt_type[j] == self.types.mjJNT_FREE:
                self.joints[j] = f"{self.bodies[model.jnt_bodyid[j]]}/free"

    def _named(self, kind: str, count: int) -> list[str]:
        part = getattr(self.model, kind)
        given = [part(i).name for i in range(count)]
        taken = set(given)
        return [name or _unique(f"{kind}{i}", taken) for i, name in enumerate(given)]

    def description(self, fixed: str | Iterable[str]) -> Description:
        weld = names_to_weld(fixed, self.joints)
        values = {self.joints[j]: self._ref(j) for j in range(self.model.njnt)}
        still = {name: values[name] for name in weld}
        mimics = self._equalities(still)
        chain = [
            replace(joint, mimic=mimics.get(joint.name))
            for body in range(1, self.model.nbody)
            for joint in self._body(body, weld)
        ]
        name = self.model.names.split(b"\0", 1)[0].decode(errors="replace") or "mjcf"
        sites = tuple(self._sites({joint.child for joint in chain} | {self.bodies[0]}))
        return Description(name, welded(chain, still), frames=sites)

    def _ref(self, j: int) -> float:
        """The coordinate of a hinge or slide in the pose that the file draws [rad or m]."""
        several = self.model.jnt_type[j] in (self.types.mjJNT_FREE, self.types.mjJNT_BALL)
        return 0.0 if several else float(self.model.qpos0[self.model.jnt_qposadr[j]])

    def _body(self, body: int, weld: frozenset[str]) -> Iterator[Joint]:
        """The joints from the parent body to this one, in order."""
        m = self.model
        parent, child = self.bodies[m.body_parentid[body]], self.bodies[body]
        here = from_wxyz(m.body_pos[body], m.body_quat[body])
        first, count = int(m.body_jntadr[body]), int(m.body_jntnum[body])
        if count == 0:
            yield Joint(f"{child}/fixed", "fixed", parent, child, here)
        for j in range(first, first + count):
            last = j == first + count - 1
            link = child if last else f"{child}/{self.joints[j]}"
            yield self._joint(j, parent, link, here, weld)
            parent, here = link, np.eye(4)

    @np.errstate(over="ignore", invalid="ignore")  # a Description refuses the result
    def _joint(self, j: int, parent: str, child: str, here: Array, weld: frozenset[str]) -> Joint:
        """One joint: turned about its anchor, q measured so that the drawn pose is at q = ref."""
        m, name = self.model, self.joints[j]
        kinds: dict[int, Kind] = {
            int(self.types.mjJNT_SLIDE): "prismatic",
            int(self.types.mjJNT_HINGE): "revolute" if m.jnt_limited[j] else "continuous",
        }
        kind = kinds.get(int(m.jnt_type[j]))
        if kind is None:
            what = "free" if m.jnt_type[j] == self.types.mjJNT_FREE else "a ball joint"
            if name not in weld:
                raise DescriptionError(
                    f"joint {shown(name)} is {what}, which is more than one coordinate; "
                    f"weld it with fixed=[{shown(name)}]."
                )
            return Joint(name, "fixed", parent, child, here)
        anchor = np.array(m.jnt_pos[j]) if kind != "prismatic" else np.zeros(3)
        axis = np.array(m.jnt_axis[j])
        lower, upper = m.jnt_range[j] if m.jnt_limited[j] else (-math.inf, math.inf)
        return Joint(
            name=name,
            kind=kind,
            parent=parent,
            child=child,
            origin=here @ translation(*anchor) @ motion(kind, axis, -self._ref(j)),
            axis=axis,
            tail=translation(*-anchor),
            lower=lower,
            upper=upper,
        )

    def _equalities(self, still: dict[str, float]) -> dict[str, Mimic]:
        """Mimics from the joint equalities; a joint that is pinned alone is added to `still`.

        MuJoCo holds  q1 - ref1 = c0 + c1 (q2 - ref2) + c2 (q2 - ref2)^2 + ...
        """
        m = self.model
        mimics: dict[str, Mimic] = {}
        for i in range(m.neq):
            if m.eq_type[i] != self.equality or not m.eq_active0[i]:
                continue
            one, two = int(m.eq_obj1id[i]), int(m.eq_obj2id[i])
            name = self.joints[one]
            if name in still:
                continue
            c = [float(value) for value in m.eq_data[i][:5]]
            if two < 0:
                still[name] = self._ref(one) + c[0]
                continue
            if any(c[2:]):
                raise DescriptionError(
                    f"joint {shown(name)} follows {shown(self.joints[two])} by a polynomial of "
                    f"higher degree {c}; expected a linear one, or weld it with "
                    f"fixed=[{shown(name)}]."
                )
            if name in mimics:
                both = f"{shown(mimics[name].joint)} and {shown(self.joints[two])}"
                raise DescriptionError(f"joint {shown(name)} follows two joints: {both}.")
            offset = self._ref(one) + c[0] - c[1] * self._ref(two)
            mimics[name] = Mimic(self.joints[two], c[1], offset)
        return mimics

    def _sites(self, links: set[str]) -> Iterator[Frame]:
        m = self.model
        taken = set(links)
        for i in range(m.nsite):
            name = m.site(i).name
            if name:
                name = _unique(name, taken, "_site")
                taken.add(name)
                placement = from_wxyz(m.site_pos[i], m.site_quat[i])
                yield Frame(name, self.bodies[m.site_bodyid[i]], placement)


def _unique(name: str, taken: set[str], suffix: str = "_") -> str:
    """The name, with as many suffixes as it takes to be free."""
    while name in taken:
        name += suffix
    return name
