"""Promises of the `Log` port about records and sessions, and of the `Snapshots` port."""

import asyncio

import pytest

from holdfast.errors import BadInputError, ClientIdReusedError, LeaseLostError, QueueFullError, SeqMovedError
from holdfast.ports import Admission, Lease, Log, SessionInfo, Snapshot, Snapshots
from holdfast.testing.builders import (
    INPUTS_WAITING_MAX,
    ODD_KEYS,
    ManualClock,
    StorePromises,
    a_notice,
    a_reply,
    a_turn_ended,
    a_turn_started,
    an_attempt_started,
    an_input,
    lease_on,
    log_of,
)
from holdfast.types.messages import Text
from holdfast.types.records import CancelRequested, InputAdmitted, Logged, Outcome, SessionConfigured


class AppendPromises(StorePromises):
    """`admit`, `append` and `read`: order, atomicity, idempotent inputs, and a bound on pending inputs."""

    async def test_a_session_that_does_not_exist_is_empty(self, store: Log) -> None:
        assert await store.read("nobody") == []
        assert await store.info("nobody") is None

    async def test_records_are_numbered_from_one_in_the_order_they_came(self, store: Log, clock: ManualClock) -> None:
        started = clock.now()
        first = await store.admit("s", an_input("hi"))
        lease = await lease_on(store)
        clock.advance(5)

        last = await store.append(lease, [a_turn_started(1), an_attempt_started(1)], after=1)
        second = await store.admit("s", an_input("more"))

        assert (first, last, second) == (Admission(1, is_new=True), 3, Admission(4, is_new=True))
        assert await store.read("s") == [
            Logged(1, started, an_input("hi")),
            Logged(2, started + 5, a_turn_started(1)),
            Logged(3, started + 5, an_attempt_started(1)),
            Logged(4, started + 5, an_input("more")),
        ]

    async def test_anyone_may_admit_while_another_holds_the_lease(self, store: Log) -> None:
        await lease_on(store, owner="someone else")

        await store.admit("s", an_input("hi"))
        await store.admit("s", CancelRequested(turn=1))
        await store.admit("s", SessionConfigured(model="m"))

        assert await log_of(store) == [an_input("hi"), CancelRequested(turn=1), SessionConfigured(model="m")]

    async def test_appending_nothing_changes_nothing(self, store: Log) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_notice()], after=0)

        assert await store.append(lease, [], after=1) == 1

        assert await log_of(store) == [a_notice()]

    async def test_a_writer_that_missed_a_record_is_refused_and_nothing_is_written(self, store: Log) -> None:
        lease = await lease_on(store)
        await store.admit("s", an_input("came first"))

        with pytest.raises(SeqMovedError) as refusal:
            await store.append(lease, [a_notice("late"), a_notice("later")], after=0)

        assert (refusal.value.session, refusal.value.expected, refusal.value.found) == ("s", 0, 1)
        assert await log_of(store) == [an_input("came first")]

    async def test_a_writer_ahead_of_the_log_is_refused(self, store: Log) -> None:
        lease = await lease_on(store)

        with pytest.raises(SeqMovedError):
            await store.append(lease, [a_notice()], after=7)

        assert await log_of(store) == []

    async def test_a_writer_without_the_lease_is_refused_and_nothing_is_written(self, store: Log) -> None:
        stale = await lease_on(store)
        await store.release(stale)
        await lease_on(store, owner="successor")

        with pytest.raises(LeaseLostError) as refusal:
            await store.append(stale, [a_notice("late")], after=0)

        assert (refusal.value.session, refusal.value.fence) == ("s", stale.fence)
        assert await log_of(store) == []

    async def test_a_lease_that_was_never_given_is_refused(self, store: Log) -> None:
        forged = Lease(session="s", owner="nobody", fence=0, expires_at=1e12)

        with pytest.raises(LeaseLostError):
            await store.append(forged, [a_notice()], after=0)

        assert await store.info("s") is None

    async def test_one_unstorable_record_keeps_out_the_whole_append(self, store: Log) -> None:
        lease = await lease_on(store)

        with pytest.raises(BadInputError):
            await store.append(lease, [a_notice("fine"), a_notice("lone \ud800 surrogate")], after=0)

        assert await log_of(store) == []

    async def test_reading_starts_behind_after_and_stops_at_the_limit(self, store: Log) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_notice(str(number)) for number in range(1, 11)], after=0)

        async def seqs(after: int, limit: int | None) -> list[int]:
            return [each.seq for each in await store.read("s", after=after, limit=limit)]

        assert await seqs(0, None) == list(range(1, 11))
        assert await seqs(4, 3) == [5, 6, 7]
        assert await seqs(8, 100) == [9, 10]
        assert await seqs(0, 0) == []
        assert await seqs(10, None) == []
        assert await seqs(11, 5) == []
        assert await seqs(-3, 2) == [1, 2]

    async def test_large_records_come_back_whole(self, store: Log) -> None:
        text = "é" * 2**19  # one MiB
        lease = await lease_on(store)

        await store.append(lease, [a_reply(text), a_turn_ended()], after=0)

        assert await log_of(store) == [a_reply(text), a_turn_ended()]

    async def test_any_well_formed_text_comes_back_as_it_was(self, store: Log) -> None:
        texts = [
            "",
            "\x00",
            "line\nbreak\r\n",
            "'; DROP TABLE records; --",
            "\u2028\u200b\ufeff",
            "😀 ẞ \uff46",
            '{"a": 1}',
        ]

        for text in texts:
            await store.admit("s", an_input(text))

        assert await log_of(store) == [an_input(text) for text in texts]

    async def test_many_tasks_at_once_leave_one_gapless_log(self, store: Log) -> None:
        lease = await lease_on(store)

        async def work() -> None:
            seq = 0
            for number in range(10):
                while True:
                    try:
                        seq = await store.append(lease, [a_notice(f"work {number}")] * 2, after=seq)
                        break
                    except SeqMovedError as moved:
                        seq = moved.found

        async def send(number: int) -> Admission:
            return await store.admit("s", an_input(f"input {number}"))

        working = asyncio.create_task(work())
        admissions = await asyncio.gather(*(send(number) for number in range(INPUTS_WAITING_MAX)))
        await working

        log = await log_of(store)
        assert len(log) == 20 + INPUTS_WAITING_MAX
        assert [log[admission.seq - 1] for admission in admissions] == [
            an_input(f"input {number}") for number in range(INPUTS_WAITING_MAX)
        ]
        notices = [record for record in log if not isinstance(record, InputAdmitted)]
        assert notices == [a_notice(f"work {number}") for number in range(10) for _ in range(2)]

    # Idempotent inputs.

    async def test_the_same_message_sent_twice_is_one(self, store: Log) -> None:
        first = await store.admit("s", an_input("hi", client_id="c1"))
        await store.admit("s", an_input("other"))

        again = await store.admit("s", an_input("hi", client_id="c1"))

        assert (first, again) == (Admission(1, is_new=True), Admission(1, is_new=False))
        assert await log_of(store) == [an_input("hi", client_id="c1"), an_input("other")]

    async def test_a_message_sent_many_times_at_once_is_one(self, store: Log) -> None:
        admissions = await asyncio.gather(*(store.admit("s", an_input("hi", client_id="c1")) for _ in range(10)))

        assert sorted(admission.is_new for admission in admissions) == [False] * 9 + [True]
        assert {admission.seq for admission in admissions} == {1}
        assert await log_of(store) == [an_input("hi", client_id="c1")]

    async def test_one_client_id_for_two_messages_is_refused_and_nothing_is_written(self, store: Log) -> None:
        await store.admit("s", an_input("hi", client_id="c1"))

        with pytest.raises(ClientIdReusedError) as refusal:
            await store.admit("s", an_input("something else", client_id="c1"))

        assert (refusal.value.session, refusal.value.client_id, refusal.value.seq) == ("s", "c1", 1)
        assert await log_of(store) == [an_input("hi", client_id="c1")]

    async def test_client_ids_belong_to_their_session(self, store: Log) -> None:
        await store.admit("s", an_input("hi", client_id="c1"))

        elsewhere = await store.admit("t", an_input("something else", client_id="c1"))

        assert elsewhere == Admission(1, is_new=True)
        assert await log_of(store, "t") == [an_input("something else", client_id="c1")]

    async def test_messages_without_a_client_id_are_never_merged(self, store: Log) -> None:
        await store.admit("s", an_input("hi"))

        assert await store.admit("s", an_input("hi")) == Admission(2, is_new=True)

    # A bound on pending inputs.

    async def test_a_full_queue_refuses_inputs_until_one_has_its_outcome(self, store: Log) -> None:
        for number in range(INPUTS_WAITING_MAX):
            await store.admit("s", an_input(str(number)))

        with pytest.raises(QueueFullError) as refusal:
            await store.admit("s", an_input("one too many"))

        assert (refusal.value.session, refusal.value.waiting) == ("s", INPUTS_WAITING_MAX)
        lease = await lease_on(store)
        await store.append(lease, [a_turn_ended(1)], after=INPUTS_WAITING_MAX)
        assert await store.admit("s", an_input("now")) == Admission(INPUTS_WAITING_MAX + 2, is_new=True)

    async def test_a_full_queue_still_takes_what_is_no_input_and_knows_what_it_has(self, store: Log) -> None:
        for number in range(INPUTS_WAITING_MAX):
            await store.admit("s", an_input(str(number), client_id=str(number)))

        cancel = await store.admit("s", CancelRequested(turn=1))
        again = await store.admit("s", an_input("3", client_id="3"))

        assert (cancel, again) == (Admission(INPUTS_WAITING_MAX + 1, is_new=True), Admission(4, is_new=False))

    async def test_a_refused_input_does_not_use_up_its_client_id(self, store: Log) -> None:
        for number in range(INPUTS_WAITING_MAX):
            await store.admit("s", an_input(str(number)))
        with pytest.raises(QueueFullError):
            await store.admit("s", an_input("later", client_id="c1"))
        lease = await lease_on(store)
        await store.append(lease, [a_turn_ended(1)], after=INPUTS_WAITING_MAX)

        admitted = await store.admit("s", InputAdmitted((Text("changed meanwhile"),), client_id="c1"))

        assert admitted == Admission(INPUTS_WAITING_MAX + 2, is_new=True)


