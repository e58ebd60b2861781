"""Recap of a session for a returning user: the last exchange and the unanswered messages."""

import asyncio
from pathlib import Path

import msgspec

from holdfast.cli.output import shorten
from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.sessions.record_text import describe_parts
from holdfast.types.messages import Text
from holdfast.types.records import InputAdmitted, Logged, Outcome, ReplyRecorded, TurnEnded
from holdfast.wiring import MEMORY, Place, open_store

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
