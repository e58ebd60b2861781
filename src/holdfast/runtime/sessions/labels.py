"""Titles, tags and metadata of sessions, and lists of sessions by them."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.text.title import title_from
from holdfast.core.text.truncation import well_formed
from holdfast.errors import BadInputError, RetryLaterError, SeqMovedError
from holdfast.ports import Directory, Log, SessionFilter, SessionOrder, SessionPage
from holdfast.runtime.engine.log import every_session, open_state
from holdfast.runtime.sessions.appending import REPEATS_MAX, Appending, check_expected
from holdfast.stores.fallbacks import need_appends
from holdfast.stores.listing import ListingChange, hour_of, page_of_all, row_of
from holdfast.types.records import SessionConfigured, SessionLabelled

# A line or two on a screen. A row of a list is read for every page, so labels stay small.
TITLE_CHARS_MAX = 200
TAGS_MAX = 50
TAG_CHARS_MAX = 64
METADATA_MAX = 50
METADATA_NAME_CHARS_MAX = 64
METADATA_VALUE_CHARS_MAX = 1_000


class Labels(msgspec.Struct, frozen=True):
    """Title, tags and metadata of a session. No model is shown them."""

    # The given title, or one made from the first message; "" before it.
    title: str = ""
    # True if the title was made, not given.
    is_title_made: bool = False
    # Sorted.
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}


def labels_of(turn: Turn) -> Labels:
    """Return the labels of a session in a state."""
    given = turn.labels or SessionLabelled()
    title = given.title or title_from(turn.opening)
    return Labels(title, bool(title) and not given.title, given.tags, given.metadata)


class Labelling(Appending):
    """Sessions with labels."""

    async def labels(self) -> Labels:
        """Return the title, the tags and the metadata of this session."""
        return labels_of(await open_state(self._engine.store, self.key))

    async def label(
        self,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        expect: int | None = None,
    ) -> Labels:
        """Set the title, the tags or the metadata of this session, and return all labels. Omitted, they stay unchanged.

        `title=""` returns to the title that is made from the first message. With `expect`, the last seq that the caller
        knows, this raises `SeqMovedError` if another record came first.
        """

        def change(given: SessionLabelled) -> SessionLabelled:
            return SessionLabelled(
                given.title if title is None else _title(title),
                given.tags if tags is None else _tags(tags),
                given.metadata if metadata is None else _metadata(metadata),
            )

        return await self._relabel(change, expect)

    async def tag(self, *tags: str, expect: int | None = None) -> Labels:
        """Add tags to this session, and return all labels."""
        added = _tags(tags)
        return await self._relabel(lambda given: replace(given, tags=_tags((*given.tags, *added))), expect)

    async def untag(self, *tags: str, expect: int | None = None) -> Labels:
        """Remove tags from this session, and return all labels."""
        removed = set(tags)
        kept: Callable[[SessionLabelled], SessionLabelled] = lambda given: replace(  # noqa: E731 - one expression
            given, tags=tuple(tag for tag in given.tags if tag not in removed)
        )
        return await self._relabel(kept, expect)

    async def _relabel(self, change: Callable[[SessionLabelled], SessionLabelled], expect: int | None) -> Labels:
        self._check_running()
        store = need_appends(self._engine.store)
        for _ in range(REPEATS_MAX):
            last = await self._last_seq()
            check_expected(self.key, expect, last)
            turn = await self._state_at(last)
            if turn is None:
                continue
            wanted = change(turn.labels or SessionLabelled())
            if wanted != (turn.labels or SessionLabelled()):
                try:
                    await store.extend(self.key, [wanted], after=last)
                except SeqMovedError:
                    check_expected(self.key, expect, None)
                    continue
            return labels_of(replace(turn, labels=wanted))
        raise RetryLaterError(f"session {self.key!r} has too many writers at once; label it again")


def _title(title: str) -> str:
    title = " ".join(well_formed(title).split())
    if len(title) > TITLE_CHARS_MAX:
        raise BadInputError(f"the title has {len(title):,} characters, the limit is {TITLE_CHARS_MAX}")
    return title


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise BadInputError(f"tags are a list of texts; give [{tags[:40]!r}]")
    for tag in tags:
        if not tag.strip() or tag != tag.strip() or not tag.isprintable() or len(tag) > TAG_CHARS_MAX:
            raise BadInputError(
                f"{tag[:80]!r} is not a tag; use 1 to {TAG_CHARS_MAX} printable characters without spaces around them"
            )
    found = tuple(sorted(set(tags)))
    if len(found) > TAGS_MAX:
        raise BadInputError(f"a session has at most {TAGS_MAX} tags, not {len(found):,}")
    return found


def _metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    if len(metadata) > METADATA_MAX:
        raise BadInputError(f"metadata has at most {METADATA_MAX} entries, not {len(metadata):,}")
    found: dict[str, str] = {}
    for name, value in sorted(metadata.items()):
        if not isinstance(value, str):
            raise BadInputError(f"the metadata {str(name)[:80]!r} is not text; encode other values as JSON")
        if not 0 < len(name) <= METADATA_NAME_CHARS_MAX or len(value) > METADATA_VALUE_CHARS_MAX:
            raise BadInputError(
                f"the metadata {name[:80]!r} is too long: a name has 1 to {METADATA_NAME_CHARS_MAX} characters, "
                f"a value at most {METADATA_VALUE_CHARS_MAX:,}"
            )
        found[well_formed(name)] = well_formed(value)
    return found


async def list_sessions(
    store: Log, wanted: SessionFilter, *, order: SessionOrder, after: str = "", limit: int = 100
) -> SessionPage:
    """Return a page of sessions; see `Directory.list_sessions`. Without that port every log is folded."""
    if isinstance(store, Directory):
        return await store.list_sessions(wanted, order=order, after=after, limit=limit)
    rows = []
    async for known in every_session(store):
        turn = await open_state(store, known.key)
        change = ListingChange(turn.opening, turn.labels, SessionConfigured(turn.model))
        rows.append(row_of(known, change, hour_of(known.updated_at)))
    return page_of_all(rows, wanted, order, after, limit)
