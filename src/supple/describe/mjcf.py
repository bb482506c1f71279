"""Descriptions from MJCF files (MuJoCo)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from supple.describe._include import read_document
from supple.describe._mjcf_tree import MAX_DEPTH, MAX_ELEMENTS, Tree, TreeBody, TreeJoint, tree_of
from supple.describe._pose import Array, motion, translation
from supple.describe._source import Budget, PathOrText, read_source
from supple.describe._validate import check_unique
from supple.describe.description import Description
from supple.describe.inertia import Inertia
from supple.describe.joint import Frame, Joint, Kind, Mimic
from supple.describe.link_shapes import LinkShapes
from supple.describe.loop import Coupling, Loop, polynomial_at, welded_with_couplings
from supple.describe.tips import with_tips
from supple.describe.weld import names_to_weld
from supple.errors import DescriptionError, short_repr, warn


def mjcf(
    source: PathOrText,
    *,
    fixed: str | Iterable[str] = (),
    tips: str | Iterable[str] | None = None,
) -> Description:
    """Return a robot from an MJCF file, or from an MJCF text (a string that starts with "<").

    Kinematics and masses are interpreted as in MuJoCo, which need not be installed. Geoms that take
    part in contacts become `Robot.shapes`, which are read on first use; meshes need not exist
    before that. Textures are ignored. q is MuJoCo's qpos. In detail:

    - A body is a link and the root is "world"; a body without joints is fixed to its parent.
    - A hinge is revolute, or continuous if it has no range; a slide is prismatic. `ref` and the
      joint's anchor `pos` are respected. Several joints of a body have links "<body>/<joint>"
      between them.
    - A free joint is floating, and its position is the pose of its body in the world; without a
      name it is called "<body>/free". The range of a ball joint is ignored. `fixed` welds free and
      ball joints at qpos0.
    - A site is a frame, called "<site>_site" if a body has the same name; sites without a name are
      ignored.
    - An active equality of two joints is a mimic if it is linear and its first joint is not yet a
      mimic, and a coupling otherwise; an equality of a single joint welds the joint. <connect> and
      <weld> are loops, whose frames are links, sites, or new frames "<name>/a" and "<name>/b".
      Loops of mocap bodies are ignored; equalities of tendons are ignored with a warning. Tendons,
      actuators, keyframes and the parameters of contacts are ignored; deformable bodies are
      rejected.
    - Body frames are those of the file: `fusestatic` and `align` are not applied.
    - Masses are those of <inertial>. MuJoCo computes missing masses from shapes and meshes; this
      reader leaves them unknown, and functions that need them raise an error. Armatures are
      ignored.
    - Bodies and joints without a name are called "body<id>" and "joint<id>".

    Args:
        source: A path, or the text itself, without a document type; together with included files
            at most 16 MB, 20,000 elements and 4,000 bodies, joints, sites and frames, counting
            copies.
        fixed: Names of joints to weld at qpos0; joints that mimic them are welded too.
        tips: Name or names of the end effectors (any bodies or sites). By default one frame at the
            end of each branch of joints: see `supple.describe.tips`.

    Raises:
        DescriptionError: The file cannot be read or is not valid MJCF.
        UnknownNameError: A name in `fixed` or `tips` does not exist.
    """
    budget = Budget(max_elements=MAX_ELEMENTS, max_depth=MAX_DEPTH)
    file = read_source(source, budget, root="mujoco")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # checked by Description
            tree = tree_of(read_document(file, budget))
            _warn_of_ignored(tree, file.label)
            reader = MjcfReader(tree, file.root.get("model") or "MuJoCo Model", file.label)
            return with_tips(reader.description(fixed), tips)
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error


def _warn_of_ignored(tree: Tree, label: str) -> None:
    if tree.ignored:
        kinds = ", ".join(f"<{short_repr(kind)[1:-1]}>" for kind in dict.fromkeys(tree.ignored))
        warn(f"{label}: equalities other than those of joints and bodies are ignored: {kinds}")


class MjcfReader:
    """Builder of the description of a tree, with names for all of its parts."""

    def __init__(self, tree: Tree, name: str, label: str) -> None:
        self.tree = tree
        self.name = name
        self.label = label
        for kind, names in (
            ("link", [body.name for body in tree.bodies]),
            ("joint", [joint.name for body in tree.bodies for joint in body.joints]),
            ("site", [site for body in tree.bodies for site, _ in body.sites]),
        ):
            check_unique(kind, [each for each in names if each])
        self.bodies = _named("body", [body.name for body in tree.bodies])
        owners = [
            (self.bodies[i], joint) for i, body in enumerate(tree.bodies) for joint in body.joints
        ]
        names = _named("joint", [joint.name for _, joint in owners])
        self.joints = {
            joint: f"{body}/free" if joint.kind == "free" and not joint.name else name
            for (body, joint), name in zip(owners, names, strict=True)
        }
        self.refs = {name: joint.ref for joint, name in self.joints.items()}

    def description(self, fixed: str | Iterable[str]) -> Description:
        """Return the description, with some joints welded at qpos0."""
        weld = names_to_weld(fixed, list(self.refs))
        still = {name: self.refs[name] for name in weld}
        mimics, couplings = self._equalities(still)
        chain = [
            replace(joint, mimic=mimics[joint.name]) if joint.name in mimics else joint
            for i, body in enumerate(self.tree.bodies[1:], start=1)
            for joint in self._body(i, body, weld)
        ]
        sites = list(self._sites({joint.child for joint in chain} | {self.bodies[0]}))
        ends, loops = self._loops(sites)
        joints, left = welded_with_couplings(chain, couplings, still)
        return Description(
            self.name,
            joints,
            frames=(*sites, *ends),
            inertias=tuple(self._masses()),
            shapes=self._shapes(),
            loops=loops,
            couplings=left,
        )

    def _shapes(self) -> LinkShapes:
        """Return the shapes of all bodies, and the pairs that the file excludes."""
        records = [
            replace(geom, link=link)
            for link, body in zip(self.bodies, self.tree.bodies, strict=True)
            for geom in body.geoms
        ]
        known = set(self.bodies)
        excluded = [pair for pair in self.tree.excluded if known.issuperset(pair)]
        return LinkShapes(records, self.label, None, excluded)

    def _masses(self) -> Iterator[Inertia]:
        """Yield the inertia of each body that has one."""
        for link, body in zip(self.bodies[1:], self.tree.bodies[1:], strict=True):
            stated = [mass for mass in body.masses if mass is not None]
            if stated:
                mass, T, moments = stated[0]
                R = T[:3, :3]
                yield Inertia(link, mass, T[:3, 3], R @ moments @ R.T)
            elif body.masses:
                yield Inertia.unknown(link)

    def _body(self, i: int, body: TreeBody, weld: frozenset[str]) -> Iterator[Joint]:
        """Yield the joints from the parent body to this one, in order."""
        parent, child, here = self.bodies[body.parent], self.bodies[i], body.pose
        if not body.joints:
            yield Joint(f"{child}/fixed", "fixed", parent, child, here)
        for joint in body.joints:
            last = joint is body.joints[-1]
            link = child if last else f"{child}/{self.joints[joint]}"
            yield self._joint(joint, parent, link, here, weld)
            parent, here = link, np.eye(4)

    def _joint(
        self, joint: TreeJoint, parent: str, child: str, here: Array, weld: frozenset[str]
    ) -> Joint:
        """Return one joint, with its axis through the anchor; q = ref at MuJoCo's qpos0."""
        name = self.joints[joint]
        kinds: dict[str, Kind] = {
            "slide": "prismatic",
            "hinge": "revolute" if joint.range else "continuous",
        }
        kind = kinds.get(joint.kind)
        if kind is None:
            if name in weld:
                return Joint(name, "fixed", parent, child, here)
            if joint.kind == "free":  # its position is the body's pose in the world
                return Joint(name, "floating", parent, child)
            at = here @ translation(*joint.anchor)
            return Joint(
                name, "ball", parent, child, at, child_placement=translation(*-joint.anchor)
            )
        anchor = joint.anchor if kind != "prismatic" else np.zeros(3)
        axis = joint.axis / (abs(joint.axis).max() or 1.0)  # avoids overflow in the norm
        axis = axis / (float(np.linalg.norm(axis)) or 1.0)
        lower, upper = joint.range or (-math.inf, math.inf)
        return Joint(
            name=name,
            kind=kind,
            parent=parent,
            child=child,
            origin=here @ translation(*anchor) @ motion(kind, axis, -joint.ref),
            axis=axis,
            child_placement=translation(*-anchor),
            lower=lower,
            upper=upper,
        )

    def _equalities(self, still: dict[str, float]) -> tuple[dict[str, Mimic], list[Coupling]]:
        """Return mimics and couplings; add joints that are held at a value to `still`.

        MuJoCo enforces  q1 - ref1 = c0 + c1 (q2 - ref2) + c2 (q2 - ref2)^2 + ...
        """
        mimics: dict[str, Mimic] = {}
        couplings: list[Coupling] = []
        for name, two, c in self.tree.equalities:
            if name in still:
                continue
            if two is None:
                still[name] = self.refs[name] + c[0]
            elif any(c[2:]) or name in mimics or _leads_to(two, name, mimics):
                moved = polynomial_at(c, self.refs[two], self.refs[name])
                couplings.append(Coupling(name, two, moved))
            else:
                offset = self.refs[name] + c[0] - c[1] * self.refs[two]
                mimics[name] = Mimic(two, c[1], offset)
        return mimics, couplings

    def _loops(self, sites: list[Frame]) -> tuple[list[Frame], tuple[Loop, ...]]:
        """Return the frames of loops that are neither links nor sites, and the loops."""
        taken = {*self.bodies, *(frame.name for frame in sites)}
        added: list[Frame] = []
        loops: list[Loop] = []
        names: set[str] = set()
        on: dict[str, list[Frame]] = {}
        for site in sites:
            on.setdefault(site.link, []).append(site)
        for each in self.tree.loops:
            name = _unique(each.name, names)
            names.add(name)
            ends = []
            for body, T, end in zip(each.bodies, each.poses, "ab", strict=True):
                link = self.bodies[body]
                same = (f for f in on.get(link, ()) if (f.placement == T).all())
                frame = link if (np.eye(4) == T).all() else next((f.name for f in same), None)
                if frame is None:
                    frame = _unique(f"{name}/{end}", taken)
                    taken.add(frame)
                    added.append(Frame(frame, link, T))
                ends.append(frame)
            one, two = ends
            loops.append(Loop(one, two, each.kind, name))
        return added, tuple(loops)

    def _sites(self, links: set[str]) -> Iterator[Frame]:
        taken = set(links)
        for link, body in zip(self.bodies, self.tree.bodies, strict=True):
            for site, placement in body.sites:
                name = _unique(site, taken, "_site")
                taken.add(name)
                yield Frame(name, link, placement)


def _leads_to(name: str, end: str, mimics: dict[str, Mimic]) -> bool:
    """Return whether `name` is the joint `end`, or follows it directly or through other joints."""
    while name != end and name in mimics:
        name = mimics[name].joint
    return name == end


def _named(kind: str, given: list[str]) -> list[str]:
    """Return names; a missing name becomes the kind and the index, such as "body3"."""
    taken = set(given)
    return [name or _unique(f"{kind}{i}", taken) for i, name in enumerate(given)]


def _unique(name: str, taken: set[str], suffix: str = "_") -> str:
    """Return the name with suffixes added until it is not taken."""
    while name in taken:
        name += suffix
    return name
