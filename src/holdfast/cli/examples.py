"""What every command is used for, by example: shown below its help and in docs/commands.md."""

from collections.abc import Mapping
from types import MappingProxyType

# command -> lines to type, each with what it is for
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "chat": (
            ("holdfast chat", "talk with the simulated model"),
            ("holdfast chat --session telegram:42 --model openai:gpt-5", "with a real one; the key is OPENAI_API_KEY"),
            ("holdfast chat --attach plan.pdf 'What is missing?'", "one message with a file, its answer, and out"),
            ("git diff | holdfast chat --session review --json", "from a pipe, for a program"),
        ),
        "serve": (
            ("holdfast serve", "on http://127.0.0.1:8712, with the simulated model"),
            ("holdfast serve --model anthropic:claude-sonnet-4-5 --port 9000", "a real model"),
            ("holdfast serve --store postgresql://holdfast@db/sessions", "one of several machines"),
        ),
        "demo": (("holdfast demo", "watch it"), ("holdfast demo --fast --json", "the figures alone")),
        "sim": (
            ("holdfast sim --port 9001", "any client of OpenAI or Anthropic can talk to it"),
            ("holdfast sim --window 8000 --faults '429*2,ok,cut'", "a small window, and how it fails"),
        ),
        "models": (("holdfast models gpt-5", "limits, and where each is from"), ("holdfast models --json", "all")),
        "sessions": (("holdfast sessions", ""), ("holdfast sessions --json | jq -r .key", "their keys")),
        "show": (
            ("holdfast show telegram:42", "the newest records, in words"),
            ("holdfast show telegram:42 --after 0 --limit 1000 --json", "from the beginning, as they are"),
        ),
        "view": (("holdfast view telegram:42", ""), ("holdfast view telegram:42 --json | jq .tokens_estimated", "")),
        "search": (
            ("holdfast search telegram:42 'berth 17'", "by words, a path, a name or an id"),
            ("holdfast search telegram:42 --queries questions.txt --json", "many at once"),
        ),
        "recall": (
            ("holdfast recall telegram:42 57", "the record 57, spilled output included"),
            ("holdfast recall telegram:42 --blob 0123456789ab > original.txt", "a kept original, by its id"),
        ),
        "export": (("holdfast export telegram:42 --out kiel.jsonl", ""), ("holdfast export telegram:42 | gzip", "")),
        "import": (
            ("holdfast import kiel.jsonl --as telegram:43", "an exported session under another key"),
            ("holdfast import transcripts.jsonl.gz", "every session of a transcript"),
        ),
        "compact": (
            ("holdfast compact telegram:42 --preview", "look first"),
            ("holdfast compact telegram:42 --focus 'what was decided'", "then do it"),
        ),
        "undo": (("holdfast undo telegram:42", "once more goes back one more"),),
        "prune": (
            ("holdfast prune --older-than 90 --dry-run", "what would go"),
            ("holdfast prune --older-than 90", "and it goes"),
        ),
        "doctor": (
            ("holdfast doctor", "look, and change nothing"),
            ("holdfast doctor --fix", "repair, after a backup"),
            ("holdfast doctor --session telegram:42 --json", "one session, for a program"),
        ),
        "backup": (("holdfast backup /mnt/backup/holdfast-$(date +%F).db", "also while it is in use"),),
        "restore": (("holdfast restore /mnt/backup/holdfast-2026-01-31.db --force", "what is there is moved away"),),
        "cancel": (("holdfast cancel telegram:42", "all that is open"), ("holdfast cancel telegram:42 17", "turn 17")),
        "keys": (
            ("holdfast keys add alice", "printed this once"),
            ("holdfast keys list", ""),
            ("holdfast keys remove alice", ""),
        ),
        "config": (
            ("holdfast config", "every setting and where its value came from"),
            ("holdfast config --init > holdfast.toml", "a file to begin with"),
        ),
        "classify": (
            ("holdfast classify errors.jsonl", 'rows such as {"status": 413, "body": "too large"}'),
            ("echo '{\"status\": 429}' | holdfast classify -", "one of them"),
        ),
        "digest": (("holdfast digest transcript.jsonl --max-tokens 1000", ""),),
        "estimate": (("holdfast estimate transcript.jsonl --json", ""),),
        "crashlab": (
            ("holdfast crashlab", "a minute of being killed"),
            ("holdfast crashlab --kills 10000 --folder /mnt/disk", "on a disk of yours"),
            ("holdfast crashlab --power-loss --states 1000", "as a power cut may leave it"),
        ),
        "completion": (
            ('eval "$(holdfast completion bash)"', "in ~/.bashrc"),
            ("holdfast completion zsh > ~/.zfunc/_holdfast", "in a folder of $fpath"),
            ("holdfast completion fish > ~/.config/fish/completions/holdfast.fish", ""),
        ),
        "bench": (("holdfast bench store", "against plain SQLite"), ("holdfast bench gateway --json", "")),
    }
)


def epilog(name: str) -> str:
    """Return the examples of a command as they stand below its help."""
    lines = EXAMPLES[name]
    width = max(len(line) for line, _ in lines)
    shown = [f"  {line.ljust(width)}  # {told}" if told else f"  {line}" for line, told in lines]
    # click leaves lines behind \\b as they are.
    return "\n".join(["\b", "Examples:", *shown])
