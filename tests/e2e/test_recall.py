"""What left the view is found and read again: by the model over the wire, by the API and by the command line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import BadInputError
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.recall import PAGE_BYTES
from holdfast.types.limits import Limits
from holdfast.types.records import CompactionApplied, CompactionOutcome, ToolSettled
from tests.cli.programs import holdfast
from tests.e2e.world import ASKED_ONLY, DIALECTS, KEY, World, a_world, ended_well, is_for_notes, records_of, talk
from tests.gateway.gateways import a_gateway_on

# A page that is read stays in the view, so there must be room for some of them.
ROOMY = Limits(window_tokens=24_000, output_tokens_max=1_000)
# Little of an output is shown, so that most of it is spilled; less than a page, so that pages must be shorter.
BOUNDS = replace(ASKED_ONLY, tool_output_bytes_max=4_096)
# More than two pages, with characters of one to four bytes and nothing that a wire, a page or a line may alter.
SURVEY = "".join(f"{number}\tfjord naïve 東京 🚢 harbours/tromso_{number}.csv\t\\n\r\n" for number in range(420))


def survey() -> str:
    """Return all harbours."""
    return SURVEY


def results_in(body: bytes) -> Iterator[str]:
    """Yield the texts of tool results in a request as it came over the wire, of either dialect."""
    request: dict[str, Any] = json.loads(body)
    for message in request["messages"]:
        if message["role"] == "tool":
            yield message["content"]
        elif isinstance(message["content"], list):
            for part in message["content"]:
                if part["type"] == "tool_result":
                    inner = part["content"]
                    yield inner if isinstance(inner, str) else "".join(one["text"] for one in inner)


async def recalled(world: World, session: Session, **arguments: str | int) -> str:
    """Have the model call the tool, and return what it was then given over the wire."""
    await session.send(f"call recall {json.dumps(arguments)}")
    return list(results_in(world.simulation.requests[-1].body))[-1]


async def all_pages(world: World, session: Session, **arguments: str | int) -> tuple[str, int]:
    """Read on as each page says, and return all of it and how many pages it took."""
    whole, offset, count = "", 0, 0
    while True:
        head, _, text = (await recalled(world, session, **arguments, offset=offset)).partition("\n")
        assert len(text.encode()) <= PAGE_BYTES
        whole, count = whole + text, count + 1
        following = re.search(r"offset=(\d+)\)\]$", head)
        if following is None:
            return whole, count
        assert int(following[1]) == len(whole.encode()), "pages join without a gap"
        offset = int(following[1])


async def a_past(world: World, hold: Client) -> tuple[Session, int, int]:
    """Return a session whose fact and spilled output have left the view, with the records that hold them."""
    session = await hold.session(KEY)
    fact = await session.post("remember berth = 17-B, as written in notes/berths.md by Ada")
    await session.wait(fact)
    await session.send("call survey {}")
    await talk(session, messages=4)
    assert (await session.compact()).outcome is CompactionOutcome.APPLIED
    settled = [one.seq for one in await session.history(limit=1_000) if isinstance(one.record, ToolSettled)]
    await session.send("go on")
    shown = world.simulation.requests[-1].body
    assert list(results_in(shown)) == [], "the output is no longer shown"
    return session, fact, settled[0]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_model_finds_and_reads_what_left_its_view_byte_for_byte_over_the_wire(
    tmp_path: Path, dialect: str
) -> None:
    """By words, by a path, by the number of a record and by the id of a blob."""
    async with (
        a_world(tmp_path, dialect, ROOMY) as world,
        world.open(world.model(declared=ROOMY), bounds=BOUNDS, tools=[survey]) as hold,
    ):
        session, fact, output = await a_past(world, hold)

        by_words = await recalled(world, session, query="which berth did Ada write down")
        by_path = await recalled(world, session, query="harbours/tromso_3.csv")
        read, pages = await all_pages(world, session, seq=output)
        (settled,) = [one for one in await records_of(session, ToolSettled) if one.result.originals]
        blob = settled.result.originals[0].sha256
        kept, _ = await all_pages(world, session, blob=blob[:12])

        assert re.search(rf"^\[#{fact}\] .*17-B", by_words, re.MULTILINE)
        assert re.search(rf"^\[#{output}\] ", by_path, re.MULTILINE)
        assert pages > 2
        assert read == kept == SURVEY
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("summariser", ["works", "refuses"])
async def test_every_record_that_a_summary_or_its_ledger_cites_can_be_recalled(
    tmp_path: Path, dialect: str, summariser: str
) -> None:
    """FM-071: what stands for the past names records, and the tool takes each of them."""
    async with a_world(tmp_path, dialect, ROOMY) as world:
        if summariser == "refuses":
            world.simulation.fault_of = lambda body: "content-filter" if b"working notes" in body else ""
        async with world.open(world.model(declared=ROOMY), bounds=BOUNDS, tools=[survey]) as hold:
            session, fact, _ = await a_past(world, hold)
            (applied,) = await records_of(session, CompactionApplied)
            newest = [seen for seen in world.simulation.requests if not is_for_notes(seen)][-1].body.decode()
            cited = sorted({int(seq) for seq in re.findall(r"\[#(\d+)\]", newest)})

            told = {seq: await recalled(world, session, seq=seq) for seq in cited}

            assert cited == sorted({int(seq) for seq in re.findall(r"\[#(\d+)\]", applied.summary)})
            assert fact in cited
            assert all(text.startswith(f"[record {seq}, ") for seq, text in told.items())
            assert "berth = 17-B, as written in notes/berths.md by Ada" in told[fact]


async def test_the_library_the_api_and_the_command_line_read_the_same_text_as_the_model(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai", ROOMY) as world:
        async with world.open(world.model(declared=ROOMY), bounds=BOUNDS, tools=[survey]) as hold:
            session, fact, output = await a_past(world, hold)
            by_model = await recalled(world, session, seq=output)
            page = await session.recall(seq=output)
            assert by_model == page.as_text()

            async with a_gateway_on(hold) as client:
                path = f"/api/sessions/{KEY.replace(':', '%3A')}"
                over_http = [(await client.get(f"{path}/recall?seq={output}")).body]
                while over_http[-1]["end"] < over_http[-1]["total"]:
                    over_http.append(
                        (await client.get(f"{path}/recall?seq={output}&offset={over_http[-1]['end']}")).body
                    )
                found = (await client.get(f"{path}/search?query=which+berth+did+Ada+write+down")).body["hits"]
                nothing = await client.get(f"{path}/recall?seq=99999")
                neither = await client.get(f"{path}/recall")

            [record] = [one.record for one in await session.history(after=output - 1, limit=1)]
            assert isinstance(record, ToolSettled)
            blob = record.result.originals[0].sha256[:12]
            for wrong in ({}, {"seq": 1, "blob": blob}, {"seq": -1}, {"seq": 1, "offset": -1}):
                with pytest.raises(BadInputError):
                    await session.recall(**wrong)

        printed = holdfast("recall", KEY, str(output), "--store", world.store)
        original = holdfast("recall", KEY, "--blob", blob, "--store", world.store, "--json")
        nothing_named = holdfast("recall", KEY, "--store", world.store)
        searched = holdfast("search", KEY, "which berth did Ada write down", "--json", "--store", world.store)

    assert over_http[0] == {
        "text": page.text,
        "start": 0,
        "end": page.end,
        "total": page.total,
        "seq": output,
        "blob": "",
    }
    assert "".join(one["text"] for one in over_http) == SURVEY
    assert fact in [hit["seq"] for hit in found]
    assert nothing.code == (422, "bad_input")
    assert neither.code == (422, "bad_input")
    assert printed.stdout.decode() == SURVEY
    assert "".join(json.loads(line)["text"] for line in original.stdout.splitlines()) == SURVEY
    assert nothing_named.returncode == 2
    assert b"give a SEQ or --blob ID" in nothing_named.stderr
    assert fact in [json.loads(line)["seq"] for line in searched.stdout.splitlines()]