class SessionPromises(StorePromises):
    """`info`, `sessions`, `pending`, and isolation between sessions."""

    async def test_info_tells_what_the_log_holds(self, store: Log, clock: ManualClock) -> None:
        created = clock.now()
        await store.admit("s", an_input("one"))
        clock.advance(10)
        await store.admit("s", an_input("two"))
        lease = await lease_on(store)
        clock.advance(10)

        await store.append(lease, [a_turn_started(1), a_turn_ended(1)], after=2)

        assert await store.info("s") == SessionInfo(
            key="s", last_seq=4, owed=1, created_at=created, updated_at=created + 20
        )

    async def test_a_lease_alone_does_not_make_a_session(self, store: Log, clock: ManualClock) -> None:
        lease = await lease_on(store)
        clock.advance(7)
        assert (await store.info("s"), await store.sessions()) == (None, [])

        await store.append(lease, [a_notice()], after=0)

        now = clock.now()
        assert await store.info("s") == SessionInfo("s", last_seq=1, owed=0, created_at=now, updated_at=now)

    async def test_leases_do_not_count_as_news(self, store: Log, clock: ManualClock) -> None:
        await store.admit("s", an_input())
        before = await store.info("s")
        clock.advance(60)

        lease = await lease_on(store)
        await store.release(await store.renew(lease, seconds=30))

        assert await store.info("s") == before

    async def test_sessions_come_in_order_of_their_keys_page_by_page(self, store: Log) -> None:
        keys = [f"k{number:02}" for number in range(25)]
        for key in reversed(keys):
            await store.admit(key, an_input(key))

        pages: list[list[SessionInfo]] = []
        while not pages or pages[-1]:
            pages.append(await store.sessions(after=pages[-1][-1].key if pages else "", limit=10))

        assert [[info.key for info in page] for page in pages] == [keys[:10], keys[10:20], keys[20:], []]
        assert pages[0][3] == await store.info("k03")
        assert await store.sessions(limit=0) == []

    async def test_a_page_may_start_behind_a_key_that_does_not_exist(self, store: Log) -> None:
        for key in ("a", "c", "e"):
            await store.admit(key, an_input())

        assert [info.key for info in await store.sessions(after="b")] == ["c", "e"]

    async def test_every_input_is_owed_an_outcome_until_it_has_one(self, store: Log) -> None:
        async def owed() -> list[tuple[str, int]]:
            return [(info.key, info.owed) for info in await store.sessions()]

        await store.admit("a", an_input("one"))
        await store.admit("a", an_input("two"))
        await store.admit("b", an_input("three"))
        await store.admit("c", SessionConfigured(model="m"))
        assert (await store.pending(), await owed()) == (["a", "b"], [("a", 2), ("b", 1), ("c", 0)])

        lease_a, lease_b = await lease_on(store, "a"), await lease_on(store, "b")
        await store.append(lease_a, [a_turn_started(1), a_turn_ended(1, Outcome.FAILED)], after=2)
        await store.append(lease_b, [a_turn_ended(1, Outcome.CANCELLED)], after=1)
        assert (await store.pending(), await owed()) == (["a"], [("a", 1), ("b", 0), ("c", 0)])

        await store.append(lease_a, [a_turn_ended(2)], after=4)
        assert (await store.pending(), await owed()) == ([], [("a", 0), ("b", 0), ("c", 0)])

    async def test_what_is_refused_owes_nothing(self, store: Log) -> None:
        await store.admit("s", an_input("hi", client_id="c"))
        await store.admit("s", an_input("hi", client_id="c"))
        with pytest.raises(BadInputError):
            await store.admit("s", an_input("\ud800"))

        info = await store.info("s")
        assert info is not None
        assert (info.last_seq, info.owed) == (1, 1)

    async def test_any_key_names_a_session_of_its_own(self, store: Log) -> None:
        await asyncio.gather(*(store.admit(key, an_input(f"to {key}", client_id=key)) for key in ODD_KEYS))
        for key in ODD_KEYS:
            lease = await lease_on(store, key)
            await store.append(lease, [a_notice(f"of {key}")], after=1)

        for key in ODD_KEYS:
            assert await log_of(store, key) == [an_input(f"to {key}", client_id=key), a_notice(f"of {key}")]
        assert [info.key for info in await store.sessions(limit=100)] == sorted(ODD_KEYS)
        assert sorted(await store.pending()) == sorted(ODD_KEYS)

    @pytest.mark.parametrize("key", ["", "\ud800", "half \udcff a character"])
    async def test_a_key_that_cannot_be_kept_is_refused(self, store: Log, key: str) -> None:
        with pytest.raises(BadInputError):
            await store.admit(key, an_input())
        with pytest.raises(BadInputError):
            await store.acquire(key, "worker", seconds=30)
        with pytest.raises(BadInputError):
            await store.read(key)

        assert await store.sessions() == []


