"""A checkpointer for LangGraph: `graph.compile(checkpointer=HoldfastSaver(client))`.

Each namespace of a thread is a session of payloads. A checkpoint is one record with the channels that changed, and the
place of each other channel's value, so that a step costs the same on the first and on the thousandth. Records name the
newest checkpoint, so that it is found by reading the last record.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.checkpoint_log import (
    EMPTY,
    TAG,
    CheckpointRecord,
    Namespace,
    Place,
    Removed,
    StoredCheckpoint,
    StoredWrites,
    append_record,
    by_id,
    checkpoints,
    decode,
    draft_of,
    has_value,
    inherited,
    moved_record,
    namespace_key,
    newest_checkpoint,
    newest_place,
    numbered,
    read_record,
)
from holdfast.adapters.keys import key_part
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session

# Inside the class `list` is its method.
_Pending: TypeAlias = list[tuple[str, str, Any]]
_Tuples: TypeAlias = list[CheckpointTuple]


class HoldfastSaver(BaseCheckpointSaver[int]):
    """A checkpointer in a Holdfast store, synchronous and asynchronous, for any number of threads and processes.

    `client` is a `holdfast.blocking` client; a `holdfast.Client` serves the asynchronous methods of its own loop.
    """

    def __init__(self, client: Client | BlockingClient, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._client, self._calls = calls_of(client)

    # --- Reading ---

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of a config, the newest without an id; None if there is none."""
        return self._calls.run(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of a config, the newest without an id; None if there is none."""
        return await self._calls.call(self._get(config), is_write=False)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name of the interface
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; without a config those of all threads."""
        found = self._calls.run(self._list(config, filter or {}, before, limit))
        yield from found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name of the interface
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; without a config those of all threads."""
        for found in await self._calls.call(self._list(config, filter or {}, before, limit), is_write=False):
            yield found

    # --- Writing ---

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. When this returns, it is on disk."""
        return self._calls.run(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. When this returns, it is on disk."""
        return await self._calls.call(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store pending writes of a task, all of them or none."""
        self._calls.run(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store pending writes of a task, all of them or none."""
        await self._calls.call(self._put_writes(config, writes, task_id, task_path))

    # --- Whole threads ---

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its records."""
        self._calls.run(self._delete(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its records."""
        await self._calls.call(self._delete(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs from all threads. Their bytes stay until the thread is deleted."""
        self._calls.run(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs from all threads. Their bytes stay until the thread is deleted."""
        await self._calls.call(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread into another."""
        self._calls.run(self._copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread into another."""
        await self._calls.call(self._copy(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace, with the ancestors that a `DeltaChannel` of it needs.

        With the strategy "delete", delete the threads.
        """
        self._calls.run(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace, with the ancestors that a `DeltaChannel` of it needs."""
        await self._calls.call(self._prune(thread_ids, strategy))

    # --- In the loop of the client ---

    async def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        session = await self._session(config)
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id:
            found = await by_id(session, checkpoint_id)
        else:
            place, _ = await newest_place(session)
            found = await newest_checkpoint(session, place)
        return None if found is None else await self._tuple(session, found, config)

    async def _tuple(self, session: Session, found: StoredCheckpoint, config: RunnableConfig) -> CheckpointTuple:
        """Return a checkpoint with its values and pending writes."""
        values = {name: typed for name, typed in found.values.items() if typed != EMPTY}
        for seq in sorted({seq for seq in found.where.values() if seq}):
            other = await read_record(session, seq)
            assert isinstance(other, StoredCheckpoint), "a value is in the record of a checkpoint"
            names = [name for name, place in found.where.items() if place == seq]
            values |= {name: other.values[name] for name in names if other.values[name] != EMPTY}
        checkpoint = self.serde.loads_typed(found.checkpoint)
        loaded = {name: self.serde.loads_typed(typed) for name, typed in values.items()}
        thread, ns = config["configurable"]["thread_id"], config["configurable"].get("checkpoint_ns", "")
        return CheckpointTuple(
            config=_config(thread, ns, found.id),
            checkpoint={**checkpoint, "channel_values": loaded},
            metadata=self.serde.loads_typed(found.metadata),
            parent_config=_config(thread, ns, found.parent) if found.parent else None,
            pending_writes=await self._pending(session, found.id),
        )

    async def _pending(self, session: Session, checkpoint_id: str) -> "_Pending":
        kept: dict[tuple[str, int], tuple[str, str, str, bytes]] = {}
        async for record in numbered(session, f"w:{key_part(checkpoint_id)}"):
            assert isinstance(record, StoredWrites), "the client id of writes"
            for place, channel, kind, content in record.writes:
                # A write of a task counts once; a special one, such as an interrupt, is replaced.
                if place < 0 or (record.task, place) not in kept:
                    kept[record.task, place] = (record.path, channel, kind, content)
        ordered = sorted(kept.items(), key=lambda one: writes_sort_key(one[1][0], *one[0]))
        return [(task, one[1], self.serde.loads_typed((one[2], one[3]))) for (task, _), one in ordered]

    async def _list(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
    ) -> "_Tuples":
        found: list[CheckpointTuple] = []
        only = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        async for session, names in self._namespaces(config):
            async for one in checkpoints(session):
                if limit is not None and len(found) >= limit:
                    return found
                is_named = (not only or one.id == only) and (not until or one.id < until)
                if is_named and self._matches(one, wanted):
                    found.append(await self._tuple(session, one, _config(names.thread, names.ns, one.id)))
        return found

    async def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        session = await self._session(config)
        configurable = config["configurable"]
        parent_id, own_id = configurable.get("checkpoint_id") or "", checkpoint["id"]
        parent = await by_id(session, parent_id) if parent_id else None
        bare: dict[str, Any] = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        given = checkpoint["channel_values"]
        values = {name: self.serde.dumps_typed(given[name]) if name in given else EMPTY for name in new_versions}
        shared = {name: version for name, version in checkpoint["channel_versions"].items() if name not in values}
        where = await inherited(session, parent, shared, self._versions) if shared else {}
        stored = StoredCheckpoint(
            Place(),
            own_id,
            parent_id,
            0,
            self.serde.dumps_typed(bare),
            self.serde.dumps_typed(get_checkpoint_metadata(config, metadata)),
            values,
            where,
        )

        def placed(place: Place, seq: int) -> CheckpointRecord:
            is_newest = own_id >= place.head_id
            after = Place(
                seq, seq if is_newest else place.head, max(own_id, place.head_id), place.is_sorted and is_newest
            )
            return msgspec.structs.replace(stored, place=after, previous=place.last)

        await append_record(session, configurable, f"c:{key_part(own_id)}", placed)
        return _config(configurable["thread_id"], configurable.get("checkpoint_ns", ""), own_id)

    def _matches(self, stored: StoredCheckpoint, wanted: Mapping[str, Any]) -> bool:
        metadata = self.serde.loads_typed(stored.metadata) if wanted else {}
        return all(metadata.get(key) == value for key, value in wanted.items())

    def _versions(self, stored: StoredCheckpoint) -> Mapping[str, Any]:
        versions: Mapping[str, Any] = self.serde.loads_typed(stored.checkpoint)["channel_versions"]
        return versions

    async def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        if not writes:
            return
        session, checkpoint_id = await self._session(config), config["configurable"]["checkpoint_id"]
        typed = [
            (WRITES_IDX_MAP.get(channel, place), channel, *self.serde.dumps_typed(value))
            for place, (channel, value) in enumerate(writes)
        ]
        key = f"w:{key_part(checkpoint_id)}"
        await append_record(
            session,
            config["configurable"],
            key,
            lambda place, _: StoredWrites(place, checkpoint_id, task_id, task_path, typed),
        )

    async def _delete(self, thread_id: str) -> None:
        async for session, _ in self._namespaces(_config(thread_id, None, None)):
            await self._client.delete(session.key)

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        async for session, names in self._namespaces(None):
            async for one in checkpoints(session):
                if self.serde.loads_typed(one.metadata).get("run_id") in run_ids:
                    await self._remove(session, names, one.id)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        for thread_id in thread_ids:
            if strategy == "delete":
                await self._delete(thread_id)
                continue
            async for session, names in self._namespaces(_config(thread_id, None, None)):
                found = [one async for one in checkpoints(session)]
                kept = await self._kept(session, found[0]) if found else set()
                for one in found:
                    if one.id not in kept:
                        await self._remove(session, names, one.id)

    async def _kept(self, session: Session, newest: StoredCheckpoint) -> set[str]:
        """Return the checkpoints that the newest one needs: itself, and ancestors with the writes of its deltas."""
        kept = {newest.id}
        counters = self.serde.loads_typed(newest.metadata).get("counters_since_delta_snapshot") or {}
        missing, one = set(counters), newest
        while missing and one.parent and (parent := await by_id(session, one.parent)) is not None:
            kept.add(parent.id)
            missing -= {name for name in missing if await has_value(session, parent, name)}
            one = parent
        return kept

    async def _remove(self, session: Session, names: Namespace, checkpoint_id: str) -> None:
        configurable = {"thread_id": names.thread, "checkpoint_ns": names.ns}
        key = f"x:{key_part(checkpoint_id)}"
        await append_record(session, configurable, key, lambda place, _: Removed(place, checkpoint_id))

    async def _copy(self, source: str, target: str) -> None:
        async for session, names in self._namespaces(_config(source, None, None)):
            copied = await self._client.session(namespace_key(target, names.ns))
            place, last = await newest_place(copied)
            records = [(one, decode(one)) for one in await session.stored()]
            if not last:
                await copied.append([draft_of(Namespace(target, names.ns), "")], expect=0)
                last = 1
            shift = last - 1
            drafts = [draft_of(moved_record(record, shift, place), one.client_id) for one, record in records[1:]]
            if drafts:
                await copied.append(drafts, expect=last)

    async def _session(self, config: RunnableConfig) -> Session:
        configurable = config["configurable"]
        return await self._client.session(
            namespace_key(configurable["thread_id"], configurable.get("checkpoint_ns", ""))
        )

    async def _namespaces(self, config: RunnableConfig | None) -> AsyncIterator[tuple[Session, Namespace]]:
        """Yield the sessions of a config: one namespace, all of a thread, or all threads."""
        configurable = config["configurable"] if config else {}
        ns = configurable.get("checkpoint_ns")
        prefix = f"{TAG}:{key_part(configurable['thread_id'])}:" if configurable else f"{TAG}:"
        if ns is not None:
            prefix += key_part(ns)
        after = prefix[:-1]
        while page := await self._client.sessions(after=after, limit=100):
            for known in page:
                if not known.key.startswith(prefix):
                    if known.key > prefix:
                        return
                    continue
                session = await self._client.session(known.key)
                first = await read_record(session, 1)
                if isinstance(first, Namespace) and (ns is None or first.ns == ns):
                    yield session, first
            after = page[-1].key


def _config(thread: str, ns: str | None, checkpoint_id: str | None) -> RunnableConfig:
    named = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": {key: value for key, value in named.items() if value is not None}}
