"""Sessions over HTTP: what a client sends is answered, once, and can be looked at."""

import base64

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.bounds import GatewayBounds
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.testing.engines import ScriptedModel, refuses
from holdfast.types.limits import Limits
from tests.core.images import a_png
from tests.gateway.gateways import SilentModel, a_gateway, first, until

KEY = "/api/sessions/telegram:42"


async def test_a_message_is_answered_and_the_session_remembers() -> None:
    async with a_gateway() as running:
        told = await running.client.send("telegram:42", "remember harbour = Kiel")
        asked = await running.client.send("telegram:42", "what is harbour?")

    assert (told.status, told.body["turn"], told.body["text"]) == (200, 1, "I will remember that harbour = Kiel.")
    assert (asked.status, asked.body["text"], asked.body["notices"]) == (200, "harbour = Kiel.", [])


async def test_a_message_that_is_only_posted_is_accepted_and_its_turn_can_be_waited_for() -> None:
    async with a_gateway() as running:
        posted = await running.client.send("telegram:42", "remember harbour = Kiel", mode="post")
        turn = posted.body["turn"]
        waited = await running.client.get(f"{KEY}/turns/{turn}?wait_seconds=30")
        looked = await running.client.get(f"{KEY}/turns/{turn}")

    assert posted.status == 202
    assert waited.body["outcome"] == "answered"
    assert waited.body["answer"]["text"] == "I will remember that harbour = Kiel."
    assert looked.body == waited.body


async def test_a_message_that_is_streamed_tells_what_happens_and_its_answer_last() -> None:
    body = {"text": "say hi", "mode": "stream"}
    async with a_gateway() as running, running.client.events(f"{KEY}/messages", body=body) as events:
        seen = [event async for event in events]

    assert [event.name for event in seen if event.name != "delta"] == ["accepted", *["record"] * 4, "answer"]
    records = [event for event in seen if event.name == "record"]
    assert [event.told["record"]["type"] for event in records] == [
        "TurnStarted",
        "AttemptStarted",
        "ReplyRecorded",
        "TurnEnded",
    ]
    deltas = "".join(event.told["text"] for event in seen if event.name == "delta")
    assert deltas == seen[-1].told["text"]
    assert all(event.cursor for event in records)


async def test_the_same_client_id_sent_twice_is_one_message() -> None:
    async with a_gateway() as running:
        by_body = await running.client.send("telegram:42", "hello", client_id="m1")
        by_header = await running.client.post(f"{KEY}/messages", {"text": "hello"}, headers={"idempotency-key": "m1"})
        other = await running.client.send("telegram:42", "something else", client_id="m1")
        both = await running.client.post(
            f"{KEY}/messages", {"text": "hello", "client_id": "m1"}, headers={"idempotency-key": "m2"}
        )

    assert by_body.body == by_header.body
    assert other.code == (409, "client_id_reused")
    assert both.code == (422, "invalid")


async def test_a_turn_without_an_answer_is_a_problem_with_its_reason_and_the_next_one_works() -> None:
    script = ScriptedModel([refuses(401, "invalid x-api-key"), "here again"])
    async with a_gateway(script) as running:
        failed = await running.client.send("telegram:42", "hello")
        state = await running.client.get(f"{KEY}/turns/1")
        answer = await running.client.send("telegram:42", "again")

    assert failed.code == (502, "turn_failed")
    assert (failed.body["turn"], failed.body["reason"]) == (1, "auth")
    assert (state.body["outcome"], state.body["code"], state.body["sentence"]) == (
        "failed",
        "auth",
        failed.body["detail"],
    )
    assert answer.body["text"] == "here again"


async def test_a_streamed_turn_without_an_answer_ends_with_the_problem() -> None:
    model = ScriptedModel([refuses(401, "invalid x-api-key")])
    body = {"text": "hello", "mode": "stream"}
    async with a_gateway(model) as running, running.client.events(f"{KEY}/messages", body=body) as events:
        seen = [event async for event in events]

    assert (seen[-1].name, seen[-1].told["reason"]) == ("problem", "auth")


async def test_a_waiting_request_is_told_to_come_back_when_it_has_waited_long_enough() -> None:
    silent = SilentModel()
    bounds = GatewayBounds(wait_seconds_max=0.2)
    async with a_gateway(silent, bounds=bounds) as running:
        answer = await running.client.send("telegram:42", "hello")
        await silent.called.wait()
        state = await running.client.get(f"{KEY}/turns/{answer.body['turn']}")
        detail = await running.client.get(KEY)
        everything = await running.client.post(f"{KEY}/cancel", {})
        ended = await running.client.get(f"{KEY}/turns/{answer.body['turn']}?wait_seconds=30")

    assert (answer.status, state.body["outcome"]) == (202, None)
    assert (detail.body["in_flight"], detail.body["turn"]) == ("model", answer.body["turn"])
    assert everything.body == {"done": True}
    assert ended.body["outcome"] in {None, "cancelled"}