class SnapshotContract(StorePromises):
    """All promises of `holdfast.ports.Snapshots`."""

    async def test_there_is_no_snapshot_until_one_is_saved(self, store: Snapshots) -> None:
        await store.admit("s", an_input())

        assert await store.load_snapshot("s") is None
        assert await store.load_snapshot("nobody") is None

    async def test_the_newest_snapshot_replaces_the_one_before(self, store: Snapshots) -> None:
        lease = await lease_on(store)
        body = bytes(range(256)) * 40

        await store.save_snapshot(lease, Snapshot(seq=4, body=b"older"))
        await store.save_snapshot(lease, Snapshot(seq=9, body=body))

        assert await store.load_snapshot("s") == Snapshot(seq=9, body=body)
        assert await store.load_snapshot("t") is None

    async def test_a_stale_worker_saves_no_snapshot(self, store: Snapshots) -> None:
        stale = await lease_on(store, owner="a")
        await store.save_snapshot(stale, Snapshot(seq=1, body=b"kept"))
        await lease_on(store, owner="a")

        with pytest.raises(LeaseLostError):
            await store.save_snapshot(stale, Snapshot(seq=2, body=b"stale"))

        assert await store.load_snapshot("s") == Snapshot(seq=1, body=b"kept")

    async def test_a_snapshot_does_not_count_as_news(self, store: Snapshots, clock: ManualClock) -> None:
        await store.admit("s", an_input())
        before = await store.info("s")
        clock.advance(60)

        await store.save_snapshot(await lease_on(store), Snapshot(seq=1, body=b"fold"))

        assert await store.info("s") == before

    async def test_every_key_has_a_snapshot_of_its_own(self, store: Snapshots) -> None:
        for key in ODD_KEYS:
            await store.save_snapshot(await lease_on(store, key), Snapshot(seq=2, body=key.encode()))

        for key in ODD_KEYS:
            assert await store.load_snapshot(key) == Snapshot(seq=2, body=key.encode())
