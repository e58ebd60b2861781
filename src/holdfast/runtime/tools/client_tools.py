"""Client tools: declaration of tools that a client runs, and the wait for their results.

A call is a record (`ToolStarted` with the seq of its reply), and so is its result (`ResultSubmitted`). The log is the
only state, so either side may restart in between. A call is identified by the record of its reply and its id, because
models reuse ids in later replies.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from holdfast import ports
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, StoppingError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.types.messages import Reply, Text, ToolCall, ToolOutcome, ToolResult, ToolSpec
from holdfast.types.records import AnyRecord, Logged, ReplyRecorded, ResultSubmitted, ToolSettled, ToolStarted

# Tool names that all providers accept.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Minimum wait after a restart past the deadline, to read results that were submitted meanwhile.
_READING_SECONDS = 5.0
# Records per read of a turn.
_PAGE_RECORDS = 200


def check_declared(tools: Sequence[ToolSpec], toolbox: Toolbox, bounds: Bounds) -> None:
    """Raise `BadInputError` if a client cannot declare these tools."""
    if len(tools) > bounds.client_tools_max:
        raise BadInputError(f"{len(tools):,} tools exceed the maximum of {bounds.client_tools_max} per session")
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
            f"descriptions and parameters of the tools have {size_bytes:,} bytes, the maximum is "
            f"{bounds.client_tools_bytes_max:,}; shorten them"
        )


def _check_parameters(spec: ToolSpec) -> None:
    try:
        schema = msgspec.json.decode(spec.parameters)
    except msgspec.DecodeError as error:
        raise BadInputError(
            f"tool {spec.name!r}: its parameters are not valid JSON ({error}); give a JSON Schema"
        ) from error
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise BadInputError(f"tool {spec.name!r}: its parameters must be a JSON Schema of type object")


class ClientCall(msgspec.Struct, frozen=True):
    """A call that a client runs: its turn, and whether it has a result."""

    turn: int
    is_settled: bool


async def find_call(store: ports.Log, session: str, reply: int, call_id: str) -> ClientCall:
    """Return a call that a client runs. Raises `BadInputError` if there is none."""
    started: ClientCall | None = None
    async with aclosing(_steps_of(store, session, reply)) as steps:
        async for record in steps:
            match record:
                case ToolStarted() if (record.reply, record.call_id) == (reply, call_id):
                    started = ClientCall(record.turn, is_settled=False)
                case ResultSubmitted() if (record.reply, record.result.call_id) == (reply, call_id):
                    return ClientCall(record.turn, is_settled=True)
                case ToolSettled() if started and (record.turn, record.result.call_id) == (started.turn, call_id):
                    return ClientCall(record.turn, is_settled=True)
                case _:
                    pass
    if started is None:
        raise BadInputError(
            f"session {session!r}: call {call_id[:80]!r} of record {reply} is not a call for a client; "
            "take `reply` and `call_id` from its event"
        )
    return started


async def _steps_of(store: ports.Log, session: str, reply: int) -> AsyncGenerator[AnyRecord, None]:
    """Yield the records from a reply up to the next reply."""
    after = reply - 1
    while reply > 0 and (page := await store.read(session, after=after, limit=_PAGE_RECORDS)):
        for logged in page:
            if logged.seq > reply and isinstance(logged.record, ReplyRecorded):
                return
            yield logged.record
        after = page[-1].seq


def newest_reply(tail: Sequence[Logged]) -> tuple[int, Reply]:
    """Return the newest reply with its seq: it has the calls to run, or ends the turn."""
    return next(
        (logged.seq, logged.record.reply) for logged in reversed(tail) if isinstance(logged.record, ReplyRecorded)
    )


def arguments_of(reply: Logged, call_id: str) -> str:
    """Return the arguments of a call as the model wrote them."""
    parts = reply.record.reply.parts if isinstance(reply.record, ReplyRecorded) else ()
    return next((part.arguments for part in parts if isinstance(part, ToolCall) and part.call_id == call_id), "")


async def await_result(log: Log, engine: Engine, intent: ToolStarted) -> ToolResult:
    """Wait until a client submits the result of a call whose intent is on disk.

    The deadline counts from the first intent, so a restart does not extend it. After the deadline the outcome is
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
        return _unknown_outcome(intent, seconds_max)
    raise StoppingError("the store was closed during the wait for a client's result; the next start resumes the wait")


def _is_intent_of(logged: Logged, intent: ToolStarted) -> bool:
    record = logged.record
    return isinstance(record, ToolStarted) and (record.reply, record.call_id) == (intent.reply, intent.call_id)


def _unknown_outcome(intent: ToolStarted, seconds: float) -> ToolResult:
    sentence = (
        f"Outcome unknown: the client that runs {intent.name} did not report within {seconds:g} seconds. The call may "
        "or may not have had its effect. Check before you call it again."
    )
    return ToolResult(intent.call_id, (Text(sentence),), ToolOutcome.UNKNOWN)
