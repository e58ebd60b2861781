"""The command line: parse, call sessions, print.

Each command lives in a module of its own and is imported only when it is called, so that `holdfast --help` stays quick:
nothing heavy may be imported here.
"""

import difflib
import io
import os
import sys
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from holdfast.cli.examples import epilog
from holdfast.cli.exit_codes import EXITS, run

PROGRAM = "holdfast"
# How a shell asks what may stand at the cursor.
COMPLETION_VARIABLE = "_HOLDFAST_COMPLETE"
# name -> (module, attribute, the line that --help shows), in the order in which a newcomer needs them
COMMANDS: dict[str, tuple[str, str, str]] = {
    "chat": ("holdfast.cli.chat", "chat", "Talk with a model in a session that outlives crashes."),
    "serve": ("holdfast.cli.commands.serve", "serve", "Serve sessions over HTTP, to any program."),
    "demo": ("holdfast.cli.commands.demo", "demo", "See what the engine does; needs no key and no network."),
    "sim": ("holdfast.cli.commands.sim", "sim", "Serve the simulated model, to try things without a provider."),
    "models": ("holdfast.cli.commands.models", "models", "List what is known of models, and from where."),
    "sessions": ("holdfast.cli.commands.sessions", "sessions", "List the sessions of a store."),
    "show": ("holdfast.cli.commands.sessions", "show", "Print the records of a session."),
    "view": ("holdfast.cli.commands.sessions", "view", "Print what the model sees now, and what that comes to."),
    "search": ("holdfast.cli.commands.search", "search", "Find what was said or done in a session, also long ago."),
    "recall": ("holdfast.cli.commands.sessions", "recall", "Print what a record or a blob of a session holds, whole."),
    "export": ("holdfast.cli.commands.transfer", "export", "Write a session as one file."),
    "import": (
        "holdfast.cli.commands.transfer",
        "import_",
        "Make sessions of exported files and of other agents' transcripts.",
    ),
    "compact": (
        "holdfast.cli.commands.compact",
        "compact",
        "Make what the model sees smaller now, or look what that would do.",
    ),
    "undo": ("holdfast.cli.commands.compact", "undo", "Take back the last compaction or roll-over."),
    "prune": (
        "holdfast.cli.commands.sessions",
        "prune",
        "Remove the sessions that nobody has touched for a long time.",
    ),
    "doctor": ("holdfast.cli.commands.doctor", "doctor", "Check a whole store, and repair it."),
    "backup": ("holdfast.cli.commands.backup", "backup", "Copy a store while it is in use."),
    "restore": ("holdfast.cli.commands.backup", "restore", "Bring a backup back."),
    "cancel": ("holdfast.cli.commands.sessions", "cancel", "Stop what is being answered in a session."),
    "keys": ("holdfast.cli.commands.serve", "keys", "Say who may use the gateway."),
    "config": ("holdfast.cli.commands.serve", "config", "Show every setting and where its value came from."),
    "classify": ("holdfast.cli.commands.analysis", "classify", "Say what a provider's error means."),
    "digest": ("holdfast.cli.commands.analysis", "digest", "Shorten a conversation without a model."),
    "estimate": ("holdfast.cli.commands.analysis", "estimate", "Estimate the tokens of a text or a request."),
    "crashlab": (
        "holdfast.cli.commands.crashlab",
        "crashlab",
        "Kill the engine over and over on your disk, and count the cost.",
    ),
    "bench": ("holdfast.cli", "bench", "Measure this installation."),
    "completion": ("holdfast.cli.completion", "completion", "Make your shell complete all of this."),
}
BENCHES: dict[str, tuple[str, str, str]] = {
    "archive": ("holdfast.lab.benches.store", "archive", "What a session costs that is mostly in the archive."),
    "store": ("holdfast.lab.benches.store", "store", "How quick the store is, against plain SQLite."),
    "gateway": ("holdfast.lab.benches.gateway", "gateway", "How quick and how large the gateway is."),
    "faults": ("holdfast.lab.benches.faults", "faults", "How well providers' errors are told apart."),
    "ledger": ("holdfast.lab.benches.ledger", "ledger", "How many exact facts a ledger keeps."),
    "told": ("holdfast.lab.benches.digest", "told", "How much of what a person told is kept without a model."),
    "digest": ("holdfast.lab.benches.digest", "digest", "How quick a digest with its ledger is made."),
    "masking": ("holdfast.lab.benches.masking", "masking", "What masking old tool output saves."),
    "prefix": ("holdfast.lab.benches.view", "prefix", "How often a request starts with the one before it."),
    "view": ("holdfast.lab.benches.view", "view", "How quick the view of a full window is built."),
    "recall": ("holdfast.lab.benches.recall", "recall", "How well a search finds what was said and read."),
    "sizing": ("holdfast.lab.benches.sizing", "sizing", "How far token estimates are off."),
}


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
        if self.name == PROGRAM:
            command.epilog = epilog(cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the names of commands without importing any."""
        names = [CompletionItem(name, help=line) for name, (_, _, line) in self._lazy.items()]
        options = super(click.Group, self).shell_complete(ctx, incomplete)
        return [*(name for name in names if name.value.startswith(incomplete)), *options]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        name = args[0]
        if name not in self._lazy and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, self._lazy, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(self._lazy)}."
            raise click.UsageError(f"there is no command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    # `ctx` is in click's signature.
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self._lazy.items()])


bench = LazyGroup("bench", BENCHES, "Measure this installation.")
command_line = LazyGroup(PROGRAM, COMMANDS, "Keep the sessions of LLM agents alive.")
command_line.epilog = "\n".join(["\b", "Exit codes:", *(f"  {code:<4} {told}" for code, told in EXITS.items())])
click.version_option(package_name="holdfast", prog_name="holdfast")(command_line)


def main() -> None:
    """Be the program `holdfast`: run what the arguments ask for and exit with a code that means something."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows its number; it must not stop the work.
            stream.reconfigure(errors="backslashreplace")
    if COMPLETION_VARIABLE in os.environ:
        from holdfast.cli.completion import complete  # noqa: PLC0415 - only a shell that asks waits for it

        if (code := complete(command_line)) is not None:
            sys.exit(code)
    sys.exit(run(command_line, sys.argv[1:]))
