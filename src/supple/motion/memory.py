"""Steps that remember: their memory is a value of its own, handed in and out."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from supple.errors import InputError, short_repr
from supple.motion.linearization import Array, Linearization

Memory = TypeVar("Memory")


class StepWithMemory(Protocol[Memory]):
    """What makes q̇ of a linearization and of what it remembers of those before.

    It is frozen itself: one may move many robots, each with a memory of its own.
    """

    def start(self, linearization: Linearization, /) -> Memory:
        """The memory at the first of a row of linearizations."""
        ...

    def step(self, linearization: Linearization, memory: Memory, /) -> tuple[Array, Memory]:
        """Return q̇ (n,) and the memory for the next."""
        ...


class StatefulStep(Generic[Memory]):
    """A plain step that keeps the memory of a step that has one: called, it returns q̇ (n,).

    Calls are the steps of one robot in their order. Not to be shared between robots or threads.

    Attributes:
        inner: The step with memory.
        memory: What it remembers; None before the first call and after `forget`.
    """

    def __init__(self, inner: StepWithMemory[Memory]) -> None:
        if not callable(getattr(inner, "start", None)) or not callable(
            getattr(inner, "step", None)
        ):
            raise InputError(
                "StatefulStep takes a step with memory, one with `start` and `step`; "
                f"given: {short_repr(inner)}"
            )
        self.inner = inner
        self.memory: Memory | None = None

    def __repr__(self) -> str:
        return f"StatefulStep({self.inner!r})"

    def __call__(self, linearization: Linearization) -> Array:
        """Return q̇ (n,), and remember."""
        memory = self.inner.start(linearization) if self.memory is None else self.memory
        dq, self.memory = self.inner.step(linearization, memory)
        return dq

    def forget(self) -> None:
        """Begin anew: the next call is the first of a motion."""
        self.memory = None
