"""One turn told as it happens: the answer on one stream, whatever else a person should know beside it.

On a terminal an answer appears as it is written. In a pipe it appears once it is whole, and alone, because whoever
reads it there cannot take back the text of an attempt that failed.
"""

from typing import Protocol, TextIO

from holdfast.cli.output import aside, harmless
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.ports import ReasoningDelta, TextDelta
from holdfast.runtime.sessions.record_text import OUTCOMES, describe_rung
from holdfast.runtime.sessions.session import Event
from holdfast.types.faults import Rung
from holdfast.types.messages import ToolOutcome, text_of
from holdfast.types.records import (
    AttemptAbandoned,
    AttemptFailed,
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

# --- Where a turn is told: the answer as it is written, and sentences beside it.


class Sheet(Protocol):
    """Takes an answer piece by piece, and sentences in between."""

    # Whether an answer is shown while it is written. Otherwise only the whole one is wanted.
    is_live: bool

    def write(self, text: str) -> None:
        """Show a piece of an answer."""
        ...

    def finish(self) -> None:
        """End the answer in hand: what comes next stands on lines of its own."""
        ...

    def aside(self, sentence: str) -> None:
        """Show a sentence that is not part of an answer."""
        ...


class PlainSheet:
    """Answers on one stream and sentences on another, as they are: for pipes and for terminals that can do no more."""

    def __init__(self, answers: TextIO, asides: TextIO) -> None:
        self._answers, self._asides = answers, asides
        self.is_live = answers.isatty()
        self._is_mid_line = False

    def write(self, text: str) -> None:
        """Show a piece of an answer."""
        if text:
            self._answers.write(harmless(text))
            self._answers.flush()
            self._is_mid_line = not text.endswith("\n")

    def finish(self) -> None:
        """End the line that the answer stands on, if it does not end itself."""
        if self._is_mid_line:
            self._answers.write("\n")
            self._is_mid_line = False
        self._answers.flush()

    def aside(self, sentence: str) -> None:
        """Show a sentence on a line of its own."""
        self.finish()
        aside(sentence, self._asides)

    def invite(self) -> None:
        """Say that it is the person's turn; whoever writes next has a line of their own."""
        stream = self._answers if self._answers.isatty() else self._asides
        stream.write("> ")
        stream.flush()
        self._is_mid_line = stream is self._answers

    def take_line(self) -> None:
        """Know that the person has ended the line, as a terminal shows it by itself."""
        self._is_mid_line = False


# Told when they begin, because a person waits for them; all others are told when they have changed something.
_TAKES_LONG = frozenset({Rung.BACKOFF, *SUMMARIES})

VOID = "(the text above is void: the answer broke off there)"


class Telling:
    """Tells the events of turns on a sheet, one turn after the other."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        # Text of the attempt in hand that was shown.
        self._shown: list[str] = []
        self._is_thinking = False
        self._tools: dict[str, str] = {}
        self._answer = ""
        # What is being tried and has not been told.
        self._rung: RungStarted | None = None

    def see(self, event: Event) -> None:
        """Tell one event."""
        match event:
            case TextDelta(text=text):
                self._is_thinking = False
                self._shown.append(text)
                self._write(text)
            case ReasoningDelta():
                if self._sheet.is_live and not self._is_thinking:
                    self._sheet.aside("thinking …")
                self._is_thinking = True
            case Logged():
                self._see_record(event)

    def whole(self, text: str) -> None:
        """Tell an answer of which nothing was seen while it was written."""
        self._answer = text
        self._write(text)
        self._finish()

    def _see_record(self, logged: Logged) -> None:
        match logged.record:
            case ReplyRecorded(reply=reply):
                self._complete(text_of(reply.parts))
            case AttemptFailed() | AttemptAbandoned():
                self._void()
            case ToolStarted(call_id=call_id, name=name):
                self._tools[call_id] = name
                self._sheet.aside(f"running {name} …")
            case ToolSettled(result=result):
                name = self._tools.get(result.call_id, "a tool")
                if result.outcome is not ToolOutcome.DONE:
                    self._sheet.aside(f"{name}: {OUTCOMES[result.outcome]}")
            case RungStarted(rung=rung):
                self._rung = logged.record
                if rung in _TAKES_LONG:
                    self._tell_rung()
            case RungFinished(result=RungResult.CHANGED):
                self._tell_rung()
            case NoticePosted(sentence=sentence) | WindowWarned(sentence=sentence):
                self._sheet.aside(sentence)
            case TurnEnded(outcome=outcome):
                if outcome is not Outcome.ANSWERED:
                    # Words on the way to a call of a tool are no answer.
                    self._answer = ""
                self._finish()
            case _:
                pass

    def _tell_rung(self) -> None:
        if self._rung is not None:
            self._sheet.aside(describe_rung(self._rung))
        self._rung = None

    def _complete(self, text: str) -> None:
        """Make what was shown equal to the answer: deltas are decoration, and some may have been missed."""
        self._answer = text
        shown = "".join(self._shown)
        if text.startswith(shown):
            self._write(text[len(shown) :])
        else:
            self._void()
            self._write(text)
        self._shown.clear()
        self._sheet.finish()

    def _void(self) -> None:
        if self._shown and self._sheet.is_live:
            self._sheet.aside(VOID)
        self._shown.clear()

    def _finish(self) -> None:
        if not self._sheet.is_live and self._answer:
            self._sheet.write(self._answer.rstrip("\n"))
        self._answer = ""
        self._sheet.finish()

    def _write(self, text: str) -> None:
        if self._sheet.is_live:
            self._sheet.write(text)


class Teller(Telling):
    """Tells on two streams, without any decoration."""

    def __init__(self, answers: TextIO, asides: TextIO) -> None:
        super().__init__(PlainSheet(answers, asides))
