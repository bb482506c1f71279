"""Statuses of a batch or a motion: an array of integers whose entries are statuses."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import overload

_MAX_KINDS = 8  # maximum number of different statuses in a repr
S = TypeVar("S", bound="IntEnum | IntFlag")


class StatusArray(np.ndarray[Any, np.dtype[np.signedinteger[Any]]], Generic[S]):
    """An array of integers whose entries are statuses.

    The array is compared, masked and sliced like any other array, at the same speed; results of
    arithmetic are plain arrays. `status[3]` and iteration give statuses, and `count` counts the
    entries with a status.
    """

    kind: type[S]

    @staticmethod
    def of(kind: type[S], values: NDArray[np.signedinteger[Any]]) -> StatusArray[S]:
        """Return integers as statuses of a kind, without a copy."""
        array: StatusArray[S] = np.asarray(values).view(StatusArray)
        array.kind = kind
        return array

    def count(self, status: S) -> int:
        """Return the number of entries with a status; a flag may be one of several in an entry."""
        values = np.asarray(self)
        if issubclass(self.kind, IntFlag) and status:
            return int(np.count_nonzero(values & status))
        return int(np.count_nonzero(values == status))

    def __array_finalize__(self, source: Any) -> None:
        self.kind = getattr(source, "kind", None)  # type: ignore[assignment]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()]

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, index: int | tuple[int, ...]) -> S: ...
        @overload
        def __getitem__(self, index: Any) -> StatusArray[S]: ...

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        return value if isinstance(value, np.ndarray) else self.kind(int(value))

    def __iter__(self) -> Iterator[S]:  # type: ignore[override]
        return (self[i] for i in range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return StatusArray.of, (self.kind, np.asarray(self))

    def __repr__(self) -> str:
        if not self.ndim:
            return str(self.kind(int(np.asarray(self))))
        values, counts = np.unique(np.asarray(self), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        words = [f"{counts[i]} {self.kind(int(values[i]))}" for i in order[:_MAX_KINDS]]
        if len(order) > _MAX_KINDS:
            words.append(f"{counts[order[_MAX_KINDS:]].sum()} others")
        return f"<{self.kind.__name__} {self.shape}: {'; '.join(words) or 'none'}>"

    __str__ = __repr__
