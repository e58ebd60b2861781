"""A store that fails while a part is being replaced: the turn goes on, says so, and writes it down when it can."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import STORE_FAILED, STORE_FULL
from holdfast.errors import StoreFullError, TurnFailedError
from holdfast.ports import Admission, Attachment, Lease
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import a_tool_call
from holdfast.testing.crashes import CrashingStore, CrashPoint, check_log, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, refuses, says
from holdfast.types.messages import Media, Reply, Request, Text, ToolOutcome
from holdfast.types.records import (
    AnyRecord,
    AttemptStarted,
    InboxRecord,
    InputAdmitted,
    LeasedRecord,
    LimitsLearned,
    NoticePosted,
    PartReplaced,
    ReplyRecorded,
    RungStarted,
    ToolSettled,
    TurnEnded,
)
from tests.e2e.images import a_png

BOUNDS = Bounds(compacts_ahead=False, back_off_seconds_min=0.001, interruptions_max=50)
KEY = "telegram:42"
PHOTO = Attachment(a_png(size_bytes=9_000), "photo.png")


class FailingStore(MemoryStore):
    """A store whose disk is full for some records, as often as a test says."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), bounds=BOUNDS)
        self.fails_for: tuple[type[AnyRecord], ...] = ()
        self.times = 0

    def _maybe_fail(self, records: Sequence[AnyRecord]) -> None:
        if self.times and any(isinstance(record, self.fails_for) for record in records):
            self.times -= 1
            raise StoreFullError("no space is left on the disk")

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        self._maybe_fail(records)
        return await super().append(lease, records, after=after)

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        self._maybe_fail([record])
        return await super().admit(session, record)


def refuses_images(request: Request) -> Reply | object:
    """Answer, unless there is an image."""
    if any(isinstance(part, Media) for message in request.messages for part in message.parts):
        return refuses(400, "messages.0.content.1.image: image exceeds 5 KB maximum: 9000 bytes > 5120 bytes")
    return says("aye")


def a_model() -> FunctionModel:
    return FunctionModel(refuses_images)  # type: ignore[arg-type] # a refusal or a reply


async def records_of(store: MemoryStore) -> list[AnyRecord]:
    return [logged.record for logged in await store.read(KEY)]


