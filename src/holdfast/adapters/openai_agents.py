"""A session for the OpenAI Agents SDK: `Runner.run(agent, "…", session=HoldfastSession("user-1", client))`.

Every item is one record with the item byte for byte beside the message that it is. Unknown kinds of items are kept and
returned like any other. An item that was added is on disk; `pop_item` is atomic, and a rewind keeps the log whole.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.runtime.sessions.appending import Draft, session_key
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Message, Part, Role, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

TAG = "openai-agents"
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


class HoldfastSession:
    """A session of the Agents SDK in a Holdfast store.

    `client` is a `holdfast.blocking` client, which serves every thread and event loop, also `Runner.run_sync`; or a
    `holdfast.Client` for its own loop. `session` is the Holdfast session: search it, view it, or continue it natively.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        client: Client | BlockingClient,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self.key = session_key(TAG, session_id)
        self._client, self._calls = calls_of(client)
        self._session: Session | None = None
        self._is_closed = False

    async def session(self) -> Session:
        """Return the Holdfast session. Its methods belong to the loop of the client."""
        if self._session is None:
            self._session = await self._calls.call(self._client.session(self.key))
        return self._session

    async def get_items(self, limit: int | None = None) -> list["TResponseInputItem"]:
        """Return the newest `limit` items in order; all without a limit, or with a negative one as in the SDK."""
        session = await self._open()
        limit = resolve_session_limit(limit, self.session_settings)
        if limit is not None and limit < 0:
            limit = None
        stored = await self._calls.call(session.stored(limit=limit), is_write=False)
        return [_decoded(one.payload) for one in stored if one.tag == TAG]

    async def add_items(self, items: list["TResponseInputItem"]) -> None:
        """Append items, all of them or none. A cancelled call has written them when it returns, or it has not begun."""
        session = await self._open()
        if items:
            await self._calls.call(session.append([as_draft(cast("Mapping[str, Any]", one)) for one in items]))

    async def pop_item(self) -> "TResponseInputItem | None":
        """Take back the newest item and return it; None if there is none. Concurrent calls get different items."""
        session = await self._open()
        popped = await self._calls.call(session.pop())
        return None if popped is None else _decoded(popped.payload)

    async def clear_session(self) -> None:
        """Take back all items. The log keeps them."""
        session = await self._open()
        await self._calls.call(session.retract(after=0))

    def close(self) -> None:
        """Reject further calls. The client stays open."""
        self._is_closed = True

    async def _open(self) -> Session:
        if self._is_closed:
            raise RuntimeError(f"{type(self).__name__} is closed")
        return await self.session()


def _decoded(payload: bytes | None) -> "TResponseInputItem":
    return cast("TResponseInputItem", json.loads(payload or b"null"))


def as_draft(given: Mapping[str, Any]) -> Draft:
    """Return an item with the message that it is. One that is no message for the model is a payload alone."""
    payload = json.dumps(given).encode()
    return Draft(_message(given), payload, TAG)


def _message(given: Mapping[str, Any]) -> Message | None:
    match given:
        case {"type": "function_call", "call_id": str() as call_id, "name": str() as name, "arguments": str() as text}:
            return Message(Role.ASSISTANT, (ToolCall(call_id, name, text),))
        case {"type": "function_call_output", "call_id": str() as call_id, "output": output}:
            return Message(Role.TOOL, (ToolResult(call_id, (Text(_text(output)),)),))
        case {"role": ("user" | "assistant") as role, "content": content} if given.get("type", "message") == "message":
            parts: tuple[Part, ...] = (Text(_text(content)),)
            return Message(_ROLES[role], parts)
        case _:
            return None


def _text(content: object) -> str:
    """Return the text of the content of an item: of a list its texts, with a line for each other part."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content)
    texts = [part.get("text") if isinstance(part, dict) else None for part in content]
    kinds = [str(part.get("type", "part")) if isinstance(part, dict) else "part" for part in content]
    return "\n".join(text if isinstance(text, str) else f"[{kind}]" for text, kind in zip(texts, kinds, strict=True))
