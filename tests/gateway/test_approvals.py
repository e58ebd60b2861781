"""Approvals over HTTP: a program waits with a tool call, and any client of the gateway answers."""

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.types.records import ApprovalRequested
from tests.gateway.gateways import a_gateway, a_gateway_on
from tests.runtime.talks import next_record

KEY = "/api/sessions/telegram:42"


async def test_a_call_is_listed_and_answered_over_http() -> None:
    effects: list[int] = []

    @holdfast.tool(approve=True)
    def pay(amount: int) -> str:
        """Pay."""
        effects.append(amount)
        return "paid"

    async with holdfast.open(":memory:", tools=[pay]) as client, a_gateway_on(client) as http:
        chat = await client.session("telegram:42")
        turn = await chat.post('call pay {"amount": 5}')
        request = (await next_record(chat, ApprovalRequested)).seq
        listed = await http.get(f"{KEY}/approvals")
        wrong = await http.post(f"{KEY}/approvals", {"request": 1, "approve": True})
        assert effects == []
        answered = await http.post(f"{KEY}/approvals", {"request": request, "approve": True})
        again = await http.post(f"{KEY}/approvals", {"request": request, "approve": False})
        assert (await chat.wait(turn)).text == "The tool pay returned: paid"
        assert effects == [5]
        turn = await chat.post('call pay {"amount": 6}')
        request = (await next_record(chat, ApprovalRequested, after=turn)).seq
        await http.post(f"{KEY}/approvals", {"request": request, "approve": False, "note": "too much"})
        assert "said: too much" in (await chat.wait(turn)).text
        assert effects == [5]
        empty = await http.get(f"{KEY}/approvals")

    (one,) = listed.body["approvals"]
    assert (one["tool"], one["arguments"], one["turn"]) == ("pay", '{"amount": 5}', 1)
    assert one["expires_at"] == one["asked_at"] + Bounds().approval_seconds_max
    assert wrong.code == (422, "bad_input")
    assert (answered.body, again.body) == ({"is_new": True}, {"is_new": False})
    assert empty.body == {"approvals": []}


async def test_an_unknown_session_and_another_field_are_refused() -> None:
    async with a_gateway() as running:
        missing = await running.client.get("/api/sessions/none/approvals")
        misspelt = await running.client.post(f"{KEY}/approvals", {"request": 1, "approved": True})
    assert missing.code[0] == 404
    assert misspelt.code[0] == 422
