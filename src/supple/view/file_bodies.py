"""Solids of the links in a robot's file."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import ParseError, fromstring, parse

import supple as sp
from supple.describe._xacro import expanded, is_xacro
from supple.view.bodies import Solid
from supple.view.mjcf_bodies import solids_in_mjcf
from supple.view.urdf_bodies import solids_in_urdf


def solids_in(path: Path, robot: sp.Robot) -> tuple[list[Solid], list[str]]:
    """Return the solids of all links in a URDF or MJCF file, and messages about problems."""
    try:
        root = fromstring(expanded(path, {})) if is_xacro(path) else parse(path).getroot()
    except (OSError, ParseError):
        return [], []
    if root.tag == "mujoco":
        return solids_in_mjcf(path, robot)
    return solids_in_urdf(path, root, robot) if root.tag == "robot" else ([], [])
