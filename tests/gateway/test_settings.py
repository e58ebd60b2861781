"""Settings and outputs over HTTP: of a session and of one message, checked, stored and sent to the model."""

from typing import Any

import pytest

from holdfast.testing.engines import FunctionModel, ScriptedModel, says
from holdfast.types.messages import Request
from holdfast.types.settings import Settings
from tests.gateway.gateways import a_gateway, first

KEY = "/api/sessions/telegram:42"
PORT: dict[str, Any] = {
    "title": "Port",
    "type": "object",
    "properties": {"harbour": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["harbour", "depth"],
}
GOOD = '{"harbour": "Kiel", "depth": 12345678901234567890123}'
VALUE = {"harbour": "Kiel", "depth": 12345678901234567890123}


async def test_settings_of_a_session_and_of_a_message_reach_the_model() -> None:
    seen: list[Settings] = []

    def respond(request: Request) -> Any:
        seen.append(request.settings)
        return says("yes")

    async with a_gateway(FunctionModel(respond)) as running:
        http = running.client
        made = await http.ask("PUT", KEY, {"settings": {"temperature": 0.5, "stop": ["END"], "effort": "low"}})
        await http.send("telegram:42", "one", settings={"temperature": 0, "seed": 7})
        await http.send("telegram:42", "two")
        unchanged = await http.ask("PUT", KEY, {"system": "Be brief."})
        emptied = await http.ask("PUT", KEY, {"settings": {}})
        await http.send("telegram:42", "three")
    assert made.body["settings"] == {"temperature": 0.5, "stop": ["END"], "effort": "low"}
    assert unchanged.body["settings"] == made.body["settings"]
    assert emptied.body["settings"] == {}
    assert seen == [
        Settings(temperature=0.0, stop=("END",), seed=7, effort="low"),
        Settings(temperature=0.5, stop=("END",), effort="low"),
        Settings(),
    ]


@pytest.mark.parametrize("mode", ["wait", "stream", "post"])
async def test_an_answer_of_a_schema_carries_its_value(mode: str) -> None:
    async with a_gateway(ScriptedModel(['{"harbour": 5}', f"```json\n{GOOD}\n```", "plain"])) as running:
        http, sent = running.client, {"text": "where?", "output": PORT, "mode": mode, "client_id": "1"}
        if mode == "stream":
            async with http.events(f"{KEY}/messages", body=sent) as events:
                answer = (await first(events, "answer")).told
        else:
            answer = (await http.post(f"{KEY}/messages", sent)).body
        again = await http.get(f"{KEY}/turns/{answer['turn']}?wait_seconds=60")
        repeated = await http.post(f"{KEY}/messages", {**sent, "mode": "wait"})
        other = await http.post(f"{KEY}/messages", {**sent, "output": {"type": "object"}})
        plain = await http.send("telegram:42", "and now?")
    if mode != "post":
        assert answer["output"] == VALUE
    assert again.body["answer"]["output"] == VALUE
    assert repeated.body["output"] == VALUE
    assert other.code == (409, "client_id_reused")
    assert (plain.body["text"], plain.body["output"]) == ("plain", None)


async def test_an_answer_that_is_never_of_its_schema_is_a_failed_turn_and_the_next_message_works() -> None:
    async with a_gateway(ScriptedModel(["no"] * 3 + ["hello"])) as running:
        failed = await running.client.send("telegram:42", "where?", output=PORT)
        works = await running.client.send("telegram:42", "hi")
    assert failed.code == (502, "turn_failed")
    assert failed.body["reason"] == "output_invalid"
    assert works.body["text"] == "hello"


@pytest.mark.parametrize(
    ("sent", "code", "sentence"),
    [
        ({"settings": {"temprature": 1}}, "invalid", "temprature"),
        ({"settings": {"temperature": "hot"}}, "invalid", "$.settings.temperature"),
        ({"settings": {"temperature": 3}}, "bad_input", "give a number from 0 to 2"),
        ({"settings": {"top_p": 0}}, "bad_input", "above 0 and up to 1"),
        ({"settings": {"effort": "huge"}}, "invalid", "$.settings.effort"),
        ({"settings": {"stop": [""]}}, "bad_input", "none of them empty"),
        ({"settings": {"output_tokens_max": 0}}, "bad_input", "give a positive number"),
        ({"settings": {"extra": {"messages": []}}}, "bad_input", "which Holdfast writes itself"),
        ({"settings": {"metadata": {"a": "x" * 20_000}}}, "bad_input", "the maximum is 16,384"),
        ({"settings": []}, "invalid", "$.settings"),
        ({"output": "Port"}, "invalid", "$.output"),
        ({"output": {"type": "array"}}, "bad_input", "must be of type"),
        ({"output": {"type": "object", "properties": []}}, "bad_input", "not a valid JSON Schema"),
        ({"output": {"type": "object", "$ref": "file:///etc/passwd"}}, "bad_input", "put that into $defs"),
        ({"output": {"type": "object", "$ref": "#/$defs/x"}}, "bad_input", "which it does not have"),
        ({"output": {"type": "object", "description": "x" * 70_000}}, "bad_input", "the maximum is"),
    ],
)
async def test_bad_settings_and_schemas_are_refused_with_a_sentence_and_nothing_is_stored(
    sent: dict[str, Any], code: str, sentence: str
) -> None:
    async with a_gateway() as running:
        refused = await running.client.post(f"{KEY}/messages", {"text": "hello", **sent})
        if "settings" in sent:
            configured = await running.client.ask("PUT", KEY, sent)
            assert configured.code == (422, code)
        listed = await running.client.get("/api/sessions")
    assert refused.code == (422, code)
    assert sentence in refused.body["detail"]
    assert listed.body["sessions"] == []
