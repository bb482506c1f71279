"""The command line: `supple`, or `python -m supple`."""

from __future__ import annotations

import sys

from supple.errors import MissingExtraError


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        from supple.cli import cli
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] == "supple":
            raise
        print(f"Error: {MissingExtraError('papers', 'the command line')}", file=sys.stderr)
        sys.exit(2)
    cli(prog_name="supple")


if __name__ == "__main__":
    main()
