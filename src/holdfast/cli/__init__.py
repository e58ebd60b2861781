"""The command line: parse, call sessions, print.

Each command lives in a module of its own and is imported only when it is called, so that `holdfast --help` stays quick.
"""

from importlib import import_module

import click

# name -> (module, attribute, the line that --help shows)
COMMANDS: dict[str, tuple[str, str, str]] = {}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def __init__(self, name: str, commands: dict[str, tuple[str, str, str]], help_text: str) -> None:
        super().__init__(name=name, help=help_text)
        self._lazy = commands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order in which a newcomer needs them."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command's module and return the command."""
        if cmd_name not in self._lazy:
            return None
        module, attribute, _ = self._lazy[cmd_name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self._lazy.items()])


main = LazyGroup("holdfast", COMMANDS, "Keep the sessions of LLM agents alive.")