async def test_a_session_is_made_configured_listed_and_shown() -> None:
    tool = {"name": "sound", "description": "Sound the depth.", "parameters": {"type": "object"}}
    async with a_gateway(offered=("sim", "sim:anthropic-messages")) as running:
        made = await running.client.ask("PUT", "/api/sessions/a%2Fb", {})
        told = await running.client.ask(
            "PUT", "/api/sessions/a%2Fb", {"model": "sim", "system": "Be brief.", "tools": [tool]}
        )
        again = await running.client.ask("PUT", "/api/sessions/a%2Fb", {"system": "Be brief."})
        unknown = await running.client.ask("PUT", "/api/sessions/a%2Fb", {"model": "openai:gpt-5"})
        await running.client.ask("PUT", "/api/sessions/b", {})
        await running.client.ask("PUT", "/api/sessions/c", {})
        page = await running.client.get("/api/sessions?limit=2")
        rest = await running.client.get(f"/api/sessions?limit=2&after={page.body['next']}")

    assert (made.status, made.body["key"], made.body["records"]) == (200, "a/b", 1)
    assert (told.body["model"], told.body["system"], told.body["tools"]) == ("sim", "Be brief.", [tool])
    assert again.body["records"] == told.body["records"] == 2
    assert unknown.code == (422, "unknown_model")
    assert [one["key"] for one in page.body["sessions"]] == ["a/b", "b"]
    assert ([one["key"] for one in rest.body["sessions"]], rest.body["next"]) == (["c"], None)


async def test_view_records_and_search_show_what_was_said() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "remember harbour = Kiel")
        view = await running.client.get(f"{KEY}/view")
        records = await running.client.get(f"{KEY}/records?limit=2")
        rest = await running.client.get(f"{KEY}/records?after=2")
        one = await running.client.get(f"{KEY}/records/1")
        missing = await running.client.get(f"{KEY}/records/99")
        hits = await running.client.get(f"{KEY}/search?query=harbour&limit=5")

    assert [message["role"] for message in view.body["messages"]] == ["user", "assistant"]
    assert view.body["tokens_estimated"] > 0
    assert set(view.body["sizes"]) >= {"tokens", "wire_bytes", "media_count"}
    assert view.body["limits"]["window_tokens"] > 0
    assert (len(records.body["records"]), records.body["next"]) == (2, 2)
    assert (rest.body["records"][0]["seq"], rest.body["next"]) == (3, None)
    assert one.body == records.body["records"][0]
    assert missing.code == (404, "not_found")
    assert hits.body["hits"][0]["seq"] in {1, 4}


async def test_a_compaction_is_made_undone_once_and_a_pin_is_kept() -> None:
    async with a_gateway(simulated_model(Simulation(Limits(32_000, 2_000)))) as running:
        for number in range(6):
            await running.client.send("telegram:42", f"note {number}: " + "all work and no play " * 400)
        pinned = await running.client.ask("PUT", f"{KEY}/pins/1")
        made = await running.client.post(f"{KEY}/compact", {"focus": "the notes"})
        detail = await running.client.get(KEY)
        compaction = detail.body["compaction"]
        undone = await running.client.post(f"{KEY}/undo", {"compaction": compaction})
        twice = await running.client.post(f"{KEY}/undo", {"compaction": compaction})
        unpinned = await running.client.ask("DELETE", f"{KEY}/pins/1")
        after = await running.client.get(KEY)

    assert (pinned.body, unpinned.body) == ({"done": True}, {"done": True})
    assert (made.status, made.body["outcome"]) == (200, "applied")
    assert detail.body["pinned"] == [1]
    assert detail.body["boundary"] > 1
    assert (undone.body, twice.body) == ({"is_undone": True}, {"is_undone": False})
    assert (after.body["compaction"], after.body["pinned"]) == (0, [])