@pytest.mark.parametrize(
    ("fails_for", "times"),
    [
        ((PartReplaced,), 1),
        # Until the answer is there: the climb, the replacement and the request have been in memory alone.
        ((RungStarted, PartReplaced), 5),
        ((PartReplaced,), 2),
    ],
    ids=["once", "from the rung on", "until the request is answered"],
)
async def test_the_turn_goes_on_and_the_replacement_is_written_when_the_store_works_again(
    fails_for: tuple[type[AnyRecord], ...], times: int, caplog: pytest.LogCaptureFixture
) -> None:
    """FM-079, FM-123."""
    store, blobs, model = FailingStore(), MemoryBlobs(), a_model()
    async with a_hold(an_engine(model, store=store, blobs=blobs, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        store.fails_for, store.times = fails_for, times

        with caplog.at_level(logging.WARNING, "holdfast"):
            answer = await session.send("look", attachments=[PHOTO])

        assert answer.text == "aye"
        assert store.times == 0, "it has failed as often as it should"
        assert len(model.requests) == 3, "hello, the image, and the same without it"
        assert [record.message for record in caplog.records].count("store.write.postponed") >= 1
        assert any("store could not be written" in notice for notice in answer.notices)
    records = await records_of(store)
    check_log(await store.read(KEY), accepted=())
    (replaced,) = [record for record in records if isinstance(record, PartReplaced)]
    assert isinstance(replaced.shown, Text)
    assert [record.code for record in records if isinstance(record, NoticePosted)].count(STORE_FAILED) == 1
    order = [type(record) for record in records if isinstance(record, PartReplaced | AttemptStarted | ReplyRecorded)]
    assert order[-3:] == [PartReplaced, AttemptStarted, ReplyRecorded]

    again = a_model()
    async with a_hold(an_engine(again, store=store, blobs=blobs, bounds=BOUNDS)) as hold:
        await (await hold.session(KEY)).send("and now?")
        assert len(again.requests) == 1, "still replaced after a restart"


async def test_a_message_that_comes_meanwhile_is_answered_after_it() -> None:
    """What waits to be written stands behind what came in between."""
    store = FailingStore()
    engine = an_engine(a_model(), store=store, bounds=BOUNDS)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        store.fails_for, store.times = (PartReplaced,), 1
        first = await session.post("look", attachments=[PHOTO])
        second = await session.post("and this?")

        assert (await session.wait(first)).text == "aye"
        assert (await session.wait(second)).text == "aye"
    check_log(await store.read(KEY), accepted=(first, second))


async def test_a_disk_that_is_full_ends_the_turn_as_that_and_the_next_message_works_when_there_is_room() -> None:
    """FM-123, FM-124: nobody is given an answer that is not on disk, and nobody waits for one."""
    store, blobs = FailingStore(), MemoryBlobs()
    async with a_hold(an_engine(a_model(), store=store, blobs=blobs, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        store.fails_for, store.times = (PartReplaced, ReplyRecorded), 1_000

        with pytest.raises(TurnFailedError) as failed:
            await session.send("look", attachments=[PHOTO])

        assert (failed.value.reason, failed.value.sentence) == (STORE_FULL.code, STORE_FULL.sentence)
        assert not any(isinstance(record, PartReplaced | ReplyRecorded) for record in await records_of(store))
        store.times = 0
        assert (await session.send("and now?")).text == "aye"
    check_log(await store.read(KEY), accepted=(1,))


async def test_where_not_even_the_end_can_be_written_that_is_told_and_the_turn_goes_on_when_it_can() -> None:
    """FM-123: as with a store that keeps no space."""
    store, blobs = FailingStore(), MemoryBlobs()
    async with a_hold(an_engine(a_model(), store=store, blobs=blobs, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        store.fails_for, store.times = (PartReplaced, ReplyRecorded, TurnEnded), 1_000

        with pytest.raises(StoreFullError):
            await session.send("look", attachments=[PHOTO])

    store.times = 0
    async with a_hold(an_engine(a_model(), store=store, blobs=blobs, bounds=BOUNDS)) as hold:
        assert (await (await hold.session(KEY)).wait(1)).text == "aye"
    check_log(await store.read(KEY), accepted=(1,))


async def test_a_tool_whose_receipt_cannot_be_kept_is_unknown_and_is_not_run_again() -> None:
    """FM-124."""
    store = FailingStore()
    ran: list[str] = []

    @tool
    async def pay(order: str) -> str:
        """Pay for an order."""
        ran.append(order)
        store.fails_for, store.times = (ToolSettled,), 1
        return "paid"

    replies = [says("", a_tool_call("pay", '{"order": "7"}')), says("aye")]
    engine = an_engine(FunctionModel(lambda _: replies.pop(0)), tools=[pay], store=store, bounds=BOUNDS)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)

        with pytest.raises(TurnFailedError) as failed:
            await session.send("pay for 7")

        assert failed.value.reason == "store_full"
        assert (await session.send("well?")).text == "aye"
    assert ran == ["7"]
    (settled,) = [record for record in await records_of(store) if isinstance(record, ToolSettled)]
    assert settled.result.outcome is ToolOutcome.UNKNOWN
    check_log(await store.read(KEY), accepted=(1,))


async def test_what_a_refusal_taught_need_not_be_written_for_the_turn_to_go_on() -> None:
    store = FailingStore()
    async with a_hold(an_engine(a_model(), store=store, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        store.fails_for, store.times = (LimitsLearned,), 1

        assert (await session.send("look", attachments=[PHOTO])).text == "aye"
        await session.send("go on")
    learned = [logged.record for logged in await store.read("holdfast:learned")]
    assert learned, "it is news until it is written"


@pytest.fixture
async def _the_dead_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


async def lives(store: FailingStore, blobs: MemoryBlobs, point: CrashPoint | None) -> int:
    """Be a process that sends the image, or finds that it was sent, on a disk that fails once."""
    store.fails_for, store.times = (PartReplaced,), 1
    crashing = CrashingStore(store, point)
    engine = an_engine(a_model(), store=crashing, blobs=blobs, bounds=BOUNDS)
    died = asyncio.ensure_future(crashing.died.wait())
    async with a_hold(engine) as hold:

        async def work() -> None:
            session = await hold.session(KEY)
            await session.send("look", attachments=[PHOTO], client_id="photo")

        working = asyncio.ensure_future(work())
        await asyncio.wait([working, died], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, died):
            task.cancel()
        await asyncio.gather(working, died, return_exceptions=True)
    return crashing.writes


@pytest.mark.usefixtures("_the_dead_are_silent")
async def test_killed_at_any_write_around_the_failure_the_view_is_the_old_or_the_new_one() -> None:
    """FM-101."""
    writes = await lives(FailingStore(), MemoryBlobs(), None)
    for point in every_point(writes):
        store, blobs = FailingStore(), MemoryBlobs()
        await lives(store, blobs, point)
        await lives(store, blobs, None)

        records = await records_of(store)
        check_log(await store.read(KEY), accepted=())
        assert sum(isinstance(record, InputAdmitted) for record in records) == 1, str(point)
        assert sum(isinstance(record, PartReplaced) for record in records) == 1, str(point)
        assert any(isinstance(record, TurnEnded) for record in records), str(point)
