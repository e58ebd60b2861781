"""Branches of a conversation, and agents that it is handed to.

Edit a message or answer it again, and switch between the versions.

All branches are in one log, under one key. A branch that is left keeps its messages and the parameters of its view, so
a switch restores it exactly. Every write names the last record it has seen.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.fold.session_state import LeftBranch, Turn
from holdfast.core.text.title import opening_of, title_from
from holdfast.core.view.appended import is_retracted
from holdfast.errors import BadInputError, ClientIdReusedError, RetryLaterError, SeqMovedError
from holdfast.runtime.engine.log import open_state, pages
from holdfast.runtime.sessions.appending import REPEATS_MAX, check_expected
from holdfast.runtime.sessions.labels import Labelling
from holdfast.runtime.tools.client_tools import check_declared
from holdfast.stores.fallbacks import need_appends
from holdfast.types.messages import LargeText, Media, Role, Text, ToolSpec
from holdfast.types.records import (
    AnyRecord,
    BranchSwitched,
    CompactionApplied,
    InboxRecord,
    InputAdmitted,
    MessageAppended,
    SessionConfigured,
    TurnStarted,
    client_id_of,
)

AGENT_CHARS_MAX = 100


class Branch(msgspec.Struct, frozen=True):
    """One version of a conversation."""

    # Its last record, by which `switch` finds it.
    head: int
    # The last record that it shares with the version that took its place; 0 for the current one of several.
    since: int
    # Its newest turn, and the beginning of the message there.
    turn: int
    text: str
    is_current: bool = False


class Branching(Labelling):
    """Sessions with branches."""

    async def branches(self) -> list[Branch]:
        """Return the branches of this session, the oldest first and the current one last.

        `edit`, `regenerate` and `switch` make one. The newest 200 are kept; the log has the messages of all.
        """
        turn = await open_state(self._engine.store, self.key)
        left = [
            Branch(one.head, one.since, one.last_turn, await self._beginning(one.last_turn)) for one in turn.branches
        ]
        return [*left, Branch(turn.seq, 0, turn.last_turn, await self._beginning(turn.last_turn), is_current=True)]

    async def switch(self, head: int, *, expect: int | None = None) -> Branch:
        """Continue from the branch that ends at the record `head`, with the view as it was there, and return it.

        The conversation that this leaves becomes a branch. Raises `RetryLaterError` while a turn runs or waits.
        """
        self._check_writable()
        store = need_appends(self._engine.store)
        for _ in range(REPEATS_MAX):
            last = await self._last_seq(is_idle=True)
            check_expected(self.key, expect, last)
            turn = await self._state_at(last)
            if turn is None:
                continue
            branch = next((one for one in turn.branches if one.head == head), None)
            if branch is None:
                raise BadInputError(f"session {self.key!r} has no branch that ends at record {head}; list `branches`")
            try:
                end = await store.extend(self.key, [await self._switch(branch)], after=last)
            except SeqMovedError:
                check_expected(self.key, expect, None)
                continue
            return Branch(end, 0, branch.last_turn, await self._beginning(branch.last_turn), is_current=True)
        raise RetryLaterError(f"session {self.key!r} has too many writers at once; switch again")

    async def hand_over(
        self,
        agent: str,
        *,
        model: str | None = None,
        system: str | None = None,
        tools: Sequence[ToolSpec] | None = None,
        expect: int | None = None,
    ) -> None:
        """Hand this session to another agent: its model, system text and client tools from the next message on.

        Omitted, they stay those of the current agent. The conversation stays; `hand_back` returns to the agent before.
        """
        self._check_running()
        _check_agent(agent)
        if tools is not None:
            check_declared(tools, self._engine.toolbox, self._engine.bounds)
        if model is not None:
            # Raises for an unknown model before anything is stored.
            self._engine.models(model)
        turn = await open_state(self._engine.store, self.key)
        wanted = SessionConfigured(
            turn.model if model is None else model,
            turn.system if system is None else system,
            turn.tools if tools is None else tuple(tools),
            turn.settings,
            turn.tool_names,
            agent=agent,
        )
        await self._write(wanted, expect)

    async def hand_back(self, *, expect: int | None = None) -> str:
        """Hand this session back to the agent before the current one, and return its name; "" for the first one."""
        self._check_running()
        turn = await open_state(self._engine.store, self.key)
        if not turn.handed_over:
            raise BadInputError(f"session {self.key!r} was not handed over, so it cannot be handed back")
        await self._write(replace(turn.handed_over[-1], is_return=True), expect)
        return turn.handed_over[-1].agent

    async def _switch(self, branch: LeftBranch) -> BranchSwitched:
        seq = branch.compaction_seq
        found = (await self._engine.store.read(self.key, after=seq - 1, limit=1))[0].record if seq else None
        past = found if isinstance(found, CompactionApplied) else None
        return BranchSwitched(branch.head, branch.last_turn, past, seq if past else 0)

    async def _write(self, record: InboxRecord, expect: int | None) -> int:
        """Append an inbox record and return its seq; with `expect`, only directly after that record."""
        store = self._engine.store
        name = client_id_of(record)
        if expect is None or (name and await need_appends(store).find(self.key, [name])):
            return (await store.admit(self.key, record)).seq
        return await need_appends(store).extend(self.key, [record], after=expect)

    async def _replace(self, seq: int, admitted: InputAdmitted, expect: int | None) -> int:
        """Put an input in the place of a message and everything after it, which become a branch. Return its turn."""
        self._check_writable()
        store, client_id = need_appends(self._engine.store), admitted.client_id
        for _ in range(REPEATS_MAX):
            if client_id and (known := await store.find(self.key, [client_id])):
                return await self._same_input(admitted, known[client_id])
            last = await self._last_seq(is_idle=True)
            check_expected(self.key, expect, last)
            turn = await self._state_at(last)
            if turn is None:
                continue
            after, inputs = await self._cut(turn, seq)
            retraction = replace(await self._retraction(turn, after), is_branch=True, inputs=inputs)
            try:
                return await store.extend(self.key, [retraction, admitted], after=last)
            except SeqMovedError:
                check_expected(self.key, expect, None)
        raise RetryLaterError(f"session {self.key!r} has too many writers at once; edit again")

    async def _same_input(self, admitted: InputAdmitted, seq: int) -> int:
        if await self._record(seq) != admitted:
            raise ClientIdReusedError(self.key, admitted.client_id, seq)
        return seq

    async def _again(self) -> tuple[int, InputAdmitted]:
        """Return the newest message of the person, and an input with the same content."""
        turn = await open_state(self._engine.store, self.key)
        match await self._record(turn.last_turn):
            case InputAdmitted(parts=parts, originals=originals, is_heartbeat=is_heartbeat):
                return turn.last_turn, InputAdmitted(parts, originals=originals, is_heartbeat=is_heartbeat)
            case MessageAppended(role=Role.USER, parts=parts, is_heartbeat=is_heartbeat):
                content = tuple(part for part in parts if isinstance(part, Text | LargeText | Media))
                return turn.last_turn, InputAdmitted(content, is_heartbeat=is_heartbeat)
            case _:
                raise BadInputError(f"session {self.key!r} has no message to answer again; send one first")

    async def _cut(self, turn: Turn, seq: int) -> tuple[int, tuple[int, ...]]:
        """Return the last record before a message entered the view, and earlier inputs that started later."""
        record = await self._record(seq)
        if not isinstance(record, InputAdmitted | MessageAppended) or is_retracted(seq, turn.retracted):
            raise BadInputError(
                f"record {seq} is not a message in this branch; use the seq of one that `history` shows"
            )
        if isinstance(record, MessageAppended):
            if record.role is not Role.USER:
                raise BadInputError(f"record {seq} is not a message of the user; edit the one before it")
            return seq - 1, ()
        start, inputs = await self._start(seq)
        if not start:
            raise BadInputError(f"the turn of message {seq} never started; send a new message")
        return (seq - 1, ()) if start == seq + 1 else (start - 1, inputs)

    async def _start(self, seq: int) -> tuple[int, tuple[int, ...]]:
        """Return the record that starts the turn of an input; and the inputs from before it that started since.

        They waited with this one, or behind it, while another turn ran.
        """
        started = [
            (logged.seq, logged.record.turn)
            async for page in pages(self._engine.store, self.key, after=seq)
            for logged in page
            if isinstance(logged.record, TurnStarted)
        ]
        start = next((at for at, turn in started if turn == seq), 0)
        return start, tuple(turn for at, turn in started if at >= start > turn)

    async def _record(self, seq: int) -> AnyRecord | None:
        found = await self._engine.store.read(self.key, after=seq - 1, limit=1) if seq > 0 else []
        return found[0].record if found else None

    async def _beginning(self, seq: int) -> str:
        record = await self._record(seq)
        return title_from(opening_of(record.parts)) if isinstance(record, InputAdmitted | MessageAppended) else ""


def _check_agent(agent: str) -> None:
    if not 0 < len(agent) <= AGENT_CHARS_MAX or not agent.isprintable():
        raise BadInputError(f"{agent[:80]!r} is not the name of an agent; use 1 to {AGENT_CHARS_MAX} characters")
