"""Robot, q, tasks -> dq: linearizations, damping rules, steps."""

from supple.motion.linearization import Linearization

__all__ = ["Linearization"]
