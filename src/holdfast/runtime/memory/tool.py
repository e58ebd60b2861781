"""The built-in memory tool: a model writes and reads the notes of its session's scope."""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from holdfast.errors import BadInputError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.memory.notes import Memory, listed, scope_in
from holdfast.types.messages import ToolSpec

_SECONDS_MAX = 60.0
# Notes that one answer shows, some 2,500 tokens.
_SHOWN = 20
_SHOWN_CHARS = 8_000


class _Arguments(msgspec.Struct):
    action: Annotated[
        Literal["search", "add", "edit", "remove"],
        msgspec.Meta(description="search: find notes; without a query, the newest. add, edit, remove: change one."),
    ]
    text: Annotated[str, msgspec.Meta(description="The query of a search, or the new text of a note.")] = ""
    note: Annotated[str, msgspec.Meta(description="The id of the note to edit or remove, as [id] shows it.")] = ""


def _parameters() -> str:
    schema = msgspec.json.schema(_Arguments)["$defs"]["_Arguments"]
    return msgspec.json.encode({"type": "object", "properties": schema["properties"], "required": ["action"]}).decode()


class MemoryTool:
    """Search, add, edit and remove notes that outlive the session. `scope` maps a session key to its scope."""

    def __init__(self, scope: Callable[[str], str]) -> None:
        self._scope = scope
        self._engine: Engine | None = None
        self.spec = ToolSpec(
            "memory",
            "Long-term notes about this user, shared by all conversations with them. Search before you ask for "
            "something that they may have told you before; add a note for a lasting fact or preference, in one "
            "sentence; edit or remove a note that is no longer true.",
            _parameters(),
        )

    # A repeated call after a crash may add a note twice.
    is_idempotent = False
    seconds_max = _SECONDS_MAX

    def bind(self, engine: Engine) -> None:
        """Use the store of an engine."""
        self._engine = engine

    async def run(self, session: str, arguments: str) -> list[str]:
        """Run an action; see `SessionTool.run`."""
        assert self._engine is not None, "the tool is bound before the engine runs"
        try:
            given = msgspec.json.decode(arguments, type=_Arguments)
        except msgspec.DecodeError as error:
            raise BadInputError(f"the arguments are invalid: {error}") from error
        own = session.partition("/")[2] if session.startswith("@") else session
        memory = Memory(scope_in(session, self._scope(own)), self._engine)
        match given.action:
            case "search":
                found = await memory.search(given.text, limit=_SHOWN) if given.text.strip() else (await memory.notes())
                return [listed(found[-_SHOWN:])[:_SHOWN_CHARS]]
            case "add":
                return [f"added: {listed([await memory.add(given.text, session=session)])}"]
            case "edit":
                return [f"changed: {listed([await memory.edit(given.note, given.text, session=session)])}"]
            case "remove":
                await memory.remove(given.note)
                return [f"removed: [{given.note}]"]


def memory_tools_of(memory: str | Callable[[str], str] | None) -> list[MemoryTool]:
    """Return the memory tool for a scope, or for a function that returns it; none for None."""
    if memory is None:
        return []
    return [MemoryTool(memory if callable(memory) else lambda _key: memory)]
