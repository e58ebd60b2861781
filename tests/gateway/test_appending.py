"""Messages appended over HTTP, their payloads, and retractions."""

import base64

from tests.gateway.gateways import a_gateway

KEY = "/api/sessions/telegram:42"
USER = {"role": "user", "parts": [{"type": "text", "text": "remember harbour = Kiel"}]}
CALL = {"role": "assistant", "parts": [{"type": "tool_call", "call_id": "c1", "name": "depth", "arguments": "{}"}]}
RESULT = {"role": "tool", "parts": [{"type": "tool_result", "call_id": "c1", "text": "12 fathoms"}]}


async def test_appended_messages_are_read_by_the_next_turn() -> None:
    async with a_gateway() as running:
        done = await running.client.post(f"{KEY}/append", {"messages": [USER, CALL], "expect": 0, "client_id": "a"})
        again = await running.client.post(f"{KEY}/append", {"messages": [USER, CALL], "client_id": "a"})
        await running.client.post(f"{KEY}/append", {"messages": [RESULT]})
        asked = await running.client.send("telegram:42", "what is harbour?")

    assert (done.status, done.body) == (200, {"first": 1, "last": 2, "is_new": True})
    assert again.body == {"first": 1, "last": 2, "is_new": False}
    assert asked.body["text"] == "harbour = Kiel."


async def test_a_payload_comes_back_and_is_found_by_its_client_id() -> None:
    payload = base64.b64encode(b"\xff\x00 any").decode()
    body = {"messages": [{"payload": payload, "tag": "t", "client_id": "p"}, USER]}
    async with a_gateway() as running:
        await running.client.post(f"{KEY}/append", body)
        found = await running.client.get(f"{KEY}/append?client_id=p")
        newest = await running.client.get(f"{KEY}/append?limit=1")
        missing = await running.client.get(f"{KEY}/append?client_id=q")

    (one,) = found.body["messages"]
    assert (one["seq"], one["payload"], one["tag"], one["message"]) == (1, payload, "t", None)
    assert [each["seq"] for each in newest.body["messages"]] == [2]
    assert missing.body["messages"] == []


async def test_retracted_messages_are_gone_from_the_view_and_stay_in_the_log() -> None:
    async with a_gateway() as running:
        await running.client.post(f"{KEY}/append", {"messages": [USER, CALL, RESULT]})
        moved = await running.client.post(f"{KEY}/retract", {"after": 1, "expect": 2})
        done = await running.client.post(f"{KEY}/retract", {"after": 1, "expect": 3})
        again = await running.client.post(f"{KEY}/retract", {"after": 1})
        left = await running.client.get(f"{KEY}/append")
        records = await running.client.get(f"{KEY}/records")

    assert (moved.status, moved.body["code"]) == (409, "seq_moved")
    assert (done.body, again.body) == ({"is_retracted": True}, {"is_retracted": False})
    assert [one["seq"] for one in left.body["messages"]] == [1]
    assert len(records.body["records"]) == 4


async def test_a_part_that_names_a_blob_is_refused() -> None:
    part = {"type": "media", "blob": {"sha256": "0" * 64, "size_bytes": 1}, "media_type": "image/png"}
    async with a_gateway() as running:
        refused = await running.client.post(f"{KEY}/append", {"messages": [{"role": "user", "parts": [part]}]})

    assert refused.status == 422
