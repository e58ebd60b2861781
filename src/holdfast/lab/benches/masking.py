"""`holdfast bench masking`: what requests would cost if only the newest tool output were shown, over real sessions.

For each request of a session its view is measured, with older output shown by a line, against all that the agent itself
had sent. Then every output that was so hidden is read back with the recall tool, page by page, and compared with the
original byte for byte.
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
from holdfast.core.view import Lens, conversation
from holdfast.lab.benches.harness import corpus_option, sessions_of
from holdfast.rescue.importing import Turns, import_session, turns_of
from holdfast.rescue.neutral import NeutralMessage
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import pages
from holdfast.runtime.tools.recall import Recall
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.types.messages import Role, Text, ToolResult
from holdfast.types.records import Logged, ReplyRecorded, ToolSettled

# The promise: with only the newest outputs shown, requests cost at most this share of their raw input tokens.
COST_MAX = 0.40
_FILE = "claude_code_dev.jsonl.gz"
_KEY = "measured"
# How a page says where the next one starts.
_NEXT = re.compile(r"offset=(\d+)\)\]\Z")


class MaskingReport(msgspec.Struct, frozen=True):
    """The figures of one run. `cost` is the share of the raw input tokens that masked requests take."""

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
        """The share of the raw input tokens that is left."""
        return self.masked_tokens / max(self.raw_tokens, 1)

    @property
    def is_kept(self) -> bool:
        """Whether both promises are kept."""
        return self.cost <= COST_MAX and not self.unreadable


class Costs(msgspec.Struct, frozen=True):
    """What the requests of one session come to, and the records of the outputs that were masked at its end."""

    requests: int
    raw_tokens: int
    masked_tokens: int
    masked: tuple[int, ...]


def costs_of(records: Sequence[Logged], *, keep: int) -> Costs:
    """Measure every request of a session, each plain and with all but the newest outputs masked.

    Both are sums over the messages that were there: a request's view is built of the same ones.
    """
    plain, bare = conversation(records), conversation(records, lens=Lens(masked_before=records[-1].seq + 1))
    settled = {
        (logged.record.turn, logged.record.result.call_id): logged.seq
        for logged in records
        if isinstance(logged.record, ToolSettled)
    }
    # What each masked output saves. A call without a receipt has nothing to mask.
    saved: dict[int, int] = {}
    for one, hidden in zip(plain, bare, strict=True):
        if one.message.role is Role.TOOL:
            for result, line in zip(one.message.parts, hidden.message.parts, strict=True):
                assert isinstance(result, ToolResult), "a tool's message holds results"
                seq = settled.get((one.turn, result.call_id))
                if seq is not None and result != line:
                    saved[seq] = tokens_of_parts((result,)) - tokens_of_parts((line,))
    sizes = list(accumulate((tokens_of_message(one.message) for one in plain), initial=0))
    places = [one.place for one in plain]
    raw = masked = requests = 0
    before = 0
    for logged in records:
        if not isinstance(logged.record, ReplyRecorded):
            continue
        # The request was made of what entered the conversation before its reply did.
        seen = sum(place < logged.seq for place in places)
        tail = [one for one in records if one.seq < logged.seq]
        before = plan_mask(tail, masked_before=before, keep=keep) or before
        requests += 1
        raw += sizes[seen]
        masked += sizes[seen] - sum(tokens for seq, tokens in saved.items() if seq < before)
    return Costs(requests, raw, masked, tuple(seq for seq in sorted(saved) if seq < before))


async def read_back(recall: Recall, session: str, seq: int) -> bytes:
    """Return all of one record as the recall tool gives it, page by page."""
    whole: list[str] = []
    offset = 0
    while True:
        shown = "\n".join(await recall.run(session, f'{{"seq": {seq}, "offset": {offset}}}'))
        head, _, text = shown.partition("\n")
        whole.append(text)
        following = _NEXT.search(head)
        if following is None:
            return "".join(whole).encode()
        offset = int(following[1])


def _originals(messages: Sequence[NeutralMessage]) -> dict[tuple[int, str], bytes]:
    """Return the outputs as the agent had them, by the number of their message and the id of their call."""
    return {
        (message.seq, part.call_id): "\n".join(
            well_formed(piece.text) for piece in part.parts if isinstance(piece, Text)
        ).encode()
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResult)
    }


async def measure_session(messages: Sequence[NeutralMessage], bounds: Bounds) -> MaskingReport:
    """Import one session, measure its requests, and read back what was masked."""
    store, blobs = MemoryStore(clock=SystemClock(), bounds=bounds), MemoryBlobs()
    await import_session(messages, _KEY, store=store, blobs=blobs, bounds=bounds)
    records: list[Logged] = []
    async for page in pages(store, _KEY):
        records.extend(page)
    if not records:
        return MaskingReport(0, 0, bounds.outputs_kept, 0, 0, 0, 0, ())
    costs = costs_of(records, keep=bounds.outputs_kept)
    # As the agent sent it: nothing bounded, nothing in a blob.
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
    """Measure every session of a coding agent's transcripts."""
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
    """Measure what masking old tool output saves, and that all of it can be read; exit with 1 where it does not."""
    report = measure_masking(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode({**msgspec.structs.asdict(report), "cost": report.cost}).decode() + "\n")
    else:
        print(f"{report.requests:,} requests of {report.sessions} sessions, {report.raw_tokens:,} input tokens")
        print(
            f"with the newest {report.outputs_kept} outputs shown: {report.masked_tokens:,} tokens, "
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
