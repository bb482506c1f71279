"""The command `supple`, which imports the module of a command when the command is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from supple.cli import COMMANDS, EXIT_CODES
from supple.cli.console import UsageError
from supple.cli.hints import in_options
from supple.errors import SuppleError, unknown_name_error

INTERRUPTED = 130
_QUATERNION = "A quaternion is given by its order: --wxyz W X Y Z or --xyzw X Y Z W."
# Sentences that say what to use instead of an option that does not exist.
_HINTS = {"--quat": _QUATERNION, "--quaternion": _QUATERNION, "--orientation": _QUATERNION}

_RENAMED = {"track": "simulate", "follow": "plan-path"}  # commands by names that users may try


class _Commands(click.Group):
    """A group that imports commands on use, and shows errors of supple without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _RENAMED:
            words = f"no such command: {name}. It is called {_RENAMED[name]}."
            raise click.UsageError(words, ctx)
        if name == "servo":
            words = "no such command: servo. The command simulate runs a Servo."
            raise click.UsageError(words, ctx)
        if name not in COMMANDS:
            raise click.UsageError(str(unknown_name_error("command", name, COMMANDS)), ctx)
        module = name.replace("-", "_")
        command: click.Command = getattr(import_module(f"supple.cli.{module}"), module)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name not in _HINTS:
                raise
            words = f"no such option: {error.option_name}. {_HINTS[error.option_name]}"
            raise click.UsageError(words, error.ctx) from error
        except SuppleError as error:
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            raise UsageError(in_options(str(error), command)) from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES
)
@click.version_option(package_name="supple")
def cli() -> None:
    """Inverse kinematics that stays smooth, bounded and fast through singularities."""