async def test_an_attachment_is_uploaded_and_named_or_sent_inline() -> None:
    picture = a_png(3, 2)
    async with a_gateway() as running:
        up = await running.client.ask("POST", "/api/attachments?name=chart.png", picture)
        sent = await running.client.send(
            "telegram:42", "look", attachments=[{"upload": up.body["upload"]}], client_id="m1"
        )
        again = await running.client.send(
            "telegram:42", "look", attachments=[{"upload": up.body["upload"]}], client_id="m1"
        )
        inline = await running.client.send(
            "telegram:42",
            "look",
            attachments=[{"content": base64.b64encode(picture).decode(), "name": "chart.png"}],
        )
        record = await running.client.get(f"{KEY}/records/1")
        other = await running.client.get(f"{KEY}/records/{inline.body['turn']}")
        neither = await running.client.send("telegram:42", "look", attachments=[{"name": "x"}])
        gone = await running.client.send("telegram:42", "look", attachments=[{"upload": "nothing"}])

    assert (up.status, up.body["size_bytes"]) == (201, len(picture))
    assert (sent.status, again.body["turn"]) == (200, sent.body["turn"])
    shown = record.body["record"]["parts"][1]
    assert (shown["name"], shown["width_pixels"], shown["height_pixels"]) == ("chart.png", 3, 2)
    assert other.body["record"]["parts"] == record.body["record"]["parts"]
    assert neither.code == (422, "invalid")
    assert gone.code == (404, "not_found")


async def test_a_client_runs_a_tool_that_it_declared() -> None:
    tool = {"name": "depth", "description": "Return the depth.", "parameters": {"type": "object"}}
    async with a_gateway() as running:
        body = {"text": 'call depth {"place": "Kiel"}', "mode": "stream", "tools": [tool]}
        async with running.client.events(f"{KEY}/messages", body=body) as events:
            call = (await first(events, "call")).told
            detail = await running.client.get(KEY)
            named = {"reply": call["reply"], "call_id": call["call_id"]}
            submitted = await running.client.post(f"{KEY}/results", {**named, "output": "12 fathoms"})
            answer = (await until(events, "answer"))[-1]
        again = await running.client.post(f"{KEY}/results", {**named, "output": "13 fathoms"})
        wrong = await running.client.post(f"{KEY}/results", {"reply": 1, "call_id": "x", "output": "13"})

    assert (call["name"], call["arguments"]) == ("depth", '{"place": "Kiel"}')
    assert detail.body["calls"] == [call]
    assert (submitted.body, again.body) == ({"is_new": True}, {"is_new": False})
    assert answer.told["text"] == "The tool depth returned: 12 fathoms"
    assert wrong.code == (422, "bad_input")


@pytest.mark.parametrize("path", ["/api/sessions/nobody", "/api/sessions/nobody/view", "/api/sessions/nobody/events"])
async def test_a_session_that_does_not_exist_is_not_made_by_looking(path: str) -> None:
    async with a_gateway() as running:
        answer = await running.client.get(path)
        listed = await running.client.get("/api/sessions")

    assert answer.code == (404, "not_found")
    assert listed.body["sessions"] == []


async def test_a_message_is_left_out_of_the_view_and_taken_back() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "the code is 4711")
        left_out = await running.client.ask("PUT", f"{KEY}/exclusions/1")
        detail = (await running.client.get(KEY)).body
        past = (await running.client.get(f"{KEY}/past")).body
        taken_back = await running.client.ask("DELETE", f"{KEY}/exclusions/1")
        after = (await running.client.get(KEY)).body
        wrong = await running.client.ask("PUT", f"{KEY}/exclusions/2")

    assert (left_out.status, taken_back.status, wrong.status) == (200, 200, 422)
    assert (detail["excluded"], after["excluded"]) == ([1], [])
    assert [one["reason"] for one in past["left"]] == ["excluded"]


async def test_a_heartbeat_is_answered_and_the_next_compaction_drops_it_from_the_view() -> None:
    model = simulated_model(Simulation(Limits(window_tokens=16_000, output_tokens_max=2_000)))
    async with a_gateway(model, engine_bounds=Bounds(compacts_ahead=False)) as running:
        for number in range(6):
            await running.client.send("telegram:42", f"Read /srv/place{number}.txt. " + "A long letter came. " * 150)
        beat = await running.client.post(f"{KEY}/messages", {"text": "HEARTBEAT", "is_heartbeat": True})
        turn = beat.body["turn"]
        before = (await running.client.get(f"{KEY}/view")).body
        compacted = await running.client.post(f"{KEY}/compact", {})
        view = (await running.client.get(f"{KEY}/view")).body
        past = (await running.client.get(f"{KEY}/past")).body
        (shown,) = (await running.client.get(f"{KEY}/records?after={turn - 1}&limit=1")).body["records"]

    assert (beat.status, compacted.body["outcome"]) == (200, "applied")
    assert ("HEARTBEAT" in str(before["messages"]), "HEARTBEAT" in str(view["messages"])) == (True, False)
    assert shown["record"]["is_heartbeat"] is True
    dropped = [(one["first"], one["words"]) for one in past["left"] if one["reason"] == "heartbeat"]
    assert dropped == [(turn, "a heartbeat, which no summary keeps")]
