"""Humanoids that follow human motions (docs/retargeting.md)."""

from supple.retargeting.humanoid import Humanoid, Limb
from supple.retargeting.mapping import Follow, Mapping, PointMapping
from supple.retargeting.motion import HumanMotion
from supple.retargeting.references import default_limits
from supple.retargeting.result import Retargeted
from supple.retargeting.retargeting import Retargeter
from supple.retargeting.table import TableMapping
from supple.retargeting.walking import walking

__all__ = [
    "Follow",
    "HumanMotion",
    "Humanoid",
    "Limb",
    "Mapping",
    "PointMapping",
    "Retargeted",
    "Retargeter",
    "TableMapping",
    "default_limits",
    "walking",
]


def __dir__() -> list[str]:
    return __all__
