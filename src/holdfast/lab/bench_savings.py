"""`holdfast bench savings`: tokens and dollars of sessions replayed raw, folded, masked and summarised.

Every request of a session is priced with a prompt cache: the beginning that it shares with the request before is read
from the cache, the rest is written to it. Sizes are estimates, the same for all replays. No request pauses longer than
the cache lives, so a mask never comes for free.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import msgspec

from holdfast.cli.output import align_columns, json_option
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.savings import PromptCache
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.proxy.folding import fold_repeats, unfold
from holdfast.core.proxy.savings import MaskSizes, plan_early_mask
from holdfast.core.view import MASKED_BYTES_MIN
from holdfast.lab.benches.harness import corpus_option, sessions_of
from holdfast.types.messages import Message, Role, Text, ToolCall, ToolResult, Usage

# Dollars per million tokens: input, cached input, output, cache writes. Those of claude-sonnet-4-6.
PRICES = Prices(3.0, 0.3, 15.0, 3.75)
# A summary is made when a request has so many tokens; it has this size, and so much of the conversation stays.
_SUMMARY_AT, _SUMMARY_TOKENS, _TAIL_TOKENS = 100_000, 2_000, 20_000
_MASK_TOKENS = tokens_of_text("[1,234,567 bytes of output, no longer shown; recall(seq=12345) reads them]")
# System text and tools of a coding agent.
_HEAD_TOKENS = 12_000
_GENERATED = "repetitive logs (generated)"


class Shown(msgspec.Struct, frozen=True):
    """One message in the forms in which a request may show it, in tokens."""

    raw: int
    folded: int
    # Tokens if its output is masked, and the number of outputs. Messages without long output cannot be masked.
    masked: int
    outputs: int = 0
    is_reply: bool = False


class Replay(msgspec.Struct, frozen=True):
    """Totals of all requests of a replay."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0

    def plus(self, other: "Replay") -> "Replay":
        """Return the sum of two replays."""
        return Replay(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.usd + other.usd,
        )


class ReplayRow(msgspec.Struct, frozen=True):
    """One line of the report."""

    sessions: str
    replay: str
    totals: Replay
    # Dollars less than raw, as a share of raw; negative: it cost more.
    saved: float


# A request: each piece by a name for its form and its size. Two requests share the equal pieces at their beginning.
_Request = list[tuple[str, int]]


class _Priced:
    """Prices requests one after the other, as a provider with a prompt cache does."""

    def __init__(self) -> None:
        self.totals = Replay()
        self._before: _Request = []

    def send(self, request: _Request, output_tokens: int) -> None:
        whole = [("head", _HEAD_TOKENS), *request]
        cached = 0
        for one, other in zip(whole, self._before, strict=False):
            if one != other:
                break
            cached += one[1]
        tokens = sum(size for _, size in whole)
        usage = Usage(tokens, output_tokens, cached, cache_write_tokens=tokens - cached)
        self.totals = self.totals.plus(Replay(1, tokens, cached, PRICES.cost(usage) or 0.0))
        self._before = whole

    @property
    def cache(self) -> PromptCache:
        tokens = sum(size for _, size in self._before)
        return PromptCache(tokens, tokens, 1.0 if tokens else None)


def shown(message: Message) -> Shown:
    """Return the forms of a message, and check that its fold can be undone."""
    folded = masked = raw = tokens_of_message(message)
    outputs = 0
    for part in message.parts:
        if not isinstance(part, ToolResult):
            continue
        outputs += 1
        for piece in part.parts:
            if not isinstance(piece, Text):
                continue
            short = fold_repeats(piece.text)
            if short is not None:
                assert unfold(short) == piece.text, "a fold loses nothing"
                folded -= tokens_of_text(piece.text) - tokens_of_text(short)
            if len(piece.text) >= MASKED_BYTES_MIN:
                masked -= tokens_of_text(piece.text) - _MASK_TOKENS
    return Shown(raw, folded, min(masked, folded), outputs, message.role is Role.ASSISTANT)


