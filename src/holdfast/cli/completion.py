"""The command `completion`: what makes a shell complete commands, options, sessions and models."""

import os

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete, split_arg_string

_VARIABLE = "_HOLDFAST_COMPLETE"
# A colon ends a word for bash, and most session keys have one. So the line is read as it stands, and of what is offered
# only the part behind the last colon is handed to bash, which puts it there.
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
    """Completion for bash that knows session keys such as `telegram:42`."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one in hand."""
        line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete commands, options, session keys and models.

    Keys come from the store that the command would open; none is made for it.
    """
    click.echo(SHELLS[shell](ctx.find_root().command, {}, "holdfast", _VARIABLE).source())


def complete(command: click.Command) -> int | None:
    """Answer a shell that asks what may stand at the cursor, and return how that ended; None where none asks."""
    shell, _, order = os.environ.get(_VARIABLE, "").partition("_")
    if order != "complete" or shell not in SHELLS:
        return None
    click.echo(SHELLS[shell](command, {}, "holdfast", _VARIABLE).complete())
    return 0
