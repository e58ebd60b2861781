"""Client profiles: patterns that recognise each agent and its own compactions, and its quirks.

One row per agent. Everything that depends on a particular agent is a column here; tests/proxy has a recorded sample
for each row. A client without a row is served like any other.
"""

import re
from collections.abc import Sequence

import msgspec


class InstructionFrame(msgspec.Struct, frozen=True):
    """A frame around instructions that a client writes into its first message."""

    # A regular expression for its beginning, and the text that closes it; "": it ends with the part.
    opening: str
    closing: str = ""
    # Its name, if the client sends newer versions of it in later messages.
    name: str = ""


class ClientProfile(msgspec.Struct, frozen=True):
    """One agent or framework, by regular expressions. An empty one matches nothing."""

    name: str
    # Its user-agent header.
    user_agent: str = ""
    # The order to summarise, in the system text or in the newest message of a person. Each alternative begins with a
    # literal character: then a search skips to these characters, and takes microseconds instead of milliseconds.
    compaction_order: str = ""
    # The frame around an earlier summary in its history, with the summary as a group named `name`.
    earlier_summary: str = ""
    # Text that it adds beside the person's message in every request.
    reminder: str = ""
    # Frames of project rules and environment in its first message.
    instructions: tuple[InstructionFrame, ...] = ()
    # Text that it adds to the newest message and omits from the next request.
    aside: str = ""
    # It treats an incomplete answer as an error, and retries a request whose stream ends without a final event.
    is_incomplete_an_error: bool = False


PROFILES: tuple[ClientProfile, ...] = (
    ClientProfile(
        "claude_code",
        user_agent=r"claude-cli",
        compaction_order=r"CRITICAL: Respond with TEXT ONLY.{0,2000}?create a detailed summary",
        earlier_summary=(
            r"This session is being continued from a previous conversation.{0,2000}?\nSummary:\n(?P<claude_code>.*?)"
            r"(?:\n\nIf you need specific details from before compaction.*"
            r"|\nContinue the conversation from where it left.*|\Z)"
        ),
        reminder=r"<system-reminder>.*?</system-reminder>\s*",
        # CLAUDE.md and the date. Reminders about other things share the tag, and the first message is always current.
        instructions=(InstructionFrame(r"<system-reminder>", "</system-reminder>"),),
    ),
    ClientProfile(
        "codex",
        # "codex_exec/0.166.0", "codex_cli_rs/...", "codex_vscode/...".
        user_agent=r"codex",
        compaction_order=r"You are performing a CONTEXT CHECKPOINT COMPACTION",
        instructions=(
            InstructionFrame(r"# AGENTS\.md instructions\b[^\n]*\n+<INSTRUCTIONS>", "</INSTRUCTIONS>", "AGENTS.md"),
            InstructionFrame(r"<user_instructions>", "</user_instructions>", "user_instructions"),
            InstructionFrame(r"<environment_context>", "</environment_context>", "environment_context"),
        ),
        is_incomplete_an_error=True,
    ),
    ClientProfile("opencode", compaction_order=r"You are a context summarization agent"),
    ClientProfile(
        # OpenClaw sends the same order.
        "pi",
        compaction_order=r"You are a context summarization assistant",
        earlier_summary=(
            r"The conversation history before this point was compacted.{0,200}?<summary>(?P<pi>.*?)(?:</summary>|\Z)"
        ),
    ),
    ClientProfile(
        "openclaw",
        # Blocks with its own runtime state.
        aside=r"\s*<<<BEGIN_[A-Z_]{1,60}>>>(?:(?!<<<END_).)*<<<END_[A-Z_]{1,60}>>>\s*\Z",
    ),
    ClientProfile(
        "copilot",
        compaction_order=r"Please create a detailed summary of the conversation so far",
        earlier_summary=r"Here is a summary of the prior context:\s*<summary>(?P<copilot>.*?)(?:</summary>|\Z)",
    ),
    ClientProfile(
        "qwen_code",
        compaction_order=r"You are the component that summarizes a conversation when its context window",
        # Older versions have no tags.
        instructions=(
            InstructionFrame(r"This is the [A-Z]\w+ (?:Code|CLI)\. We are setting up the context for our chat"),
            InstructionFrame(r"<session_context>", "</session_context>", "session_context"),
        ),
        earlier_summary=(r"\A\s*<state_snapshot>(?P<qwen_code>.*?)</state_snapshot>\s*(?:Resume the prior task.*)?\Z"),
    ),
    ClientProfile(
        # Its first message and the frame of its summaries are those of its fork qwen-code.
        "gemini",
        # "GeminiCLI/0.61.0/gemini-2.5-pro (linux; x64)".
        user_agent=r"GeminiCLI",
        compaction_order=(
            r"You are a specialized system component responsible for distilling chat history"
            r"|You are the component that summarizes internal chat history"
        ),
    ),
    ClientProfile(
        "aider",
        compaction_order=(
            r"\*Briefly\*? summarize this partial conversation|Briefly\*? summarize this partial conversation"
        ),
        earlier_summary=r"\AI spoke to you previously about a number of things\.\n(?P<aider>.*)",
    ),
    ClientProfile("continue", compaction_order=r"Please provide a concise summary of our conversation so far"),
    ClientProfile("hermes", compaction_order=r"You are a summarization agent creating a context checkpoint"),
    ClientProfile("langchain", compaction_order=r"Context Extraction Assistant"),
    ClientProfile("strands", compaction_order=r"You are a conversation summarizer"),
)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(pattern for pattern in patterns if pattern), re.DOTALL)


INSTRUCTION_FRAMES = tuple(
    (frame, re.compile(rf"\s*{frame.opening}")) for profile in PROFILES for frame in profile.instructions
)
COMPACTION_ORDER = _any_of([profile.compaction_order for profile in PROFILES])
EARLIER_SUMMARY = _any_of([profile.earlier_summary for profile in PROFILES])
REMINDER = _any_of([profile.reminder for profile in PROFILES])
ASIDE = _any_of([profile.aside for profile in PROFILES])

_UNKNOWN = ClientProfile("unknown")


def profile_of(user_agent: str) -> ClientProfile:
    """Return the profile of a client by its user-agent header."""
    for profile in PROFILES:
        if profile.user_agent and re.match(profile.user_agent, user_agent, re.IGNORECASE):
            return profile
    return _UNKNOWN
