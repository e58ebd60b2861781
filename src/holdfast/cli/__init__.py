"""The `holdfast` command line.

`COMMANDS` names the module of each command. A command is imported when it is called, so that `holdfast --help` stays
fast: import nothing heavy here.
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
# A shell sets this variable to request completions.
COMPLETION_VARIABLE = "_HOLDFAST_COMPLETE"
# name -> (module, attribute, line in --help), in the order in which a new user needs them
COMMANDS: dict[str, tuple[str, str, str]] = {
    "chat": ("holdfast.cli.chat", "chat", "Chat with a model in a session that survives crashes."),
    "serve": ("holdfast.cli.commands.serve", "serve", "Run the gateway: HTTP API and proxy."),
    "run": ("holdfast.cli.commands.run", "run", "Start an agent behind a local gateway."),
    "setup": ("holdfast.cli.commands.setup", "setup", "Point an agent at the gateway permanently, or take it back."),
    "rescue": ("holdfast.cli.commands.rescue", "rescue", "Bring a dead session of another agent back."),
    "mcp": ("holdfast.cli.commands.mcp", "mcp", "Let an agent search and read earlier sessions, over MCP."),
    "demo": ("holdfast.cli.commands.lab", "demo", "Watch a session survive faults; needs no key and no network."),
    "sim": ("holdfast.cli.commands.models", "sim", "Serve the simulated model over HTTP."),
    "models": ("holdfast.cli.commands.models", "models", "List the known limits and prices of models."),
    "sessions": ("holdfast.cli.commands.sessions", "sessions", "List the sessions of a store."),
    "show": ("holdfast.cli.commands.sessions", "show", "Print the records of a session."),
    "view": ("holdfast.cli.commands.sessions", "view", "Print what the model sees now, and its size."),
    "search": ("holdfast.cli.commands.search", "search", "Search all messages and tool steps of a session."),
    "recall": ("holdfast.cli.commands.sessions", "recall", "Print a record or a blob of a session in full."),
    "export": ("holdfast.cli.commands.transfer", "export", "Export a session to one file."),
    "import": (
        "holdfast.cli.commands.transfer",
        "import_",
        "Import exported sessions and transcripts of other agents.",
    ),
    "compact": (
        "holdfast.cli.commands.compact",
        "compact",
        "Summarise the older part of a session, or preview that.",
    ),
    "undo": ("holdfast.cli.commands.compact", "undo", "Undo the last compaction or roll-over."),
    "rename": ("holdfast.cli.commands.labels", "rename", "Give a session a title, or another key."),
    "tag": ("holdfast.cli.commands.labels", "tag", "Add tags to a session, or remove them."),
    "fork": ("holdfast.cli.commands.labels", "fork", "Copy a session into a new one."),
    "branches": ("holdfast.cli.commands.labels", "branches", "List the branches of a session, or switch to one."),
    "memory": ("holdfast.cli.commands.labels", "memory", "List, search and change the long-term notes of a scope."),
    "delete": ("holdfast.cli.commands.labels", "delete", "Delete a session."),
    "prune": (
        "holdfast.cli.commands.sessions",
        "prune",
        "Delete sessions that have not changed for a long time.",
    ),
    "doctor": ("holdfast.cli.commands.doctor", "doctor", "Check a store, and repair it."),
    "backup": ("holdfast.cli.commands.doctor", "backup", "Copy a store while it is in use."),
    "restore": ("holdfast.cli.commands.doctor", "restore", "Restore a backup."),
    "exclude": (
        "holdfast.cli.commands.compact",
        "exclude",
        "Leave a message out of what the model sees, or take it back.",
    ),
    "approvals": ("holdfast.cli.commands.approvals", "approvals", "List the tool calls that wait for an approval."),
    "approve": ("holdfast.cli.commands.approvals", "approve", "Approve a tool call."),
    "deny": ("holdfast.cli.commands.approvals", "deny", "Deny a tool call."),
    "cancel": ("holdfast.cli.commands.sessions", "cancel", "Cancel open turns of a session."),
    "keys": ("holdfast.cli.commands.keys", "keys", "Manage the gateway's API keys, their roles and limits."),
    "usage": ("holdfast.cli.commands.keys", "usage", "Show tokens and cost by day, key and model."),
    "config": ("holdfast.cli.commands.serve", "config", "Show every setting and the source of its value."),
    "classify": ("holdfast.cli.commands.analysis", "classify", "Classify provider errors."),
    "digest": ("holdfast.cli.commands.analysis", "digest", "Print the digest of a conversation, without a model."),
    "estimate": ("holdfast.cli.commands.analysis", "estimate", "Estimate the tokens and bytes of a transcript."),
    "crashlab": (
        "holdfast.cli.commands.lab",
        "crashlab",
        "Kill the engine at random, and count lost or repeated work.",
    ),
    "attack": ("holdfast.lab.attack.run", "attack", "Attack a gateway of your own, and report what did not hold."),
    "bench": ("holdfast.cli", "bench", "Measure this installation."),
    "completion": ("holdfast.cli.completion", "completion", "Print a shell completion script."),
    "version": ("holdfast.cli.commands.labels", "version", "Print the version."),
}
BENCHES: dict[str, tuple[str, str, str]] = {
    "all": ("holdfast.lab.bench_all", "all_benches", "Everything about speed, in rounds, with a comparison."),
    "adapters": ("holdfast.lab.benches.adapters", "adapters", "Cost of a step over agent frameworks' adapters."),
    "archive": ("holdfast.lab.benches.store", "archive", "Cost of a session that is mostly archived."),
    "store": ("holdfast.lab.benches.store", "store", "Speed of the store, compared with plain SQLite."),
    "gateway": ("holdfast.lab.benches.gateway", "gateway", "Latency and memory of the gateway."),
    "live": ("holdfast.lab.bench_live", "live", "Cost of streamed answers, watchers, and many sessions."),
    "reading": ("holdfast.lab.bench_reading", "reading", "Cost of reading a long session and of searching many."),
    "faults": ("holdfast.lab.benches.faults", "faults", "Accuracy of the error classifier."),
    "ledger": ("holdfast.lab.benches.ledger", "ledger", "Share of exact facts that a ledger keeps."),
    "continuity": ("holdfast.lab.benches.continuity", "continuity", "Share of live state that a digest tells."),
    "told": ("holdfast.lab.benches.digest", "told", "Share of a user's statements that a digest keeps."),
    "digest": ("holdfast.lab.benches.digest", "digest", "Time to build a digest with its ledger."),
    "memory": ("holdfast.lab.benches.memory", "memory", "Share of facts known after many compactions."),
    "masking": ("holdfast.lab.benches.masking", "masking", "Tokens saved by masking old tool output."),
    "savings": ("holdfast.lab.bench_savings", "savings", "Cost of raw, folded, masked and summarised sessions."),
    "prefix": ("holdfast.lab.benches.view", "prefix", "Share of requests that keep the prompt-cache prefix."),
    "view": ("holdfast.lab.benches.view", "view", "Time to build the view of a full window."),
    "recall": ("holdfast.lab.benches.recall", "recall", "Recall of the search."),
    "sizing": ("holdfast.lab.benches.sizing", "sizing", "Error of the token estimates."),
}


class LazyGroup(click.Group):
    """A click group that imports a command when it is called."""

    def __init__(self, name: str, commands: dict[str, tuple[str, str, str]], help_text: str) -> None:
        super().__init__(name=name, help=help_text, context_settings={"help_option_names": ["-h", "--help"]})
        self._lazy = commands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
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
        """Complete the names of commands without importing any."""
        names = [CompletionItem(name, help=line) for name, (_, _, line) in self._lazy.items()]
        options = super(click.Group, self).shell_complete(ctx, incomplete)
        return [*(name for name in names if name.value.startswith(incomplete)), *options]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest name."""
        name = args[0]
        if name not in self._lazy and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, self._lazy, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; commands: {', '.join(self._lazy)}."
            raise click.UsageError(f"unknown command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    # `ctx` is in click's signature.
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self._lazy.items()])


bench = LazyGroup("bench", BENCHES, "Measure this installation.")
command_line = LazyGroup(PROGRAM, COMMANDS, "Durable sessions for LLM agents.")
command_line.epilog = "\n".join(["\b", "Exit codes:", *(f"  {code:<4} {meaning}" for code, meaning in EXITS.items())])
click.version_option(package_name="holdfast", prog_name="holdfast")(command_line)


def main() -> None:
    """Entry point of the `holdfast` program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Print an escape for characters that the terminal's encoding lacks instead of raising an error.
            stream.reconfigure(errors="backslashreplace")
    if COMPLETION_VARIABLE in os.environ:
        from holdfast.cli.completion import complete  # noqa: PLC0415 - loaded for completion requests only

        if (code := complete(command_line)) is not None:
            sys.exit(code)
    sys.exit(run(command_line, sys.argv[1:]))