def _requests(messages: Sequence[Shown]) -> Iterator[tuple[int, int]]:
    """Yield how many messages each request has, and the tokens of its answer."""
    for place, message in enumerate(messages):
        if message.is_reply and place:
            yield place, message.raw


def replay_raw(messages: Sequence[Shown]) -> Replay:
    """Replay the requests as the client sent them."""
    priced = _Priced()
    for count, output in _requests(messages):
        priced.send([(f"{place}", one.raw) for place, one in enumerate(messages[:count])], output)
    return priced.totals


def replay_folded(messages: Sequence[Shown]) -> Replay:
    """Replay the requests with repeated lines folded."""
    priced = _Priced()
    for count, output in _requests(messages):
        priced.send([(f"{place}", one.folded) for place, one in enumerate(messages[:count])], output)
    return priced.totals


def replay_masked(messages: Sequence[Shown]) -> Replay:
    """Replay the requests with all but the newest outputs masked in each, whatever the cache."""
    priced, keep = _Priced(), Bounds().outputs_kept
    for count, output in _requests(messages):
        first = _first_kept(messages[:count], keep)
        priced.send(_with_mask(messages[:count], first, lambda one: one.raw), output)
    return priced.totals


def replay_safe(messages: Sequence[Shown]) -> Replay:
    """Replay the requests with `savings = "safe"`: folded, and masked only where that pays."""
    priced, raw, keep = _Priced(), _Priced(), Bounds().outputs_kept
    before = 0
    for count, output in _requests(messages):
        here = messages[:count]
        first = _first_kept(here, keep)
        unmasked = [place for place in range(before, first) if here[place].masked < here[place].folded]
        if unmasked and priced.totals.usd <= raw.totals.usd:
            freed = sum(here[place].folded - here[place].masked for place in unmasked)
            after = sum(one.folded for one in here[unmasked[0] :]) - freed
            whole = _HEAD_TOKENS + sum(size for _, size in _with_mask(here, before, lambda one: one.folded))
            state = Turn(cache=priced.cache, masked_before=before)
            if plan_early_mask(state, PRICES, MaskSizes(freed, after), whole, 0.0) is not None:
                before = first
        priced.send(_with_mask(here, before, lambda one: one.folded), output)
        raw.send([(f"{place}", one.raw) for place, one in enumerate(here)], output)
    return priced.totals


def replay_summarised(messages: Sequence[Shown]) -> Replay:
    """Replay the requests with a summary in place of the past whenever a request is large."""
    priced = _Priced()
    first, summaries = 0, 0
    for count, output in _requests(messages):
        request = _after_summary(messages[:count], first, summaries)
        if _HEAD_TOKENS + sum(size for _, size in request) > _SUMMARY_AT:
            # The summary is asked for after the conversation as it was last sent.
            priced.send([*request, ("ask for a summary", 200)], _SUMMARY_TOKENS)
            tail, first = 0, count
            while first and tail + messages[first - 1].raw <= _TAIL_TOKENS:
                first -= 1
                tail += messages[first].raw
            summaries += 1
            request = _after_summary(messages[:count], first, summaries)
        priced.send(request, output)
    return priced.totals


def _after_summary(messages: Sequence[Shown], first: int, summaries: int) -> _Request:
    past = [(f"summary {summaries}", _SUMMARY_TOKENS)] if summaries else []
    return [*past, *((f"{place}", one.raw) for place, one in enumerate(messages) if place >= first)]


def _first_kept(messages: Sequence[Shown], keep: int) -> int:
    """Return the first message whose output stays: the newest outputs do."""
    outputs = 0
    for place in range(len(messages) - 1, -1, -1):
        outputs += messages[place].outputs
        if outputs > keep:
            return place + 1
    return 0


