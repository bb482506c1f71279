"""The key points that retargeting uses, under the names of several sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from supple.errors import InputError, join_names

SIDES = ("left", "right")
_TWO = {  # words for a point of each side, the preferred ones first
    "hip": ("up leg", "upper leg", "thigh", "hip"),
    "knee": ("knee", "lower leg", "low leg", "shin", "calf", "leg"),
    "ankle": ("ankle", "foot"),
    "toe": ("toe base", "toe", "toes", "ball", "foot"),
    "shoulder": ("upper arm", "up arm", "arm", "shoulder"),
    "elbow": ("elbow", "fore arm", "forearm", "lower arm", "low arm"),
    "wrist": ("wrist", "hand"),
    "hand": ("hand middle 3", "hand middle 1", "middle 1", "hand", "wrist"),
}
_OPTIONAL = ("toe",)

_LIMBS = "leg|arm|hip|knee|ankle|foot|shoulder|elbow|wrist|hand"  # may follow an l or r in a name

_HAND = ("Thumb", "Index", "Middle", "Ring", "Pinky")
_MOCAP = (
    *("Hips", "Spine", "Spine1", "Neck", "Head"),
    *(
        name
        for side in ("Left", "Right")
        for name in (
            *(f"{side}{part}" for part in ("Shoulder", "Arm", "ForeArm", "Hand")),
            *(f"{side}Hand{finger}{k}" for finger in _HAND for k in (1, 2, 3)),
        )
    ),
    *(
        f"{side}{part}"
        for side in ("Left", "Right")
        for part in ("UpLeg", "Leg", "Foot", "ToeBase")
    ),
    *("LeftFootMod", "RightFootMod"),
)
_SMPL = (
    *("Pelvis", "L_Hip", "R_Hip", "Spine1", "L_Knee", "R_Knee", "Spine2", "L_Ankle", "R_Ankle"),
    *("Spine3", "L_Foot", "R_Foot", "Neck", "L_Collar", "R_Collar", "Head", "L_Shoulder"),
    *("R_Shoulder", "L_Elbow", "R_Elbow", "L_Wrist", "R_Wrist"),
)
_KNOWN = {len(names): names for names in (_MOCAP, _SMPL, (*_SMPL, "L_Hand", "R_Hand"))}


def names_of_points(count: int, file: str) -> tuple[str, ...]:
    """Return the names of the points of a file without names, by the number of points."""
    if count not in _KNOWN:
        raise InputError(
            f"{file} has no names of its {count} points: give names=. Known without names: "
            f"{join_names(str(known) for known in sorted(_KNOWN))} points"
        )
    return _KNOWN[count]


def find_points(names: Sequence[str]) -> dict[str, int]:
    """Return the indices of the points "left_hip", "left_knee" ... among these names.

    Raises:
        InputError: A point is missing; the message lists the names.
    """
    return dict(_found(tuple(names)))


@lru_cache(maxsize=32)
def _found(names: tuple[str, ...]) -> dict[str, int]:
    words = [words_of(name) for name in names]
    found: dict[str, int] = {}
    for side in SIDES:
        own = {
            " ".join(word[1:]): k for k, word in enumerate(words) if word[:1] == [side] and word[1:]
        }
        for point, aliases in _TWO.items():
            known = [alias for alias in aliases if alias in own]
            if known and not (point == "toe" and own[known[0]] == found.get(f"{side}_ankle")):
                found[f"{side}_{point}"] = own[known[0]]
    needed = [f"{side}_{point}" for side in SIDES for point in _TWO if point not in _OPTIONAL]
    missing = [point for point in needed if point not in found]
    if missing:
        raise InputError(f"the motion has no {join_names(missing)}; available: {join_names(names)}")
    return found


def words_of(name: str) -> list[str]:
    """Return a name as lower-case words, its side first: ["left", "up", "leg"]."""
    split = re.sub(r"([A-Z])([A-Z][a-z])", r"\1 \2", name.split(":")[-1])
    split = re.sub(r"([a-z])([A-Z0-9])", r"\1 \2", split)
    split = re.sub(r"[^a-z0-9]+", " ", split.lower())
    words = re.sub(rf"\b([lr])(?=({_LIMBS})\b)", r"\1 ", split).split()
    sides = {"left": "left", "l": "left", "right": "right", "r": "right"}
    side = [sides[word] for word in words if word in sides]
    return side[:1] + [word for word in words if word not in sides]
