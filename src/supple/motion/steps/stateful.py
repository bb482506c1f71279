"""Steps with memory, which is passed in and returned as a value."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from supple.errors import InputError, short_repr
from supple.motion.linearization import Array, Linearization

Memory = TypeVar("Memory")


class StepWithMemory(Protocol[Memory]):
    """A step that depends on a linearization and on a memory of the previous ones.

    The step itself is immutable: it can serve many robots, each with its own memory.
    """

    def start(self, linearization: Linearization, /) -> Memory:
        """Return the memory for the first linearization of a motion."""
        ...

    def step(self, linearization: Linearization, memory: Memory, /) -> tuple[Array, Memory]:
        """Return q̇ (n,) and the memory for the next step."""
        ...


class StatefulStep(Generic[Memory]):
    """A step with memory as a plain step, which keeps the memory between calls.

    The calls must be the successive steps of one robot. Do not share it between robots or threads.

    Attributes:
        inner: The step with memory.
        memory: The current memory; None before the first call and after `reset`.
    """

    def __init__(self, inner: StepWithMemory[Memory]) -> None:
        if not callable(getattr(inner, "start", None)) or not callable(
            getattr(inner, "step", None)
        ):
            raise InputError(
                "StatefulStep: inner must be a step with the methods `start` and `step`; "
                f"given: {short_repr(inner)}"
            )
        self.inner = inner
        self.memory: Memory | None = None

    def __repr__(self) -> str:
        return f"StatefulStep({self.inner!r})"

    def __call__(self, linearization: Linearization) -> Array:
        """Return q̇ (n,) and update the memory."""
        memory = self.inner.start(linearization) if self.memory is None else self.memory
        dq, self.memory = self.inner.step(linearization, memory)
        return dq

    def reset(self) -> None:
        """Clear the memory: the next call is the first of a motion."""
        self.memory = None
