"""The synchronous call, for scripts and notebooks."""

import asyncio
from pathlib import Path

import pytest

import holdfast


def test_ask_answers_and_the_session_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "store.db"

    holdfast.ask("remember colour = blue", session="s", store=store)
    answer = holdfast.ask("what is colour?", session="s", store=store)

    assert "blue" in str(answer)


async def test_ask_works_where_a_loop_is_running_already(tmp_path: Path) -> None:
    answer = await asyncio.to_thread(holdfast.ask, "hi", store=tmp_path / "store.db")
    in_the_loop = holdfast.ask("hi", store=tmp_path / "store.db")

    assert answer.text
    assert in_the_loop.text


def test_what_goes_wrong_is_raised_in_the_caller(tmp_path: Path) -> None:
    with pytest.raises(holdfast.UsageError, match="nonsense"):
        holdfast.ask("hi", store=tmp_path / "store.db", model="nonsense:x")
    with pytest.raises(holdfast.BadInputError):
        holdfast.ask("", store=tmp_path / "store.db")


async def test_a_process_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(holdfast.UsageError, match="no model"):
        async with holdfast.open(tmp_path / "store.db", model=[]):
            pass
    assert list(tmp_path.iterdir()) == []
