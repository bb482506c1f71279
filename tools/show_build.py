"""Run a build and show its progress instead of its output; show all output if it fails.

    python tools/show_build.py COMMAND [ARGUMENT ...]

Ninja numbers its steps, as in [12/80]. In a terminal, the progress is one line that is updated;
otherwise, a line is printed for each tenth of the steps.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import deque

STEP = re.compile(r"\[(\d+)/(\d+)\] (.*)")
KEPT = 4000  # number of lines that are kept from the end of the output


def main(command: list[str]) -> int:
    """Run the command and return its exit code."""
    began, shown, lines = time.monotonic(), -1, deque[str](maxlen=KEPT)
    print("Building; the first time takes some minutes.", flush=True)
    made = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert made.stdout is not None
    for line in made.stdout:
        lines.append(line)
        found = STEP.search(line)
        if found:
            shown = show(int(found[1]), int(found[2]), time.monotonic() - began, shown)
    code = made.wait()
    if sys.stdout.isatty() and shown >= 0:
        print()
    if code:
        sys.stdout.writelines(lines)
    else:
        print(f"Built in {time.monotonic() - began:.0f} s.", flush=True)
    return code


def show(step: int, steps: int, seconds: float, shown: int) -> int:
    """Print the progress of the build if it has changed; return the number of tenths shown."""
    tenth = 10 * step // steps
    words = f"  {step} of {steps} files compiled, {seconds:.0f} s"
    if sys.stdout.isatty():
        print(f"\r{words}", end="", flush=True)
    elif tenth != shown:
        print(words, flush=True)
    return tenth


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
