"""Readers of robot files and tables; each returns an immutable `Description`."""

from supple.describe.builtin import builtin
from supple.describe.builtin import names as builtin_names
from supple.describe.description import Description
from supple.describe.dh import dh
from supple.describe.from_mujoco import from_mujoco
from supple.describe.from_pinocchio import from_pinocchio
from supple.describe.inertia import Inertia
from supple.describe.joint import Frame, Joint, Mimic
from supple.describe.loop import Coupling, Loop
from supple.describe.mjcf import mjcf
from supple.describe.srdf import Group
from supple.describe.urdf import urdf

__all__ = [
    "Coupling",
    "Description",
    "Frame",
    "Group",
    "Inertia",
    "Joint",
    "Loop",
    "Mimic",
    "builtin",
    "builtin_names",
    "dh",
    "from_mujoco",
    "from_pinocchio",
    "mjcf",
    "urdf",
]


def __dir__() -> list[str]:
    return __all__
