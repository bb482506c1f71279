"""The paper's claims about two links that follow a square (Fig. 3)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from supple.papers.experiment import THESIS, Claim
from supple.papers.maciejewski_klein.methods import error, norm, percent
from supple.papers.maciejewski_klein.square import ARM, B_TO_C, D_TO_A, LINKS, MAX_SPEED, SIDE
from supple.papers.style import Array

from supple import Trajectory


def claims_of_text(
    moved: dict[str, Trajectory], found: dict[str, dict[str, float]]
) -> tuple[Claim, ...]:
    """Return the claims of the text: errors, joint speeds and commanded velocities."""
    variable, printed, filtered = (
        found[name] for name in ("variable", "filtered_as_printed", "filtered")
    )
    fastest = max(found[name]["max_joint_speed"] for name in moved)
    farthest = [found[name]["max_position_error"] for name in moved]
    asked = norm(np.concatenate([each.command for each in moved.values()])) * 100
    constant = error(moved["constant"])
    smooth = max(found[name]["max_speed_change"] for name in moved if name != "filtered")
    least = found["undamped_filter"]
    blocked = (
        "α of eq. (14) damps the singular direction even where the command needs it, and the "
        "missing motion becomes a position error. (32) and (35) cannot be read in print, but they "
        f"determine λ alone: without any λ it is {percent(least['da_peak'])} and "
        f"{least['da_integral']:.2f} cm. If α is bounded by 0.1, the mean as σ_eff gives 3.3 % and "
        "0.272 cm, but a joint speed of 0.064 rad"
    )
    return (
        Claim(
            "variable damping: the error peaks at 22 % from D to A",
            percent(variable["da_peak"]),
            abs(variable["da_peak"] - 0.22) < 0.005,
            "all of ẋ is damped although only one direction is singular",
        ),
        Claim(
            "variable damping: an integral error of 9.94 cm",
            f"{variable['da_integral']:.4f} cm",
            abs(variable["da_integral"] - 9.94) < 0.005,
            "to the printed digits, with λ from the σ̂ of the previous interval, as in section IV",
        ),
        Claim(
            "filtering: the peak falls below 4 %",
            f"α as printed {percent(printed['da_peak'])}",
            printed["da_peak"] < 0.04,
            blocked,
        ),
        Claim(
            "filtering: the integral error falls to 0.25 cm",
            f"α as printed {printed['da_integral']:.2f} cm",
            printed["da_integral"] <= 0.255,
            blocked,
        ),
        Claim(
            "filtering: below 4 % and 0.25 cm (component-aware gain)",
            f"{percent(filtered['da_peak'])} and {filtered['da_integral']:.0e} cm",
            filtered["da_peak"] < 0.04 and filtered["da_integral"] <= 0.255,
            "α follows the share of ẋ along û, which is nearly zero on this side: the arm passes. "
            "This is below the printed numbers, and does not reproduce them",
            own=True,
        ),
        _thesis(moved, least["total"]),
        _thesis_by_component(moved),
        Claim(
            "the norm of joint speeds stays within 0.05 rad per interval",
            f"at most {fastest:.4f} rad per interval, for every method",
            fastest <= MAX_SPEED,
            "θ̇max ‖ẋ_c‖ bounds it; where that is more than 0.05, before B, most of ẋ_c lies along "
            "the direction that is lost",
        ),
        Claim(
            "a constant factor causes errors along the entire trajectory",
            f"at least {percent(float(constant.min()))}, {percent(float(constant[0]))} at A and "
            f"{percent(found['constant']['da_peak'])} at the inner singularity",
            bool(constant.min() > 0 and found["constant"]["da_peak"] > 0.2),
            "each direction is short by λ²/(σ² + λ²)",
        ),
        Claim(
            "the position error is about 23 cm at most, near B or C",
            f"{100 * min(farthest):.1f} to {100 * max(farthest):.1f} cm",
            abs(max(farthest) - 0.23) < 0.01 and abs(min(farthest) - 0.23) < 0.02,
            "B and C are 232.6 cm away, the reach is 210 cm; damping lags a little behind",
        ),
        Claim(
            "commanded velocities are within 1 to 2.2 cm per interval",
            f"{asked.min():.2f} to {asked.max():.2f} cm",
            bool(asked.max() < 2.25 and asked.min() > 0.95),
            "the paper is wrong for this geometry: before B the velocity of the path and the "
            "feedback of 0.1 × 22.6 cm both point outwards and add up; after C they are opposed",
        ),
        Claim(
            "transitions are smooth",
            f"joint speeds change by at most {smooth:.4f} rad per interval, corners aside",
            smooth < MAX_SPEED / 10,
            "all but the component-aware filter: damping sets in gradually",
        ),
        Claim(
            "transitions are smooth (component-aware gain)",
            f"by up to {filtered['max_speed_change']:.4f}",
            filtered["max_speed_change"] < MAX_SPEED / 10,
            "near a singularity the gain along û does not depend on how much of ẋ lies along it",
            own=True,
        ),
    )


def _thesis(moved: dict[str, Trajectory], least: float) -> Claim:
    sums = {name: error(each).sum() for name, each in moved.items()}
    ordered = sums["filtered_as_printed"] < sums["variable"] < sums["constant"]
    return Claim(
        f"{THESIS}the more information a formulation uses, the better it tracks: filtering better "
        "than variable damping, that better than a constant factor",
        f"sum of the errors around the square: α as printed {sums['filtered_as_printed']:.1f}, "
        f"without λ {least:.1f}, variable {sums['variable']:.1f}, constant {sums['constant']:.1f} "
        "cm",
        True if ordered else None,
        "variable damping is better than constant. Whether filtering is better than variable "
        "damping depends on (32) and (35), which cannot be read in print: with the reading here "
        "it is not, without λ it is. The PUMA's paths are not printed either (mk-paths)",
    )


def _thesis_by_component(moved: dict[str, Trajectory]) -> Claim:
    sums = {name: error(each).sum() for name, each in moved.items()}
    return Claim(
        "the same: filtering better than variable damping, that better than a constant factor "
        "(component-aware gain)",
        f"{sums['filtered']:.1f}, {sums['variable']:.1f} and {sums['constant']:.1f} cm",
        sums["filtered"] < sums["variable"] < sums["constant"],
        "α follows the share of ẋ along û",
        own=True,
    )


def claims_of_figure(
    moved: dict[str, Trajectory],
    found: dict[str, dict[str, float]],
    path: Array,
    max_gain: float,
) -> tuple[Claim, ...]:
    """Return the claims about features of Fig. 3: corners B and C, the dip, the notch and the
    overshoot.
    """
    e = {name: error(each) for name, each in moved.items() if name != "pseudoinverse"}
    damped = [e[name] for name in ("constant", "variable", "filtered_as_printed")]
    tops = [np.argmax(x) for x in damped]
    near = [min(abs(top - SIDE), abs(top - 2 * SIDE)) for top in tops]
    middle = slice(SIDE + SIDE // 4, 2 * SIDE - SIDE // 4)
    dips = [middle.start + int(x[middle].argmin()) for x in damped]
    notch = [2 * SIDE + int(x[2 * SIDE : 2 * SIDE + SIDE // 5].argmin()) for x in damped]
    reached = [_back_in_reach(moved[n]) for n in ("constant", "variable", "filtered_as_printed")]
    desired = 2 * SIDE + int(
        np.flatnonzero(norm(path[2 * SIDE :, :2]) <= sum(LINKS)).min(initial=2 * SIDE)
    )
    speeds = {name: norm(each.qd) for name, each in moved.items()}
    fastest = [int(speeds[n].argmax()) for n in ("constant", "variable", "filtered_as_printed")]
    pinv = found["pseudoinverse"]
    turns = int((np.diff(np.sign(np.diff(moved["pseudoinverse"].qd[B_TO_C, 1]))) != 0).sum())
    after = [x[n:].max() for x, n in zip(damped, notch, strict=True)]
    return (
        Claim(
            "the largest errors occur at B and C",
            "at intervals " + ", ".join(map(str, tops)) + f" (B is {SIDE}, C is {2 * SIDE})",
            bool(max(near) <= 10),
            "there ẋ_c leads outwards, along the direction that is lost",
        ),
        Claim(
            "the error dips at the midpoint between B and C",
            f"to {', '.join(percent(x[k]) for x, k in zip(damped, dips, strict=True))} at "
            f"intervals {', '.join(map(str, dips))}",
            all(
                abs(k - 1.5 * SIDE) <= SIDE / 8 and x[k] < 0.1
                for x, k in zip(damped, dips, strict=True)
            ),
            "there ẋ_c is tangent to the reach, along the direction that is left; a few cm before "
            "the midpoint, since the hand lags behind",
        ),
        Claim(
            "just after C the error has a notch",
            f"down to {', '.join(percent(x[k]) for x, k in zip(damped, notch, strict=True))} at "
            f"intervals {', '.join(map(str, notch))}",
            all(
                x[k] < x[2 * SIDE] / 2 and k < 2 * SIDE + SIDE // 5 - 1
                for x, k in zip(damped, notch, strict=True)
            ),
            "the feedback, outwards, and the path, inwards, cancel along the lost direction",
        ),
        Claim(
            "the notch marks where the commanded position comes back into reach",
            f"the notch is at intervals {', '.join(map(str, notch))}; x_a + ẋ_c of (36) comes "
            f"within 2.10 m at {', '.join(map(str, reached))}",
            all(abs(a - b) <= 1 for a, b in zip(notch, reached, strict=True)),
            "there feedback and path cancel along the lost direction. The desired position, "
            f"without the feedback, comes within reach later, at {desired}",
        ),
        Claim(
            "the peak joint velocity is reached after C, in getting out of the singularity",
            f"at intervals {', '.join(map(str, fastest))}",
            all(desired < k < 2.5 * SIDE for k in fastest) and all(x > 0.5 for x in after),
            "ẋ_c has a strong component in the direction of the now small singular value; the "
            "error rises again before it falls",
        ),
        Claim(
            "pseudoinverse solutions have unacceptably high joint velocities, oscillations and "
            "poor tracking",
            f"up to {pinv['max_joint_speed']:.1f} rad per interval, "
            f"{100 * pinv['max_position_error']:.0f} cm off; the elbow turns back {turns} times "
            "between B and C",
            pinv["max_joint_speed"] > 10 * MAX_SPEED and turns > SIDE / 10,
            "out of reach the arm oscillates about the stretched configuration",
        ),
    )


def _back_in_reach(motion: Trajectory) -> int:
    """Return the first interval after C whose commanded position x_a + ẋ_c is within reach."""
    asked = ARM.fk(motion.q[2 * SIDE : -1])[:, :2, 3] + motion.command[2 * SIDE :]
    within = np.flatnonzero(norm(asked) <= sum(LINKS))
    return 2 * SIDE + int(within.min(initial=len(asked)))


def claim_of_acceleration(
    moved: dict[str, Trajectory], second: dict[float, dict[str, Trajectory]]
) -> Claim:
    """Return the claim about resolved acceleration; `second` has its motions, by k_v."""

    def far(motions: dict[str, Trajectory]) -> dict[str, float]:
        return {name: 100 * float(norm(x.error)[D_TO_A].mean()) for name, x in motions.items()}

    first, *others = far(moved), *map(far, second.values())
    fastest = max(float(norm(x.qd).max()) for runs in second.values() for x in runs.values())
    told = ", ".join(
        f"{name} {first[name]:.2f} → {' or '.join(f'{each[name]:.3f}' for each in others)}"
        for name in first
    )
    of_text = ("constant", "variable", "filtered_as_printed")
    alike = all(each[name] < 2 * first[name] for each in others for name in of_text) and all(
        (first[a] < first[b]) == (each[a] < each[b])
        for each in others
        for a, b in pairwise(of_text)
    )
    return Claim(
        "resolved acceleration gives similar results",
        f"mean distance from D to A [cm], rate → acceleration with k_v = "
        f"{' or '.join(f'{rate:g}' for rate in second)}: {told}; speeds up to {fastest:.3f} rad",
        True if alike else None,
        "it passes the singularities smoothly, but the methods rank differently: velocities persist"
        " where damping weakens the acceleration, so that constant and variable factors follow "
        "closely, and α as printed blocks the passage. The text gives no gains and no results",
    )
