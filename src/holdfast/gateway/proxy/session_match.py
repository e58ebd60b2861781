"""Which conversation a request belongs to: told by a header, else by the messages it begins with.

A client sends its whole history each time. Each message has a digest of what it says, without what clients change from
request to request (marks for caching, the form of a text). A request continues the conversation whose messages are all
at its beginning; one that differs anywhere is another conversation and gets a session of its own, because two pasts in
one log would be two lies. Where most of the past is the same and was compacted, it begins as a fork.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import DROPIN_MARK, Bounds
from holdfast.errors import BadInputError, RetryLaterError
from holdfast.ports import Log
from holdfast.runtime.engine.log import open_log, pages
from holdfast.runtime.sessions.transfer import forked
from holdfast.types.messages import LargeText, Media, Message, Part, Role, Text, ToolCall, ToolResult
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    InputAdmitted,
    Logged,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ReplyRecorded,
    ToolSettled,
)

# --- A conversation that parts from another begins with that one's log, up to there, and with what was …


_CHANGES_VIEW = (CompactionApplied, GenerationStarted, OutputMasked, PartReplaced, ReasoningDropped)


@dataclass(frozen=True)
class Shared:
    """What a new conversation has in common with an older one: so many messages from the beginning."""

    key: str
    messages: int


async def branched(store: Log, shared: Shared, key: str, bounds: Bounds) -> bool:
    """Make a session of what is shared, and return whether that was of use.

    It is where the view was changed before the two part, so that the change need not be made again.
    """
    at = await _parting(store, shared)
    if at is None:
        return False
    try:
        await forked(store, shared.key, key, at=at, bounds=bounds)
    except (BadInputError, RetryLaterError):
        # The older one was deleted meanwhile, or somebody else was quicker; then all is entered as usual.
        return False
    return True


async def _parting(store: Log, shared: Shared) -> int | None:
    """Return the last record before the message at which two conversations part, None where nothing is gained."""
    parting: int | None = None
    is_changed = False
    async for page in pages(store, shared.key):
        for logged in page:
            if _is_beyond(logged, shared.messages):
                return parting
            is_changed = is_changed or isinstance(logged.record, _CHANGES_VIEW)
            if is_changed and isinstance(logged.record, InputAdmitted):
                # Only between turns: one that is cut in the middle would have to be ended.
                parting = logged.seq - 1
    return parting


def _is_beyond(logged: Logged, messages: int) -> bool:
    """Tell whether a record holds a message that is not shared. A question may be the first of them and still part."""
    match logged.record:
        case InputAdmitted(origin=int() as origin):
            return origin > messages
        case ReplyRecorded(origin=int() as origin) | ToolSettled(origin=int() as origin):
            return origin >= messages
        case _:
            return False


# Families of conversations that are kept in memory; the rest is found again in the store. Each takes some kilobytes.
_FAMILIES_MAX = 5_000
# Conversations of one family that are looked at, the newest of them: those that begin with the same message.
_BRANCHES_MAX = 64
_DIGEST_BYTES = 16
# What OpenClaw puts behind the newest message, and leaves out of the next request: the state of its own affairs.
_ASIDE = re.compile(r"\s*<<<BEGIN_[A-Z_]{1,60}>>>(?:(?!<<<END_).)*<<<END_[A-Z_]{1,60}>>>\s*\Z", re.DOTALL)


def digest_of(message: Message) -> bytes:
    """Return what a message says, in short.

    Left out is what clients send back, or not, as they please: thinking, and remarks beside the conversation.
    """
    said = hashlib.blake2b(message.role.value.encode(), digest_size=_DIGEST_BYTES)
    texts: list[str] = []
    calls: list[str] = []
    for part in message.parts:
        match part:
            case ToolCall():
                calls.append(f"{part.call_id}\0{part.name}")
            case ToolResult():
                calls.append(part.call_id)
                texts += [_said(piece) for piece in part.parts]
            case Text(text=text) if _ASIDE.match(text):
                continue
            case Text() | LargeText() | Media():
                texts.append(_said(part))
            case _:
                pass
    # A reply that calls tools is known by the ids of its calls; words around them are often trimmed by clients.
    if message.role is not Role.ASSISTANT or not calls:
        said.update("".join(texts).strip().encode("utf-8", "replace"))
    for call in calls:
        said.update(b"\0" + call.encode("utf-8", "replace"))
    return said.digest()


def _said(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case LargeText(blob=blob) | Media(blob=blob):
            return blob.sha256
        case _:
            return ""


@dataclass
class Conversation:
    """One history, and the session that holds it."""

    key: str
    # What the log has; None: something that cannot be compared any more.
    digests: list[bytes | None] = field(default_factory=list)
    # What the newest request had, where it has not entered the log yet.
    claimed: list[bytes] = field(default_factory=list)
    # How far the log went when it was last looked at. One that goes less far is another: the session was deleted.
    until: int = 0
    # Whether the model is shown something else than the client sent.
    is_rescued: bool = False
    # What it has in common with an older one, until its own session was made of that.
    shared: Shared | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def common(self, digests: Sequence[bytes]) -> int:
        """Return how many messages of the log a request begins with."""
        return _common(self.digests, digests)

    def fits(self, digests: Sequence[bytes]) -> int | None:
        """Return how much a request has in common with it; None where they differ somewhere."""
        known: Sequence[bytes | None] = self.digests if len(self.digests) >= len(self.claimed) else self.claimed
        common = _common(known, digests)
        return common if common == min(len(known), len(digests)) else None


def _common(known: Sequence[bytes | None], digests: Sequence[bytes]) -> int:
    common = 0
    for ours, theirs in zip(known, digests, strict=False):
        if ours is not None and ours != theirs:
            break
        common += 1
    return common


@dataclass
class _Family:
    """Conversations under one name, which a header gave or their first message."""

    prefix: str
    branches: list[Conversation] = field(default_factory=list)
    count: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_loaded: bool = False


class Recognition:
    """All conversations that this process has seen, and those of the store when they are asked for."""

    def __init__(self, store: Log, bounds: Bounds) -> None:
        self._store = store
        self._bounds = bounds
        self._families: OrderedDict[str, _Family] = OrderedDict()

    async def find(self, prefix: str, digests: Sequence[bytes]) -> Conversation:
        """Return the conversation that a request continues, else a new one that it begins."""
        family = await self._family(prefix)
        fitting = [
            (common, place) for place, one in enumerate(family.branches) if (common := one.fits(digests)) is not None
        ]
        if not fitting:
            return await self._grown(self._begin(family, digests))
        # Of two that fit alike the newer one.
        found = family.branches[max(fitting)[1]]
        if len(digests) > len(found.claimed):
            found.claimed = list(digests)
        return await self._grown(found)

    async def known(self, prefix: str, key: str, count: int) -> list[bytes] | None:
        """Return what the first messages of a conversation are known by; None where it does not have so many."""
        for one in (await self._family(prefix)).branches:
            if one.key == key and len(one.digests) >= count:
                return [digest or b"" for digest in one.digests[:count]]
        return None

    async def branch(self, prefix: str, digests: Sequence[bytes]) -> Conversation:
        """Return a new conversation, whatever is known already."""
        return await self._grown(self._begin(await self._family(prefix), digests))

    async def _grown(self, conversation: Conversation) -> Conversation:
        """Return a conversation once it has what it shares with an older one."""
        shared = conversation.shared
        if shared is None:
            return conversation
        async with conversation.lock:
            # Of two requests at once the first makes the session, and the other waits for it.
            if conversation.shared is not None:
                if await branched(self._store, shared, conversation.key, self._bounds):
                    await refresh(self._store, conversation)
                conversation.shared = None
        return conversation

    def _begin(self, family: _Family, digests: Sequence[bytes]) -> Conversation:
        family.count += 1
        key = family.prefix if family.count == 1 else f"{family.prefix}~{family.count}"
        begun = Conversation(key, claimed=list(digests))
        rescued = [Shared(one.key, one.common(digests)) for one in family.branches if one.is_rescued]
        begun.shared = max(rescued, key=lambda shared: shared.messages, default=None)
        family.branches = [*family.branches[-_BRANCHES_MAX + 1 :], begun]
        return begun

    async def _family(self, prefix: str) -> _Family:
        family = self._families.get(prefix)
        if family is None:
            family = self._families[prefix] = _Family(prefix)
            while len(self._families) > _FAMILIES_MAX:
                self._families.popitem(last=False)
        self._families.move_to_end(prefix)
        if not family.is_loaded:
            async with family.lock:
                if not family.is_loaded:
                    await self._load(family)
                    family.is_loaded = True
        return family

    async def _load(self, family: _Family) -> None:
        """Read what the store has of a family."""
        numbered: list[int] = [1] if await self._store.info(family.prefix) is not None else []
        after = family.prefix + "~"
        while page := await self._store.sessions(after=after, limit=_BRANCHES_MAX):
            own = [one.key for one in page if one.key.startswith(family.prefix + "~")]
            numbered += [int(tail) for key in own if (tail := key.removeprefix(family.prefix + "~")).isdecimal()]
            if len(own) < len(page) or len(page) < _BRANCHES_MAX:
                break
            after = own[-1]
        family.count = max(numbered, default=0)
        for number in sorted(numbered)[-_BRANCHES_MAX:]:
            key = family.prefix if number == 1 else f"{family.prefix}~{number}"
            family.branches.append(await _loaded(self._store, key))


async def refresh(store: Log, conversation: Conversation) -> None:
    """Remember of a conversation what its log has now, and nothing else."""
    found = await _loaded(store, conversation.key)
    conversation.digests, conversation.until = found.digests, found.until
    conversation.is_rescued = found.is_rescued


async def _loaded(store: Log, key: str) -> Conversation:
    """Return a conversation as its log has it."""
    found: dict[int, bytes | None] = {}
    until = 0
    async for page in pages(store, key):
        until = page[-1].seq
        for logged in page:
            match logged.record:
                case InputAdmitted(origin=int() as origin, client_id=client_id):
                    found[origin] = bytes.fromhex(client_id)
                case ReplyRecorded(origin=int() as origin, reply=reply):
                    found[origin] = digest_of(Message(Role.ASSISTANT, reply.parts))
                case ToolSettled(origin=int() as origin):
                    # The log has it shortened, and who made the call says enough.
                    found[origin] = None
                case _:
                    pass
    conversation = Conversation(key, [found.get(place) for place in range(max(found, default=-1) + 1)])
    conversation.until = until
    conversation.is_rescued = is_changed((await open_log(store, key)).turn)
    return conversation


def is_changed(turn: Turn) -> bool:
    """Return whether the model is shown something else than what was said."""
    return bool(turn.compaction or turn.replaced or turn.masked_before or turn.reasoning_from)


def family_prefix(owner: str, digests: Sequence[bytes]) -> str:
    """Return the name of the family that a conversation belongs to where no header says so."""
    return f"{DROPIN_MARK}{owner}-{digests[0].hex()[:16]}"
