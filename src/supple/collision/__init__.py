"""Shapes, and the pairs of a robot's links that are checked against each other.

A shape has a pose in the link, frame or world that it is fixed to. `supple.World` holds obstacles
and, if they differ from those of the robot's file, the shapes of links.
"""

from supple.collision.certificate import Certificate
from supple.collision.cover import SphereCover, sphere_links, spheres_of
from supple.collision.hull import hull_of
from supple.collision.model import Contact, collides, contacts
from supple.collision.pairs import (
    ClosePair,
    UncheckedPair,
    close_pairs,
    srdf_pairs,
    srdf_text,
    unchecked_pairs,
)
from supple.describe.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    HalfSpace,
    Mesh,
    Sphere,
)

__all__ = [
    "Box",
    "Capsule",
    "Certificate",
    "ClosePair",
    "Contact",
    "ConvexHull",
    "Cylinder",
    "HalfSpace",
    "Mesh",
    "Sphere",
    "SphereCover",
    "UncheckedPair",
    "close_pairs",
    "collides",
    "contacts",
    "hull_of",
    "sphere_links",
    "spheres_of",
    "srdf_pairs",
    "srdf_text",
    "unchecked_pairs",
]


def __dir__() -> list[str]:
    return __all__
