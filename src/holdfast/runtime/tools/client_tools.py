"""Tools that a client runs: what it may declare, and how the result of a call comes back.

The call goes out as a record (`ToolStarted` with the reply that asked for it), the result comes back as one
(`ResultSubmitted`). Nothing is kept beside the log, so either side may die and come back in between. A call is named by
the record of its reply and its id, because models reuse ids from one reply to the next.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from holdfast import ports
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, StoppingError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.types.messages import Reply, Text, ToolCall, ToolOutcome, ToolResult, ToolSpec
from holdfast.types.records import Logged, ReplyRecorded, ResultSubmitted, ToolSettled, ToolStarted

# What all providers take as a tool's name.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# After a restart that took longer than the deadline, what was submitted meanwhile is still read.
_READING_SECONDS = 5.0
# Records of one turn are read in pages of so many.
_PAGE_RECORDS = 200


def check_declared(tools: Sequence[ToolSpec], toolbox: Toolbox, bounds: Bounds) -> None:
    """Raise `BadInputError` where a client cannot declare these tools."""
    if len(tools) > bounds.client_tools_max:
        raise BadInputError(f"{len(tools):,} tools are more than the {bounds.client_tools_max} that a session takes")
    size_bytes = 0
    names: set[str] = set()
    for spec in tools:
        if not _NAME.fullmatch(spec.name):
            raise BadInputError(
                f"tool {spec.name[:80]!r}: a name has 1 to 64 letters, digits, '_' or '-'; give it another"
            )
        if spec.name in names or toolbox.has(spec.name):
            whose = "this session's tools" if spec.name in names else "the server's own tools"
            raise BadInputError(f"tool {spec.name!r}: one of {whose} has that name; give it another")
        names.add(spec.name)
        size_bytes += len(spec.description.encode(errors="replace")) + len(spec.parameters.encode(errors="replace"))
        _check_parameters(spec)
    if size_bytes > bounds.client_tools_bytes_max:
        raise BadInputError(
            f"descriptions and parameters of the tools have {size_bytes:,} bytes, at most "
            f"{bounds.client_tools_bytes_max:,} are taken; shorten them"
        )


def _check_parameters(spec: ToolSpec) -> None:
    try:
        schema = msgspec.json.decode(spec.parameters)
    except msgspec.DecodeError as error:
        raise BadInputError(f"tool {spec.name!r}: its parameters are no JSON ({error}); give a JSON Schema") from error
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise BadInputError(f"tool {spec.name!r}: its parameters must be a JSON Schema of type object")


class AskedCall(msgspec.Struct, frozen=True):
    """A call that a client was told to run: its turn, and whether its result is known already."""

    turn: int
    is_settled: bool


async def find_call(store: ports.Log, session: str, reply: int, call_id: str) -> AskedCall:
    """Return a call that a client was told to run. Raises `BadInputError` where there is none."""
    after = reply - 1
    turn: int | None = None
    while reply > 0 and (page := await store.read(session, after=after, limit=_PAGE_RECORDS)):
        for logged in page:
            record = logged.record
            if logged.seq > reply and isinstance(record, ReplyRecorded):
                break
            match record:
                case ToolStarted(reply=asked_in, call_id=found) if (asked_in, found) == (reply, call_id):
                    turn = record.turn
                case ResultSubmitted(reply=asked_in, result=result) if (asked_in, result.call_id) == (reply, call_id):
                    return AskedCall(record.turn, is_settled=True)
                case ToolSettled(result=result) if turn == record.turn and result.call_id == call_id:
                    return AskedCall(record.turn, is_settled=True)
                case _:
                    pass
        else:
            after = page[-1].seq
            continue
        break
    if turn is None:
        raise BadInputError(
            f"session {session!r}: no client was told to run call {call_id[:80]!r} of record {reply}; "
            "name a call by `reply` and `call_id` as its event does"
        )
    return AskedCall(turn, is_settled=False)


def newest_reply(tail: Sequence[Logged]) -> tuple[int, Reply]:
    """Return the newest reply with its seq: the one that asked for the calls that are to run, or ended the turn."""
    return next(
        (logged.seq, logged.record.reply) for logged in reversed(tail) if isinstance(logged.record, ReplyRecorded)
    )


def arguments_of(reply: Logged, call_id: str) -> str:
    """Return the arguments of a call, as the model wrote them."""
    parts = reply.record.reply.parts if isinstance(reply.record, ReplyRecorded) else ()
    return next((part.arguments for part in parts if isinstance(part, ToolCall) and part.call_id == call_id), "")


async def await_result(log: Log, engine: Engine, intent: ToolStarted) -> ToolResult:
    """Wait until a client has submitted the result of a call whose intent is on disk.

    The deadline counts from the first intent, so a restart does not prolong it. Whoever never comes leaves the outcome
    unknown.
    """
    first = next(logged for logged in log.tail if _is_intent_of(logged, intent))
    seconds_max = engine.bounds.client_result_seconds_max
    left = first.at + seconds_max - engine.clock.now()
    try:
        async with (
            asyncio.timeout(max(left, _READING_SECONDS)),
            aclosing(engine.store.feed(log.session, after=first.seq)) as feed,
        ):
            async for logged in feed:
                match logged.record:
                    case ResultSubmitted(reply=reply, result=result) if reply == intent.reply:
                        if result.call_id == intent.call_id:
                            return result
                    case _:
                        pass
    except TimeoutError:
        return _never_came(intent, seconds_max)
    raise StoppingError("the store was closed while a client's result was awaited; the next start goes on waiting")


def _is_intent_of(logged: Logged, intent: ToolStarted) -> bool:
    record = logged.record
    return isinstance(record, ToolStarted) and (record.reply, record.call_id) == (intent.reply, intent.call_id)


def _never_came(intent: ToolStarted, seconds: float) -> ToolResult:
    sentence = (
        f"Outcome unknown: the client that runs {intent.name} did not report within {seconds:g} seconds. The call may "
        "or may not have had its effect. Check before you call it again."
    )
    return ToolResult(intent.call_id, (Text(sentence),), ToolOutcome.UNKNOWN)
