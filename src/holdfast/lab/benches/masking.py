"""`holdfast bench masking`: input tokens of real sessions with old tool output masked.

Each request of a session is measured with older output masked by a line, and compared with the request that the agent
itself sent. Then every masked output is read back with the recall tool and compared with the original bytes.
"""

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import json_option
from holdfast.core.compaction.plan import plan_mask
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_parts
from holdfast.core.text.truncation import well_formed
from holdfast.core.view import Lens, ViewMessage, conversation
from holdfast.lab.benches.harness import corpus_option, sessions_of
from holdfast.rescue.importing import Turns, import_session, turns_of
from holdfast.rescue.neutral import NeutralMessage
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import pages
from holdfast.runtime.tools.recall import Recall
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.types.messages import Part, Role, Text, ToolResult
from holdfast.types.records import Logged, ReplyRecorded, ToolSettled

# Promised: masked requests take at most this share of the raw input tokens.
COST_MAX = 0.40
_FILE = "claude_code_dev.jsonl.gz"
_KEY = "measured"
# Offset of the next page in the header of a page.
_NEXT = re.compile(r"offset=(\d+)\)\]\Z")


class MaskingReport(msgspec.Struct, frozen=True):
    """JSON output. `cost` is the share of the raw input tokens that masked requests take."""

    sessions: int
    requests: int
    outputs_kept: int
    raw_tokens: int
    masked_tokens: int
    masked_outputs: int
    masked_bytes: int
    unreadable: tuple[str, ...]

    @property
    def cost(self) -> float:
        """Share of the raw input tokens that is left."""
        return self.masked_tokens / max(self.raw_tokens, 1)

    @property
    def is_kept(self) -> bool:
        """Return whether both promises are kept."""
        return self.cost <= COST_MAX and not self.unreadable


class Costs(msgspec.Struct, frozen=True):
    """Tokens of all requests of a session, and the records of the outputs that are masked at its end."""

    requests: int
    raw_tokens: int
    masked_tokens: int
    masked: tuple[int, ...]


def costs_of(records: Sequence[Logged], *, keep: int) -> Costs:
    """Measure every request of a session, unmasked and with all but the newest outputs masked.

    Both are sums over the messages before the request: its view consists of the same messages.
    """
    plain = conversation(records)
    saved = _saved_tokens(records, plain)
    sizes = list(accumulate((tokens_of_message(one.message) for one in plain), initial=0))
    raw = masked = requests = before = 0
    for logged in records:
        if not isinstance(logged.record, ReplyRecorded):
            continue
        # The request contains what entered the conversation before its reply.
        seen = sum(one.place < logged.seq for one in plain)
        tail = [one for one in records if one.seq < logged.seq]
        before = plan_mask(tail, masked_before=before, keep=keep) or before
        requests += 1
        raw += sizes[seen]
        masked += sizes[seen] - sum(tokens for seq, tokens in saved.items() if seq < before)
    return Costs(requests, raw, masked, tuple(seq for seq in sorted(saved) if seq < before))


def _saved_tokens(records: Sequence[Logged], plain: Sequence[ViewMessage]) -> dict[int, int]:
    """Return the tokens that masking each output saves, by its record. Calls without a result save nothing."""
    masked = conversation(records, lens=Lens(masked_before=records[-1].seq + 1))
    settled = {
        (logged.record.turn, logged.record.result.call_id): logged.seq
        for logged in records
        if isinstance(logged.record, ToolSettled)
    }
    saved: dict[int, int] = {}
    for turn, result, line in _masked_results(plain, masked):
        seq = settled.get((turn, result.call_id))
        if seq is not None and result != line:
            saved[seq] = tokens_of_parts((result,)) - tokens_of_parts((line,))
    return saved


def _masked_results(
    plain: Sequence[ViewMessage], masked: Sequence[ViewMessage]
) -> Iterator[tuple[int, ToolResult, Part]]:
    """Yield the turn of each tool result, the result, and its masked form."""
    for one, hidden in zip(plain, masked, strict=True):
        if one.message.role is Role.TOOL:
            for result, line in zip(one.message.parts, hidden.message.parts, strict=True):
                assert isinstance(result, ToolResult), "a tool message has results only"
                yield one.turn, result, line


