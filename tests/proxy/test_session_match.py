"""The session of a request is found with few reads, whichever gateway has begun it."""

import json
from typing import Any

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.proxy.session_match import SessionMatcher
from holdfast.ports import SessionInfo
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.messages import Text
from holdfast.types.records import InputAdmitted, Logged
from tests.proxy.proxies import a_dropin
from tests.proxy.upstreams import a_raw_upstream


class CountingStore(MemoryStore):
    """A store that notes each read."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), bounds=Bounds())
        self.reads: list[str] = []

    async def info(self, session: str) -> SessionInfo | None:
        self.reads.append("info")
        return await super().info(session)

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        self.reads.append("sessions")
        return await super().sessions(after=after, limit=limit)

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        self.reads.append("read")
        return await super().read(session, after=after, limit=limit)


async def test_a_request_looks_once_at_the_store_for_its_session() -> None:
    store = CountingStore()
    matcher = SessionMatcher(store, Bounds())

    begun = await matcher.find("dropin:harbour", [b"question"])
    reads_of_the_first, store.reads = store.reads, []
    continued = await matcher.find("dropin:harbour", [b"question", b"answer", b"next"])

    assert continued is begun
    assert reads_of_the_first == ["info", "sessions"], "the family, once"
    assert store.reads == ["info"], "whether another gateway has written"


async def test_a_conversation_that_another_gateway_began_is_found_although_its_family_is_cached() -> None:
    store = CountingStore()
    matcher, other = SessionMatcher(store, Bounds()), SessionMatcher(store, Bounds())
    first = await matcher.find("dropin:harbour", [b"question"])
    await store.admit(first.key, InputAdmitted((Text("question"),), client_id=b"question".hex(), origin=0))
    begun = await other.find("dropin:harbour", [b"other"])
    await store.admit(begun.key, InputAdmitted((Text("other"),), client_id=b"other".hex(), origin=0))

    found = await matcher.find("dropin:harbour", [b"other", b"answer", b"next"])

    assert found.key == begun.key != first.key


async def test_a_call_of_gemini_that_has_no_id_on_either_way_stays_in_its_session() -> None:
    """Its place in the conversation is its id."""
    call = {"functionCall": {"name": "look", "args": {}}}
    answer = {"functionResponse": {"name": "look", "response": {"output": "two gulls"}}}
    asked: list[Any] = [{"role": "user", "parts": [{"text": "look around"}]}]
    async with a_raw_upstream() as upstream, a_dropin(upstream_url=upstream.url) as running:
        candidate = {"content": {"role": "model", "parts": [call]}, "finishReason": "STOP", "index": 0}
        upstream.body = json.dumps({"candidates": [candidate]}).encode()
        for _ in range(3):
            url = f"{running.url}/v1beta/models/sim:generateContent"
            headers = {"x-goog-api-key": "AIza-k"}
            async with running.http.post(url, json={"contents": asked}, headers=headers) as response:
                assert (await response.json())["candidates"] == [candidate]
            asked += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
        sessions = await running.sessions()
    assert len(sessions) == 1
