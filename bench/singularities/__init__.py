"""Tracking through singularities: passages, methods, measures.

    PYTHONPATH=bench python -m singularities

docs/singularities.md explains the results and how to add a method.
"""

from .arms import ROBOTS
from .measures import Measures, measured
from .methods import METHODS, Method, run
from .passages import KINDS, Passage, passage

__all__ = [
    "KINDS",
    "METHODS",
    "ROBOTS",
    "Measures",
    "Method",
    "Passage",
    "measured",
    "passage",
    "run",
]
