"""Print a turn while it runs, and a recap of the last exchange and the unanswered messages for a returning user.

The answer goes to one stream, notes about tools, retries and warnings to another. On a terminal the answer streams. In
a pipe it is printed only when it is complete, because the text of a failed attempt could not be taken back.
"""

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TextIO

import msgspec

from holdfast.cli.output import print_note, sanitize, shorten
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.ports import ReasoningDelta, TextDelta
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.sessions.record_text import OUTCOMES, describe_parts, describe_rung
from holdfast.runtime.sessions.session import Event
from holdfast.runtime.tools.tool_runs import Approval, approval_of
from holdfast.types.faults import Rung
from holdfast.types.messages import Text, ToolOutcome, text_of
from holdfast.types.records import (
    ApprovalAnswered,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptFailed,
    InputAdmitted,
    Logged,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    WindowWarned,
)
from holdfast.wiring import MEMORY, Place, open_store


class AnswerOutput(Protocol):
    """Prints an answer in pieces, and notes between them."""

    # Whether the answer streams; otherwise only the complete answer is written.
    is_live: bool

    def write(self, text: str) -> None:
        """Print a piece of an answer."""
        ...

    def finish(self) -> None:
        """End the current answer; further output starts on a new line."""
        ...

    def print_note(self, sentence: str) -> None:
        """Print a line that is not part of an answer."""
        ...


# A space between two words, with a line break behind it.
_WORD_END = re.compile(r"[^\S\n]*\n|[^\S\n]+")
# A note waits this long for the end of a word; a model that is silent for longer may be so for minutes.
_HELD_SECONDS = 0.5


class PlainOutput:
    """Prints answers to one stream and notes to another, without formatting: for pipes and dumb terminals."""

    def __init__(self, answers: TextIO, notes: TextIO) -> None:
        self._answers, self._notes = answers, notes
        self.is_live = answers.isatty()
        self._is_mid_line = False
        # The last piece of a streaming answer did not end a word; notes that wait for the end of that word.
        self._is_mid_word = False
        self._held: list[str] = []

    def write(self, text: str) -> None:
        """Print a piece of an answer."""
        if self._held and (space := _WORD_END.search(text)):
            self._write(text[: space.start()])
            self.finish()
            text = text[space.end() :]
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        self._answers.write(sanitize(text))
        self._answers.flush()
        self._is_mid_line = not text.endswith("\n")
        self._is_mid_word = self.is_live and bool(text) and not text[-1].isspace()

    def finish(self) -> None:
        """End the current line if the answer did not."""
        if self._is_mid_line:
            self._answers.write("\n")
        self._is_mid_line = self._is_mid_word = False
        self._answers.flush()
        held, self._held = self._held, []
        for sentence in held:
            print_note(sentence, self._notes)

    def _release(self) -> None:
        if self._held:
            self.finish()

    def print_note(self, sentence: str) -> None:
        """Print a note on a line of its own; in the middle of a streaming word, behind that word if it ends soon."""
        if self._is_mid_word:
            self._held.append(sentence)
            # Without an event loop nothing streams, and the next piece or the end prints it.
            with suppress(RuntimeError):
                asyncio.get_running_loop().call_later(_HELD_SECONDS, self._release)
            return
        self.finish()
        print_note(sentence, self._notes)

    def invite(self) -> None:
        """Print the input prompt; further output starts on a new line."""
        stream = self._answers if self._answers.isatty() else self._notes
        stream.write("> ")
        stream.flush()
        self._is_mid_line = stream is self._answers

    def take_line(self) -> None:
        """Note that the user ended the line; the terminal echoes the line break."""
        self._is_mid_line = False


# Slow rungs are printed when they start; others when they have changed something.
_TAKES_LONG = frozenset({Rung.BACKOFF, *SUMMARIES})

VOID = "(ignore the text above: the answer was interrupted there)"


# Arguments of a call that waits for an approval.
_ARGUMENTS_CHARS = 200


def describe_approval(approval: Approval) -> str:
    """Return a sentence about a tool call that waits for an approval."""
    return (
        f"[#{approval.request}] {approval.tool} {shorten(approval.arguments, _ARGUMENTS_CHARS)} waits for an approval"
    )


