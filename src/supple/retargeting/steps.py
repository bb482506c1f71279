"""The targets of the feet: at rest while they stand, blended into the swing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array
from supple.retargeting.contacts import Mask, Stance, blended
from supple.retargeting.rotations import smooth


class Steps:
    """Targets of one foot, computed block by block with a fixed look-ahead.

    While the foot stands, its target is the standing pose nearest to the mean of its first frames.
    In the `blend` frames before the stance, the target moves smoothly from the human's pose to the
    standing pose, and in the `blend` frames after the stance, back to the human's pose.
    """

    def __init__(self, stance: Stance, foot: int, blend: int, mean: int) -> None:
        self.stance, self.foot, self.blend, self.mean = stance, foot, blend, mean
        self._anchors: dict[int, Array] = {}  # standing poses by the first frame of a stance
        self._start, self._end = -1, -(10**9)  # frames of the last stance before the next block

    def targets(
        self, flags: Mask, poses: Array, first: int, begin: int, end: int
    ) -> tuple[Array, Array]:
        """Return the targets (end - begin, 4, 4) of frames [begin, end), and the firmness of each.

        The second result (end - begin,) is 1 while the foot stands, and falls to 0 where the target
        follows only the human.

        Args:
            flags: Whether the foot stands, from frame `first` on.
            poses: The human's poses of the foot (n, 4, 4), from frame `first` on.
            first: Index of the first frame given, before `begin` unless `begin` is 0.
            begin: The first frame of the block, which follows the last block.
            end: The frame after the block; flags reach `blend` + `mean` frames farther, or to the
                end of the motion.
        """
        now = flags[begin - first :]
        was = flags[begin - 1 - first] if begin > 0 else False
        before = np.concatenate([[was], now[:-1]])
        starts = begin + np.flatnonzero(now & ~before)
        self._anchor(starts[starts < end + self.blend], flags, poses, first)
        k = np.arange(begin, end)
        stands = now[: end - begin]
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
        shares = [
            np.where(stands, alone, share) for alone, share in zip((1.0, 0.0), shares, strict=True)
        ]
        made = poses[begin - first : end - first].copy(order="K")
        near = np.flatnonzero(~stands & (shares[0] + shares[1] > 0))
        own = made[near]
        made[near] = blended(
            own,
            (self._anchored(own, last[near]), self._anchored(own, coming[near])),
            (shares[0][near], shares[1][near]),
        )
        on = np.flatnonzero(stands)
        made[on] = self._anchored(made[on], last[on])
        made = self.stance.clear(self.foot, made, 1 - shares[0] - shares[1])
        self._start, self._end = int(last[-1]), int(ended[-1])
        self._anchors = {s: a for s, a in self._anchors.items() if s >= self._start}
        return np.asarray(made), np.maximum(shares[0], shares[1])

    def _anchored(self, poses: Array, starts: NDArray[np.intp]) -> Array:
        """Return the standing poses of the stances that begin at `starts`, else the given poses."""
        if not self._anchors:
            return poses
        known = np.array(list(self._anchors))
        at = np.minimum(np.searchsorted(known, starts), len(known) - 1)
        found = np.stack(list(self._anchors.values()))[at]
        return np.where((known[at] == starts)[:, None, None], found, poses)

    def _anchor(self, starts: NDArray[np.intp], flags: Mask, poses: Array, first: int) -> None:
        """Store the standing poses of the stances that begin at the frames `starts`."""
        means = {}
        for s in map(int, starts):
            if s in self._anchors:
                continue
            stands = flags[s - first : s - first + self.mean + 1]
            count = len(stands) if stands.all() else int(np.argmin(stands))
            means[s] = poses[s - first : s - first + count].mean(axis=0)
        if means:
            found = self.stance.anchors(self.foot, np.stack(list(means.values())))
            self._anchors.update(zip(means, found, strict=True))
