"""Steps with memory, which is passed in and returned as a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from supple.errors import InputError, short_repr
from supple.motion.linearization import Array, Linearization

Memory = TypeVar("Memory")


class StepWithMemory(Protocol[Memory]):
    """A step that depends on a linearization and on a memory of previous linearizations.

    The step itself is immutable: it can serve many robots, each with its own memory.
    """

    def start(self, linearization: Linearization, /) -> Memory:
        """Return the memory for the first linearization of a motion."""
        ...

    def step(self, linearization: Linearization, memory: Memory, /) -> tuple[Array, Memory]:
        """Return q̇ (n,) and the memory for the next step."""
        ...


class StatefulStep(Generic[Memory]):
    """A step that wraps a step with memory and keeps the memory between calls.

    The calls must be the successive steps of one robot. Do not share the object between robots or
    threads.

    Attributes:
        inner: The step with memory.
        memory: The current memory, which can be set; None before the first call and after `reset`.
        used: The memory that the last call used.
    """

    inner: StepWithMemory[Memory]
    memory: Memory | None
    used: Memory | None

    def __init__(self, inner: StepWithMemory[Memory]) -> None:
        if not has_memory(inner):
            raise InputError(
                "StatefulStep: inner must be a step with the methods `start` and `step`; "
                f"given: {short_repr(inner)}"
            )
        self._set(inner=inner, memory=None, used=None)

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        if name != "memory":
            raise AttributeError(f"only the memory of a StatefulStep can be set; given: {name!r}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"StatefulStep({self.inner!r})"

    def __call__(self, linearization: Linearization) -> Array:
        """Return q̇ (n,) and update the memory."""
        memory = self.inner.start(linearization) if self.memory is None else self.memory
        dq, self.memory = self.inner.step(linearization, memory)
        self._set(used=memory)
        return dq

    def reset(self) -> None:
        """Clear the memory: the next call is the first of a motion."""
        self._set(memory=None, used=None)


def has_memory(step: object) -> bool:
    """Return whether a step has a memory: the methods `start` and `step`."""
    return callable(getattr(step, "start", None)) and callable(getattr(step, "step", None))


def remembering(step: Any) -> Any:
    """Return a step that keeps its memory, and that of the steps that it wraps, between calls.

    A step with memory is wrapped in a `StatefulStep`. A step that wraps a step with memory is
    copied, and the copy wraps the `StatefulStep`.
    """
    if isinstance(step, StatefulStep):
        return step
    if has_memory(step):
        return StatefulStep(step)
    if not is_dataclass(step):
        return step
    changed: dict[str, Any] = {}
    for name in _WRAPPED:
        inside: Any = getattr(step, name, None)
        several = isinstance(inside, Sequence)
        each = tuple(inside) if several else (inside,)
        kept = tuple(remembering(one) for one in each)
        if any(one is not before for one, before in zip(kept, each, strict=True)):
            changed[name] = kept if several else kept[0]
    wrapper: Any = step
    return replace(wrapper, **changed) if changed else step


def stateful_inside(step: Any) -> Iterator[StatefulStep[Any]]:
    """Yield each `StatefulStep` among a step and the steps that it wraps."""
    if isinstance(step, StatefulStep):
        yield step
    elif is_dataclass(step):
        for name in _WRAPPED:
            inside = getattr(step, name, None)
            for one in inside if isinstance(inside, Sequence) else (inside,):
                yield from stateful_inside(one)


_WRAPPED = ("step", "inner", "steps")  # fields of a step that hold a wrapped step