class TurnPrinter:
    """Prints the events of turns, one turn after the other."""

    def __init__(self, output: AnswerOutput, approval_hint: str = "") -> None:
        self._output = output
        # How the user answers an approval here.
        self._approval_hint = approval_hint
        # Printed text of the current attempt.
        self._shown: list[str] = []
        self._is_thinking = False
        self._tools: dict[str, str] = {}
        self._answer = ""
        # Started rung that is not printed yet.
        self._rung: RungStarted | None = None

    def print_event(self, event: Event) -> None:
        """Print one event."""
        match event:
            case TextDelta(text=text):
                self._is_thinking = False
                self._shown.append(text)
                self._write(text)
            case ReasoningDelta():
                if self._output.is_live and not self._is_thinking:
                    self._output.print_note("thinking …")
                self._is_thinking = True
            case Logged():
                self._print_record(event)

    def _print_record(self, logged: Logged) -> None:
        match logged.record:
            case ReplyRecorded(reply=reply):
                self._complete(text_of(reply.parts))
            case AttemptFailed() | AttemptAbandoned():
                self._void()
            case ToolStarted() | ToolSettled() | ApprovalRequested() | ApprovalAnswered():
                self._print_tool(logged)
            case RungStarted(rung=rung):
                self._rung = logged.record
                if rung in _TAKES_LONG:
                    self._print_rung()
            case RungFinished(result=RungResult.CHANGED):
                self._print_rung()
            case NoticePosted(sentence=sentence) | WindowWarned(sentence=sentence):
                self._output.print_note(sentence)
            case TurnEnded(outcome=outcome):
                if outcome is not Outcome.ANSWERED:
                    # Text beside a tool call is not an answer.
                    self._answer = ""
                self._finish()
            case _:
                pass

    def _print_tool(self, logged: Logged) -> None:
        match logged.record:
            case ToolStarted(call_id=call_id, name=name):
                self._tools[call_id] = name
                self._output.print_note(f"running {name} …")
            case ToolSettled(result=result) if result.outcome is not ToolOutcome.DONE:
                name = self._tools.get(result.call_id, "a tool")
                self._output.print_note(f"{name}: {OUTCOMES[result.outcome]}")
            case ApprovalRequested() as asked:
                approval = approval_of(logged.seq, logged.at, asked)
                self._output.print_note(f"{describe_approval(approval)}{self._approval_hint}")
            case ApprovalAnswered(request=request, is_approved=is_approved, note=note):
                reason = f": {shorten(note, _ARGUMENTS_CHARS)}" if note else ""
                self._output.print_note(f"[#{request}] {'approved' if is_approved else 'denied'}{reason}")
            case _:
                pass

    def _print_rung(self) -> None:
        if self._rung is not None:
            self._output.print_note(describe_rung(self._rung))
        self._rung = None

    def _complete(self, text: str) -> None:
        """Complete the printed text: deltas are best effort, and some may be missing."""
        self._answer = text
        shown = "".join(self._shown)
        if text.startswith(shown):
            self._write(text[len(shown) :])
        else:
            self._void()
            self._write(text)
        self._shown.clear()
        self._output.finish()

    def _void(self) -> None:
        if self._shown and self._output.is_live:
            self._output.finish()
            self._output.print_note(VOID)
        self._shown.clear()

    def _finish(self) -> None:
        if not self._output.is_live and self._answer:
            self._output.write(self._answer.rstrip("\n"))
        self._answer = ""
        self._output.finish()

    def _write(self, text: str) -> None:
        if self._output.is_live:
            self._output.write(text)


class PlainTurnPrinter(TurnPrinter):
    """Turn printer with plain output on two streams."""

    def __init__(self, answers: TextIO, notes: TextIO) -> None:
        super().__init__(PlainOutput(answers, notes))


# Enough to recognise an old message.
_REMINDER_CHARS = 60


class Exchange(msgspec.Struct, frozen=True):
    """A message and its answer."""

    message: str
    answer: str


class Unanswered(msgspec.Struct, frozen=True):
    """A message whose turn has no outcome yet."""

    turn: int
    message: InputAdmitted

    @property
    def text(self) -> str:
        """The message as text."""
        return describe_parts(self.message.parts)

    @property
    def sentence(self) -> str:
        """A note about it for the user."""
        excerpt = shorten("".join(part.text for part in self.message.parts if isinstance(part, Text)), _REMINDER_CHARS)
        return f"Message {self.turn} ({excerpt or 'an attachment'}) has no answer yet; resuming it."


class Recap(msgspec.Struct, frozen=True):
    """State of a session when a chat opens it."""

    last_seq: int = 0
    last: Exchange | None = None
    # The user's messages in the part of the log that the model sees, oldest first.
    messages: tuple[str, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()


async def load_recap(path: Place, key: str) -> Recap:
    """Load the recap of a session, without creating a store."""
    if str(path) == MEMORY or (isinstance(path, Path) and not await asyncio.to_thread(path.exists)):
        return Recap()
    store, _ = open_store(path, Bounds())
    try:
        log = await open_log(store, key)
    finally:
        await store.close()
    inputs = {logged.seq: logged.record for logged in log.tail if isinstance(logged.record, InputAdmitted)}
    turn = log.turn
    waiting = (turn.number, *turn.waiting) if turn.number else turn.waiting
    return Recap(
        turn.seq,
        _last_exchange(log, inputs),
        tuple(describe_parts(message.parts) for message in inputs.values()),
        tuple(Unanswered(number, inputs[number]) for number in waiting if number in inputs),
    )


def _last_exchange(log: Log, inputs: dict[int, InputAdmitted]) -> Exchange | None:
    ended = next((logged.record for logged in reversed(log.tail) if isinstance(logged.record, TurnEnded)), None)
    if ended is None or ended.turn not in inputs:
        return None
    return Exchange(describe_parts(inputs[ended.turn].parts), _answer(log.tail, ended))


def _answer(tail: list[Logged], ended: TurnEnded) -> str:
    if ended.outcome is not Outcome.ANSWERED:
        return f"({ended.sentence})"
    replies = (logged.record for logged in reversed(tail) if isinstance(logged.record, ReplyRecorded))
    reply = next((record.reply for record in replies if record.turn == ended.turn), None)
    return describe_parts(reply.parts) if reply is not None else ""
