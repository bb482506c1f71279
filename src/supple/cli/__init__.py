"""The command line: one module for each command, imported when the command is called.

Exit codes: 0 on success; 1 if the command ran but not everything succeeded (a target out of reach,
a failed self-test); 2 for wrong usage, a file that cannot be read or written, or a missing extra;
130 after an interrupt.
"""

from __future__ import annotations

COMMANDS = {
    "info": "Show a robot: joints, limits, end effectors.",
    "solve": "Find configurations for a pose, or for a file of poses.",
    "batch": "Solve Parquet files of poses in parts, here or on a Ray cluster.",
    "reach": "Map the positions and orientations that a robot reaches.",
    "dataset": "Write samples of configurations and poses for machine learning.",
    "simulate": "Follow poses over time, or a twist, through singularities.",
    "plan-path": "Follow a whole path on one branch, as fast as the limits allow.",
    "retarget": "Let a humanoid follow the recorded motion of a human.",
    "branches": "Show all solutions of one pose.",
    "check": "Check a robot for collisions with itself and a scene.",
    "pairs": "Find pairs of links that need no collision check.",
    "view": "Open a robot in the browser and drag its end effectors.",
    "paper": "Run the experiments of papers, and check their claims.",
    "bench": "Measure the speed of this machine: time per step and per pose.",
    "doctor": "Check the installation: instruction set, threads, GPU, extras.",
    "completion": "Print the script that completes commands in a shell.",
}
EXIT_CODES = (
    "Exit codes: 0 success; 1 not everything succeeded, such as a target out of reach; 2 wrong "
    "usage, an unreadable file or a missing extra; 130 interrupted."
)


def plain_help() -> str:
    """Return the help text for an installation without click."""
    width = max(map(len, COMMANDS))
    lines = ["Usage: supple [OPTIONS] COMMAND [ARGS]...", ""]
    lines += ["  Inverse kinematics that stays smooth, bounded and fast through singularities.", ""]
    lines += ["Options:", "  --version   Show the version and exit."]
    lines += ["  -h, --help  Show this message and exit.", "", "Commands:"]
    lines += [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join([*lines, "", EXIT_CODES])
