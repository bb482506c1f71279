"""The targets of the feet: at rest while they stand, blended into the swing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array
from supple.retargeting.contacts import Mask, Stance, blended
from supple.retargeting.rotations import smooth

Indices = NDArray[np.intp]


class Event(NamedTuple):
    """A foot begins to be held, or is released, after a frame.

    Attributes:
        frame: The frame.
        foot: Index of the foot.
        anchor: The pose (4, 4) at which it is held [m]; None to release it.
        over: Number of frames that this takes.
    """

    frame: int
    foot: int
    anchor: Array | None
    over: int


class Steps:
    """Targets of one foot, computed block by block with a fixed look-ahead.

    While the foot stands, its target is the standing pose next to the mean of its first frames.
    `blend` frames before and after, the target moves smoothly from and to the human's pose.
    """

    def __init__(self, stance: Stance, foot: int, blend: int, mean: int) -> None:
        self.stance, self.foot, self.blend, self.mean = stance, foot, blend, mean
        self.events: list[Event] = []
        self._anchors: dict[int, Array] = {}  # by the first frame of a stance
        self._start, self._end = -1, -(10**9)  # of the last stance before the next block

    def targets(self, flags: Mask, poses: Array, first: int, begin: int, end: int) -> Array:
        """Return the targets (end - begin, 4, 4) of frames [begin, end).

        Args:
            flags: Whether the foot stands, from frame `first` on.
            poses: The human's poses of the foot (n, 4, 4), from frame `first` on.
            first: Index of the first frame given, before `begin` unless that is 0.
            begin: The first frame of the block, which follows the last block.
            end: The frame after the block; flags reach `blend` + `mean` frames farther, or to the
                end of the motion.
        """
        now = flags[begin - first :]
        was = flags[begin - 1 - first] if begin > 0 else False
        before = np.concatenate([[was], now[:-1]])
        starts = begin + np.flatnonzero(now & ~before)
        for s in starts[starts < end + self.blend]:
            self._anchor(int(s), now[s - begin :], poses[s - first :])
        k = np.arange(begin, end)
        stands = now[: end - begin]
        ends = begin + np.flatnonzero(before & ~now) - 1  # the last frames of stances
        self._add_events(starts, ends, begin, end)
        last = np.full(len(k), self._start)
        inner = starts[starts < end]
        last[inner - begin] = inner
        last = np.maximum.accumulate(last)
        ended = np.where(stands, k, self._end)
        ended = np.maximum.accumulate(np.concatenate([[self._end], ended]))[1:]
        following = np.concatenate([starts, [10**9]])
        coming = following[np.searchsorted(following, k, side="right")]
        length = np.minimum(self.blend, coming - ended)
        shares = [smooth(1 - (k - ended) / length), smooth(1 - (coming - k) / length)]
        own = poses[begin - first : end - first]
        pairs = [own.copy(), own.copy()]
        for s, anchor in self._anchors.items():
            pairs[0][last == s] = anchor
            pairs[1][coming == s] = anchor
        pairs[0][last < 0] = own[last < 0]
        shares = [
            np.where(stands, alone, share) for alone, share in zip((1.0, 0.0), shares, strict=True)
        ]
        made = blended(own, (pairs[0], pairs[1]), (shares[0], shares[1]))
        lifted = self.stance.lift(self.foot, made, 1 - shares[0] - shares[1])
        made = np.where(stands[:, None, None], pairs[0], lifted)
        self._start, self._end = int(last[-1]), int(ended[-1])
        self._anchors = {s: a for s, a in self._anchors.items() if s >= self._start}
        return np.asarray(made)

    def _add_events(self, starts: Indices, ends: Indices, begin: int, end: int) -> None:
        """Add the events of frames [begin, end): held at the first frame of a stance, and free
        half-way between two stances at the latest.
        """
        quick = self.blend // 2
        for s in starts[starts < end + self.blend].tolist():
            ended = max([self._end, *ends[ends < s].tolist()])
            frame = max(s - quick, ended + (s - ended) // 2, 0)
            if begin <= frame < end:
                self.events.append(
                    Event(frame, self.foot, self._anchors[s], max(s - frame - 2, min(s - frame, 1)))
                )
        for e in ends[(ends >= begin) & (ends < end)].tolist() if len(ends) else []:
            following = starts[starts > e].tolist()
            half = (following[0] - e) // 2 if following else quick
            self.events.append(Event(e, self.foot, None, min(quick, half)))

    def _anchor(self, start: int, flags: Mask, poses: Array) -> None:
        """Store the standing pose of the stance that begins at a frame."""
        if start in self._anchors:
            return
        stands = flags[: self.mean + 1]
        count = len(stands) if stands.all() else int(np.argmin(stands))
        mean = poses[:count].mean(axis=0)
        self._anchors[start] = self.stance.anchor(self.foot, mean)