def _with_mask(messages: Sequence[Shown], before: int, size: Callable[[Shown], int]) -> _Request:
    return [
        (f"{place} masked", one.masked) if place < before and one.masked < size(one) else (f"{place}", size(one))
        for place, one in enumerate(messages)
    ]


REPLAYS: dict[str, Callable[[Sequence[Shown]], Replay]] = {
    "raw": replay_raw,
    "folded": replay_folded,
    'savings = "safe"': replay_safe,
    "masked in every request": replay_masked,
    "summarised": replay_summarised,
}


def generated_session(steps: int = 40, lines: int = 150) -> list[Message]:
    """Return a session of an agent that watches a service: half of its output is a repetitive log."""
    messages = [Message(Role.USER, (Text("Watch the service until it is healthy, and mend what fails."),))]
    for step in range(steps):
        call = ToolCall(f"call{step}", "shell", f'{{"command": "journalctl -n {lines} --since {step}m"}}')
        first = step * lines
        log = [
            f"2026-11-18T12:{(first + line) // 60 % 60:02}:{(first + line) % 60:02}Z INFO worker 7 heartbeat ok, "
            f"queue=0 id={first + line}"
            for line in range(lines)
        ]
        source = [f"def step_{step}_{line}(depth): return depth * {line * 7919 % 10_007}" for line in range(40)]
        output = "\n".join(log if step % 2 else source)
        result = ToolResult(call.call_id, (Text(output),))
        messages += [Message(Role.ASSISTANT, (call,)), Message(Role.TOOL, (result,))]
    messages.append(Message(Role.ASSISTANT, (Text("The service is healthy."),)))
    return messages


def measure_savings(corpus: Path | None) -> list[ReplayRow]:
    """Replay the generated session, and all sessions of the corpus if there is one."""
    groups: dict[str, list[list[Message]]] = {_GENERATED: [generated_session()]}
    for file in ("claude_code_dev.jsonl.gz", "swe_agent.jsonl.gz", "pi.jsonl.gz") if corpus is not None else ():
        found = sessions_of(corpus, only=file)
        groups[file.partition(".")[0]] = [
            [one.message for one in session if one.message is not None] for session in found
        ]
    rows: list[ReplayRow] = []
    for name, sessions in groups.items():
        sized = [[shown(message) for message in session] for session in sessions]
        raw = _total(replay_raw, sized)
        rows += [
            ReplayRow(name, replay, totals, 1 - totals.usd / raw.usd if raw.usd else 0.0)
            for replay, run in REPLAYS.items()
            for totals in [_total(run, sized)]
        ]
    return rows


def _total(run: Callable[[Sequence[Shown]], Replay], sessions: Sequence[Sequence[Shown]]) -> Replay:
    total = Replay()
    for session in sessions:
        total = total.plus(run(session))
    return total


@click.command()
@corpus_option
@json_option
def savings(corpus: Path | None, *, as_json: bool) -> None:
    """Replay sessions raw, folded, masked and summarised, and price them with a prompt cache, losses included.

    One session is generated. Sessions of the corpus are replayed too, if there is one.
    """
    rows = measure_savings(corpus)
    if as_json:
        click.echo(msgspec.json.encode(rows))
        return
    header = ("sessions", "replay", "requests", "input tokens", "cached", "US dollars", "saved")
    lines = [
        (
            row.sessions,
            row.replay,
            f"{row.totals.requests:,}",
            f"{row.totals.input_tokens:,}",
            f"{row.totals.cached_tokens / max(row.totals.input_tokens, 1):.1%}",
            f"{row.totals.usd:,.2f}",
            f"{row.saved:+.1%}",
        )
        for row in rows
    ]
    for line in align_columns([header, *lines]):
        click.echo(line.rstrip())
    if corpus is None:
        click.echo("no corpus: choose a folder with --corpus or HOLDFAST_CORPUS to replay real sessions")
