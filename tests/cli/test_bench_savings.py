"""`holdfast bench savings` prices requests with a prompt cache, and counts losses."""

import json
from pathlib import Path

from click.testing import CliRunner

from holdfast.core.limits.sizing import tokens_of_message
from holdfast.lab.bench_savings import (
    PRICES,
    REPLAYS,
    Replay,
    Shown,
    generated_session,
    replay_masked,
    replay_raw,
    replay_safe,
    replay_summarised,
    savings,
    shown,
)
from holdfast.types.messages import Message, Role, Text, ToolResult, Usage
from tests.cli.test_bench_transcripts import a_corpus

HEAD = 12_000
ASKED, ANSWER = Shown(100, 100, 100), Shown(50, 50, 50, is_reply=True)


def _output(tokens: int) -> Shown:
    return Shown(tokens, tokens, 30, 1)


def test_a_request_reads_the_beginning_that_it_shares_with_the_one_before_from_the_cache() -> None:
    totals = replay_raw([ASKED, ANSWER, _output(1_000), ANSWER])
    first, second = HEAD + 100, HEAD + 1_150
    costs = [
        PRICES.cost(Usage(first, 50, 0, cache_write_tokens=first)),
        PRICES.cost(Usage(second, 50, first, cache_write_tokens=1_050)),
    ]
    assert totals == Replay(2, first + second, first, sum(cost or 0.0 for cost in costs))


def test_masking_in_every_request_sends_less_and_costs_more_while_the_safe_way_loses_one_mask_at_most() -> None:
    messages = [ASKED, *(one for _ in range(40) for one in (ANSWER, _output(3_000))), ANSWER]
    raw, masked, safe = replay_raw(messages), replay_masked(messages), replay_safe(messages)
    assert masked.input_tokens < raw.input_tokens / 2
    assert masked.usd > raw.usd
    # The session ends before its last mask has paid.
    assert safe.usd < 1.03 * raw.usd


def test_a_mask_that_pays_is_made() -> None:
    messages = [ASKED, ANSWER, _output(60_000), *(one for _ in range(40) for one in (ANSWER, _output(100))), ANSWER]
    raw, safe = replay_raw(messages), replay_safe(messages)
    assert safe.input_tokens < raw.input_tokens / 2
    assert safe.usd < raw.usd


def test_a_summary_is_a_request_of_its_own() -> None:
    messages = [ASKED, *(one for _ in range(10) for one in (ANSWER, _output(15_000))), ANSWER]
    assert replay_summarised(messages).requests == replay_raw(messages).requests + 1


def test_a_message_is_measured_in_all_forms() -> None:
    log = "\n".join(["the harbour is closed"] * 100)
    message = Message(Role.TOOL, (ToolResult("a", (Text(log),)), ToolResult("b", (Text("short"),))))
    forms = shown(message)
    assert (forms.raw, forms.outputs, forms.is_reply) == (tokens_of_message(message), 2, False)
    assert forms.masked <= forms.folded < 100 < forms.raw


def test_the_generated_session_is_replayed_anywhere_and_a_corpus_where_there_is_one(tmp_path: Path) -> None:
    a_corpus(tmp_path, steps=3)
    folder = tmp_path / "transcripts" / "neutral"
    for name in ("swe_agent", "pi"):
        (folder / f"{name}.jsonl.gz").write_bytes((folder / "claude_code_dev.jsonl.gz").read_bytes())
    rows = json.loads(CliRunner().invoke(savings, ["--corpus", str(tmp_path), "--json"]).output)
    alone = CliRunner(env={"HOLDFAST_CORPUS": None}).invoke(savings, []).output.splitlines()
    assert len(rows) == 4 * len(REPLAYS)
    assert [row["totals"]["requests"] for row in rows if row["sessions"] == "pi"] == [4] * len(REPLAYS)
    assert len(alone) == 2 + len(REPLAYS)
    assert alone[-1] == "no corpus: choose a folder with --corpus or HOLDFAST_CORPUS to replay real sessions"
    assert len(generated_session(steps=2, lines=3)) == 6
