"""Titles, tags and metadata of sessions, and lists of sessions by them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import BadInputError, SeqMovedError
from holdfast.types.messages import Text


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[holdfast.Client]:
    async with holdfast.open(tmp_path / "s.db") as client:
        yield client


async def test_a_title_is_made_from_the_first_message_and_a_given_one_replaces_it(client: holdfast.Client) -> None:
    chat = await client.session("s")
    assert await chat.labels() == holdfast.Labels()
    await chat.send("## Plan the   trip to Kiel\nwith details")
    await chat.send("second")

    made = await chat.labels()
    given = await chat.label(title="Kiel")

    assert (made, given) == (
        holdfast.Labels("Plan the trip to Kiel", is_title_made=True),
        holdfast.Labels("Kiel"),
    )
    assert await chat.label(title="") == made


async def test_tags_and_metadata_are_added_and_removed(client: holdfast.Client) -> None:
    chat = await client.session("s")

    await chat.label(tags=["b", "a", "b"], metadata={"owner": "x"})
    await chat.tag("c")
    await chat.untag("a", "unknown")

    assert await chat.labels() == holdfast.Labels(tags=("b", "c"), metadata={"owner": "x"})
    assert [logged.seq for logged in await chat.history()] == [1, 2, 3]


async def test_the_same_labels_again_write_nothing(client: holdfast.Client) -> None:
    chat = await client.session("s")
    await chat.label(title="t", tags=["a"])

    await chat.label(title="t", tags=["a"])

    assert len(await chat.history()) == 1


async def test_labels_of_a_log_that_has_grown_are_rejected(client: holdfast.Client) -> None:
    chat = await client.session("s")
    await chat.label(title="first", expect=0)

    for write in (chat.label(title="late", expect=0), chat.tag("late", expect=0)):
        with pytest.raises(SeqMovedError):
            await write

    assert await chat.labels() == holdfast.Labels("first")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"title": "x" * 201}, "the limit is 200"),
        ({"tags": "abc"}, "a list of texts"),
        ({"tags": [" a"]}, "is not a tag"),
        ({"tags": [""]}, "is not a tag"),
        ({"tags": [f"t{number}" for number in range(51)]}, "at most 50 tags"),
        ({"metadata": {"a": 1}}, "is not text"),
        ({"metadata": {"": "b"}}, "too long"),
        ({"metadata": {f"m{number}": "" for number in range(51)}}, "at most 50 entries"),
    ],
)
async def test_bad_labels_are_rejected_with_the_limit(
    client: holdfast.Client, labels: dict[str, Any], said: str
) -> None:
    chat = await client.session("s")

    with pytest.raises(BadInputError, match=said):
        await chat.label(**labels)

    assert await chat.history() == []


async def test_sessions_are_listed_by_text_tag_model_and_state(client: holdfast.Client) -> None:
    for key, text in (("a", "about Kiel"), ("b", "about Oslo")):
        await (await client.session(key)).send(text)
    await (await client.session("b")).tag("north")
    await client.session("c", model="sim")

    async def keys(**wanted: object) -> list[str]:
        return [one.key for one in await client.sessions(**wanted)]  # type: ignore[arg-type]  # each test names its own

    assert await keys() == ["a", "b", "c"]
    assert await keys(order="recent") == ["c", "b", "a"]
    assert await keys(text="OSLO") == ["b"]
    assert await keys(tags=["north"]) == ["b"]
    assert await keys(model="sim") == ["c"]
    assert (await keys(state="idle"), await keys(state="working")) == (["a", "b", "c"], [])
    assert await keys(limit=1, after="a") == ["b"]
    newest = await client.sessions(order="recent", limit=1)
    assert await keys(order="recent", after=newest[0].cursor) == ["b", "a"]
    with pytest.raises(BadInputError, match="idle or working"):
        await keys(state="asleep")


async def test_a_fork_keeps_the_labels(client: holdfast.Client) -> None:
    chat = await client.session("s")
    await chat.send("hello")
    await chat.label(title="t", tags=["a"])

    fork = await chat.fork("copy")

    assert await fork.labels() == await chat.labels()
    assert [one.key for one in await client.sessions(tags=["a"])] == ["copy", "s"]


async def test_labels_are_not_shown_to_the_model(client: holdfast.Client) -> None:
    chat = await client.session("s")
    await chat.send("hello")
    await chat.label(title="secret title", tags=["secret"])

    shown = [part.text for one in (await chat.view()).messages for part in one.parts if isinstance(part, Text)]

    assert not any("secret" in text for text in shown)
