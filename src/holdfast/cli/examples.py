"""Usage examples of each command, shown below its --help and in docs/commands.md."""

from collections.abc import Mapping
from types import MappingProxyType

# command -> (command line, comment)
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "chat": (
            ("holdfast chat", "chat with the simulated model"),
            ("holdfast chat --session telegram:42 --model openai:gpt-5", "a real model; needs OPENAI_API_KEY"),
            (
                "holdfast chat --attach plan.pdf 'What is missing?'",
                "one message with a file",
            ),
            ("git diff | holdfast chat --session review --json", "message from a pipe, answer as JSON"),
        ),
        "serve": (
            ("holdfast serve", "on http://127.0.0.1:8712, with the simulated model"),
            ("holdfast serve --model anthropic:claude-sonnet-4-5 --port 9000", "a real model"),
            ("holdfast serve --store postgresql://holdfast@db/sessions", "several machines may share one database"),
        ),
        "run": (
            ("holdfast run claude", "Claude Code with its own login and terminal; its arguments follow"),
            ("holdfast run --explain codex", "show what would be set"),
            ("holdfast run --check pi", "send one message, and say what works"),
            ("holdfast run python agent.py", "any command: it gets the base URLs"),
        ),
        "setup": (("holdfast setup claude", ""), ("holdfast setup claude --undo", "restore its own settings")),
        "rescue": (
            ("holdfast rescue", "list the sessions of all agents for this folder"),
            ("holdfast rescue 01a1ec08 --dry-run", "say what is wrong with one"),
            ("holdfast rescue 01a1ec08 --in-place", "repair it for its own agent"),
            ("holdfast rescue session.jsonl --as work:1", "continue it in Holdfast"),
            ("holdfast rescue --leave", "the gateway is switched off: write its state into the agents' files"),
        ),
        "mcp": (
            ("holdfast mcp", "as an MCP server of your agent"),
            ("holdfast mcp --store team.db --tenant alice", "the sessions of one gateway key"),
        ),
        "demo": (("holdfast demo", "live display"), ("holdfast demo --fast --json", "only the figures")),
        "sim": (
            ("holdfast sim --port 9001", "use it with any OpenAI or Anthropic client"),
            ("holdfast sim --window 8000 --faults '429*2,ok,cut'", "small window and scripted faults"),
        ),
        "models": (
            ("holdfast models gpt-5", "limits, their sources and evidence"),
            ("holdfast models forget openai:gpt-5", "drop learned limits"),
            ("holdfast models --json", "all models"),
        ),
        "sessions": (
            ("holdfast sessions", ""),
            ("holdfast sessions --recent --limit 10", "those that changed last"),
            ("holdfast sessions --match kiel --state idle", "by title, key or tag"),
            ("holdfast sessions --json | jq -r .key", "only the keys"),
        ),
        "rename": (
            ("holdfast rename telegram:42 'Trip to Kiel'", "a title"),
            ("holdfast rename telegram:42 --key kiel", "another key"),
        ),
        "tag": (
            ("holdfast tag telegram:42 travel 2026", ""),
            ("holdfast tag telegram:42 travel --remove", ""),
        ),
        "fork": (("holdfast fork telegram:42 copy --at 12", "the first 12 records"),),
        "branches": (
            ("holdfast branches telegram:42", ""),
            ("holdfast branches telegram:42 --switch 12", "continue from another branch"),
        ),
        "memory": (
            ("holdfast memory user:42", "all notes"),
            ("holdfast memory user:42 --add 'Prefers tea.'", ""),
            ("holdfast memory user:42 tea", "search"),
        ),
        "approvals": (("holdfast approvals", "of all sessions"), ("holdfast approvals telegram:42 --json", "")),
        "approve": (("holdfast approve telegram:42", "the only one that waits"),),
        "deny": (("holdfast deny telegram:42 9 --note 'at most 100'", "request 9, with a reason"),),
        "delete": (("holdfast delete telegram:42 --yes", ""),),
        "version": (("holdfast version --json", ""),),
        "show": (
            ("holdfast show telegram:42", "the newest records, as text"),
            ("holdfast show telegram:42 --after 0 --limit 1000 --json", "from the beginning, as JSON"),
        ),
        "view": (("holdfast view telegram:42", ""), ("holdfast view telegram:42 --json | jq .tokens_estimated", "")),
        "search": (
            ("holdfast search telegram:42 'berth 17'", "words, a path, a name or an id"),
            ("holdfast search telegram:42 --queries questions.txt --json", "many queries at once"),
        ),
        "recall": (
            ("holdfast recall telegram:42 57", "record 57, including spilled output"),
            ("holdfast recall telegram:42 --blob 0123456789ab > original.txt", "a stored original, by its id"),
        ),
        "export": (("holdfast export telegram:42 --out kiel.jsonl", ""), ("holdfast export telegram:42 | gzip", "")),
        "import": (
            ("holdfast import kiel.jsonl --as telegram:43", "import under another key"),
            ("holdfast import transcripts.jsonl.gz", "all sessions of a transcript"),
        ),
        "compact": (
            ("holdfast compact telegram:42 --preview", "preview"),
            ("holdfast compact telegram:42 --focus 'what was decided'", "compact"),
        ),
        "undo": (("holdfast undo telegram:42", "repeat to undo earlier ones"),),
        "exclude": (
            ("holdfast exclude telegram:42 57", "leave record 57 out; it stays in the log"),
            ("holdfast exclude telegram:42 57 --undo", "show it to the model again"),
        ),
        "prune": (
            ("holdfast prune --older-than 90 --dry-run", "list what would be deleted"),
            ("holdfast prune --older-than 90", "delete"),
        ),
        "doctor": (
            ("holdfast doctor", "check only"),
            ("holdfast doctor --fix", "back up, then repair"),
            ("holdfast doctor --session telegram:42 --json", "one session, as JSON"),
        ),
        "backup": (("holdfast backup /mnt/backup/holdfast-$(date +%F).db", "also while the store is in use"),),
        "restore": (
            (
                "holdfast restore /mnt/backup/holdfast-2026-01-31.db --force",
                "an existing store is renamed",
            ),
        ),
        "cancel": (("holdfast cancel telegram:42", "all open turns"), ("holdfast cancel telegram:42 17", "turn 17")),
        "keys": (
            ("holdfast keys add alice", "prints the key once"),
            ("holdfast keys add bob --usd-day 5 --rpm 60 --expires 90d", "with limits"),
            ("holdfast keys rotate alice --overlap 2d", "a new secret; the old one stays valid for two days"),
            ("holdfast keys list", ""),
            ("holdfast keys remove alice", ""),
        ),
        "usage": (
            ("holdfast usage", "the last 31 days"),
            ("holdfast usage --key alice --json", "for programs"),
        ),
        "config": (
            ("holdfast config", "the file, every setting and its source"),
            ("holdfast config --for chat", "settings that a command uses"),
            ("holdfast config --init > holdfast.toml", "a file with all defaults"),
        ),
        "classify": (
            ("holdfast classify errors.jsonl", 'rows such as {"status": 413, "body": "too large"}'),
            ("echo '{\"status\": 429}' | holdfast classify -", "one row from standard input"),
        ),
        "digest": (("holdfast digest transcript.jsonl --max-tokens 1000", ""),),
        "estimate": (("holdfast estimate transcript.jsonl --json", ""),),
        "crashlab": (
            ("holdfast crashlab", "one minute of kills"),
            ("holdfast crashlab --kills 10000 --folder /mnt/disk", "on another disk"),
            ("holdfast crashlab --power-loss --states 1000", "simulate power loss"),
        ),
        "completion": (
            ('eval "$(holdfast completion bash)"', "in ~/.bashrc"),
            ("holdfast completion zsh > ~/.zfunc/_holdfast", "in a folder of $fpath"),
            ("holdfast completion fish > ~/.config/fish/completions/holdfast.fish", ""),
        ),
        "attack": (
            ("holdfast attack", "start a gateway, and attack it"),
            ("holdfast attack --only growth --only bombs", "some of the probes"),
            ("holdfast attack --url http://127.0.0.1:8712 --key hf_…", "your own gateway on this machine"),
        ),
        "bench": (("holdfast bench store", "against plain SQLite"), ("holdfast bench gateway --json", "")),
    }
)


def epilog(name: str) -> str:
    """Return the examples of a command, formatted for its help."""
    lines = EXAMPLES[name]
    width = max(len(line) for line, _ in lines)
    shown = [f"  {line.ljust(width)}  # {comment}" if comment else f"  {line}" for line, comment in lines]
    # click does not rewrap a paragraph that starts with \\b.
    return "\n".join(["\b", "Examples:", *shown])