async def read_back(recall: Recall, session: str, seq: int) -> bytes:
    """Read a record with the recall tool, page by page."""
    texts: list[str] = []
    offset = 0
    while True:
        shown = "\n".join(await recall.run(session, f'{{"seq": {seq}, "offset": {offset}}}'))
        head, _, text = shown.partition("\n")
        texts.append(text)
        following = _NEXT.search(head)
        if following is None:
            return "".join(texts).encode()
        offset = int(following[1])


def _originals(messages: Sequence[NeutralMessage]) -> dict[tuple[int, str], bytes]:
    """Return the original outputs, by message number and call id."""
    return {
        (message.seq, part.call_id): "\n".join(
            well_formed(piece.text) for piece in part.parts if isinstance(piece, Text)
        ).encode()
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResult)
    }


async def measure_session(messages: Sequence[NeutralMessage], bounds: Bounds) -> MaskingReport:
    """Import one session, measure its requests, and read back the masked outputs."""
    store, blobs = MemoryStore(clock=SystemClock(), bounds=bounds), MemoryBlobs()
    await import_session(messages, _KEY, store=store, blobs=blobs, bounds=bounds)
    records: list[Logged] = []
    async for page in pages(store, _KEY):
        records.extend(page)
    if not records:
        return MaskingReport(0, 0, bounds.outputs_kept, 0, 0, 0, 0, ())
    costs = costs_of(records, keep=bounds.outputs_kept)
    # The original requests, without size bounds and blobs.
    turns = Turns(0)
    sent = [record for turn in turns_of(messages) for record in turns.records(turn)]
    raw = costs_of([Logged(seq, 0.0, record) for seq, record in enumerate(sent, start=1)], keep=bounds.outputs_kept)
    originals, recall = _originals(messages), Recall(store, blobs, Bounds())
    unreadable: list[str] = []
    size = 0
    for seq in costs.masked:
        record = records[seq - 1].record
        assert isinstance(record, ToolSettled), "only outputs are masked"
        original = originals[record.origin or 0, record.result.call_id]
        size += len(original)
        if await read_back(recall, _KEY, seq) != original:
            unreadable.append(f"{messages[0].session_id} record {seq}")
    return MaskingReport(
        sessions=1,
        requests=costs.requests,
        outputs_kept=bounds.outputs_kept,
        raw_tokens=raw.raw_tokens,
        masked_tokens=costs.masked_tokens,
        masked_outputs=len(costs.masked),
        masked_bytes=size,
        unreadable=tuple(unreadable),
    )


def measure_masking(corpus: Path | None) -> MaskingReport:
    """Measure every session of a coding agent."""
    bounds = Bounds()
    reports = [asyncio.run(measure_session(session, bounds)) for session in _sessions(corpus)]
    return MaskingReport(
        sessions=sum(report.sessions for report in reports),
        requests=sum(report.requests for report in reports),
        outputs_kept=bounds.outputs_kept,
        raw_tokens=sum(report.raw_tokens for report in reports),
        masked_tokens=sum(report.masked_tokens for report in reports),
        masked_outputs=sum(report.masked_outputs for report in reports),
        masked_bytes=sum(report.masked_bytes for report in reports),
        unreadable=tuple(name for report in reports for name in report.unreadable),
    )


def _sessions(corpus: Path | None) -> Iterator[list[NeutralMessage]]:
    return sessions_of(corpus, only=_FILE)


@click.command()
@corpus_option
@json_option
def masking(corpus: Path | None, *, as_json: bool) -> None:
    """Measure the tokens saved by masking, and read back all masked output; exit with 1 if a promise is broken."""
    report = measure_masking(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode({**msgspec.structs.asdict(report), "cost": report.cost}).decode() + "\n")
    else:
        print(f"{report.requests:,} requests of {report.sessions} sessions, {report.raw_tokens:,} input tokens")
        print(
            f"with all but the newest {report.outputs_kept} outputs masked: {report.masked_tokens:,} tokens, "
            f"{report.cost:.1%} (goal {COST_MAX:.0%})"
        )
        print(
            f"{report.masked_outputs:,} masked outputs of {report.masked_bytes / 1e6:.1f} MB read back, "
            f"{len(report.unreadable)} of them not byte for byte"
        )
        for name in report.unreadable[:20]:
            print(f"  {name}")
    if not report.is_kept:
        sys.exit(BROKEN)
