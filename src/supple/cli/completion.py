"""`supple completion`: the script that completes commands in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from supple.cli.console import as_json_option, print_json

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@as_json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the script that completes commands, options and robots in a SHELL.

    \b
      bash: supple completion bash >> ~/.bashrc
      zsh:  supple completion zsh >> ~/.zshrc
      fish: supple completion fish > ~/.config/fish/completions/supple.fish
    """  # noqa: D301
    from supple.cli.group import cli

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(cli, {}, "supple", "_SUPPLE_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
