"""The command line: `supple`, or `python -m supple`."""

from __future__ import annotations

import io
import sys
from importlib.metadata import version

from supple.cli import plain_help
from supple.errors import MissingExtraError


def main() -> None:
    """Run the command line; report a missing extra in one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # print "?" for characters that the terminal's encoding lacks, such as λ
            stream.reconfigure(errors="replace")
    if sys.argv[1:] == ["--version"]:  # works without the cli extra
        print(f"supple, version {version('supple')}")
        return
    try:
        from supple.cli.group import cli
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] == "supple":
            raise
        if sys.argv[1:] in ([], ["-h"], ["--help"]):
            print(f"{plain_help()}\n\n{MissingExtraError('cli', 'Running a command')}")
            return
        print(f"Error: {MissingExtraError('cli', 'the command line')}", file=sys.stderr)
        sys.exit(2)
    cli(prog_name="supple")


if __name__ == "__main__":
    main()
