"""What a session was doing when somebody comes back to it: the last exchange, and what was left unanswered."""

import asyncio
from pathlib import Path

import msgspec

from holdfast.cli.output import shortened
from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.sessions.record_text import describe_parts
from holdfast.types.messages import Text
from holdfast.types.records import InputAdmitted, Logged, Outcome, ReplyRecorded, TurnEnded
from holdfast.wiring import MEMORY, Place, open_store

# Enough of an old message to recognise it by.
_REMINDER_CHARS = 60


class Exchange(msgspec.Struct, frozen=True):
    """A message and what came of it."""

    asked: str
    answered: str


class Unanswered(msgspec.Struct, frozen=True):
    """A message without an outcome: its turn, and the message itself."""

    turn: int
    message: InputAdmitted

    @property
    def words(self) -> str:
        """What it says."""
        return describe_parts(self.message.parts)

    @property
    def sentence(self) -> str:
        """What a person is told about it."""
        asked = shortened("".join(part.text for part in self.message.parts if isinstance(part, Text)), _REMINDER_CHARS)
        return f"Message {self.turn} ({asked or 'an attachment'}) was left without an answer; resuming it."


class Past(msgspec.Struct, frozen=True):
    """Where a session stands."""

    last_seq: int = 0
    last: Exchange | None = None
    # What was asked in the part of the log that the model sees, oldest first.
    asked: tuple[str, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()


async def look_back(path: Place, key: str) -> Past:
    """Return where a session stands, without making the store where there is none."""
    if str(path) == MEMORY or (isinstance(path, Path) and not await asyncio.to_thread(path.exists)):
        return Past()
    store, _ = open_store(path, Bounds())
    try:
        log = await open_log(store, key)
    finally:
        await store.close()
    inputs = {logged.seq: logged.record for logged in log.tail if isinstance(logged.record, InputAdmitted)}
    turn = log.turn
    waiting = (turn.number, *turn.waiting) if turn.number else turn.waiting
    return Past(
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
