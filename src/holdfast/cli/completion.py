"""`holdfast completion`: shell completion of commands, options, session keys and models."""

import asyncio
import os
from pathlib import Path

import click
from click import Context, Parameter
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

_VARIABLE = "_HOLDFAST_COMPLETE"
# bash breaks words at colons, and most session keys contain one. The script parses the whole line itself and returns
# only the part after the last colon.
_BASH = """\
%(complete_func)s() {
    local type value cut
    local word="${COMP_LINE:0:COMP_POINT}"
    word="${word##* }"
    while IFS=',' read -r type value; do
        case "$type" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                printf -v value '%%q' "$value"
                if [[ "$word" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
                    cut="${word%%"${word##*:}"}"
                    value="${value#"$cut"}"
                fi
                COMPREPLY+=("$value") ;;
        esac
    done < <(env %(complete_var)s=bash_complete COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """bash completion that supports session keys with colons, such as `telegram:42`."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the incomplete word."""
        line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script for SHELL: commands, options, session keys and models.

    Keys are read from the store that the command would open. No store is created.
    """
    click.echo(SHELLS[shell](ctx.find_root().command, {}, "holdfast", _VARIABLE).source())


def complete(command: click.Command) -> int | None:
    """Answer a completion request of a shell and return the exit code; None if there is no request."""
    shell, _, instruction = os.environ.get(_VARIABLE, "").partition("_")
    if instruction != "complete" or shell not in SHELLS:
        return None
    click.echo(SHELLS[shell](command, {}, "holdfast", _VARIABLE).complete())
    return 0


# --- Completion of session keys and model names ---


# A longer list of completions is of no use.
_OFFERED_MAX = 100
# The user waits at the prompt; a store that does not respond in time counts as empty.
_SECONDS_MAX = 2.0
_SIMULATED = "sim"


def session_keys(ctx: Context, param: Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete session keys of the store that the command would open. Never writes and never prints an error."""
    del param
    return [CompletionItem(key) for key in _keys(ctx.params.get("store"), incomplete)]


def model_names(ctx: Context, param: Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of known models."""
    del ctx, param
    from holdfast.models.limits import DECLARED  # noqa: PLC0415 - slow to load, for completion only

    names = [_SIMULATED, *DECLARED]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_OFFERED_MAX]


def _keys(store: object, incomplete: str) -> list[str]:
    from holdfast.cli.configuration import default_place  # noqa: PLC0415 - slow to load, for completion only
    from holdfast.errors import HoldfastError  # noqa: PLC0415
    from holdfast.wiring import is_server  # noqa: PLC0415

    try:
        place = default_place() if store is None else store
        if not isinstance(place, str | Path) or (not is_server(place) and not os.access(place, os.R_OK)):
            return []
        return asyncio.run(asyncio.wait_for(_read_keys(place, incomplete), _SECONDS_MAX))
    except (HoldfastError, OSError, TimeoutError):
        return []


async def _read_keys(place: str | Path, incomplete: str) -> list[str]:
    from holdfast.core.limits.bounds import RESERVED_KEYS, Bounds  # noqa: PLC0415 - as above
    from holdfast.wiring import look_at_store  # noqa: PLC0415

    records, _ = look_at_store(place, Bounds())
    try:
        # Stores list sessions in key order, so keys with the same prefix are adjacent.
        before = incomplete[:-1] + chr(max(ord(incomplete[-1]) - 1, 0)) if incomplete else ""
        found = [known.key for known in await records.sessions(after=before, limit=10 * _OFFERED_MAX)]
    finally:
        await records.close()
    offered = [key for key in found if key.startswith(incomplete) and not key.startswith(RESERVED_KEYS)]
    return offered[:_OFFERED_MAX]
