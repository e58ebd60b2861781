"""Approvals over HTTP: a program waits with a tool call, and any client of the gateway answers."""

from pathlib import Path

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.http.keys import KeyFile
from holdfast.types.records import ApprovalRequested
from tests.gateway.gateways import GatewayClient, a_gateway, a_gateway_on, first
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


async def test_an_approval_is_an_event_a_state_and_in_the_list_of_all_sessions() -> None:
    @holdfast.tool(approve=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async with holdfast.open(":memory:", tools=[pay]) as client, a_gateway_on(client) as http:
        chat = await client.session("telegram:42")
        await (await client.session("other")).send("hello")
        turn = await chat.post('call pay {"amount": 5}')
        async with http.events(f"{KEY}/events?after=0") as events:
            event = await first(events, "approval")
            record = await first(events, "record")
        everywhere = await http.get("/api/approvals")
        detail = await http.get(KEY)
        listed = await http.get("/api/sessions?match=telegram")
        await http.post(f"{KEY}/approvals", {"request": event.told["request"], "approve": True})
        assert (await chat.wait(turn)).text == "The tool pay returned: paid 5"
        none_left = await http.get("/api/approvals")

    assert record.told["seq"] == event.told["request"]
    assert (event.told["tool"], event.told["arguments"], event.cursor) == ("pay", '{"amount": 5}', "")
    expires_at = event.told["asked_at"] + Bounds().approval_seconds_max
    pending = {**event.told, "expires_at": expires_at, "session": "telegram:42"}
    assert everywhere.body == {"approvals": [pending], "is_complete": True}
    assert detail.body["approvals"] == [event.told]
    (row,) = listed.body["sessions"]
    assert (row["state"], row["says"]) == ("approval", "waiting for an approval of pay")
    assert none_left.body == {"approvals": [], "is_complete": True}


async def test_an_approval_given_at_a_gateway_without_the_tool_is_carried_out_by_the_program_that_has_it(
    tmp_path: Path,
) -> None:
    effects: list[int] = []

    @holdfast.tool(approve=True)
    def pay(amount: int) -> str:
        """Pay."""
        effects.append(amount)
        return "paid"

    store = tmp_path / "a.db"
    async with holdfast.open(store) as gateway, a_gateway_on(gateway) as http:
        async with holdfast.open(store, tools=[pay]) as program:
            turn = await (await program.session("telegram:42")).post('call pay {"amount": 5}')
            request = (await next_record(await program.session("telegram:42"), ApprovalRequested)).seq
        # The program is away now.
        answered = await http.post(f"{KEY}/approvals", {"request": request, "approve": True})
        row = (await http.get("/api/sessions")).body["sessions"][0]
        async with holdfast.open(store, tools=[pay]) as program:
            text = (await (await program.session("telegram:42")).wait(turn)).text
    assert answered.body == {"is_new": True}
    assert row["says"] == "pay was approved or denied; waiting for a program that has this tool"
    assert (text, effects) == ("The tool pay returned: paid", [5])


async def test_the_approvals_of_another_key_are_not_listed(tmp_path: Path) -> None:
    @holdfast.tool(approve=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    keys = KeyFile(tmp_path / "keys")
    alice, bob = keys.add("alice"), keys.add("bob")
    async with holdfast.open(":memory:", tools=[pay]) as client, a_gateway_on(client, keys=keys) as http:
        chat = await client.session("@alice/telegram:42")
        await chat.post("call pay")
        await next_record(chat, ApprovalRequested)
        hers = await GatewayClient(http.http, http.url, alice).get("/api/approvals")
        his = await GatewayClient(http.http, http.url, bob).get("/api/approvals")
        await chat.cancel()
    assert [one["session"] for one in hers.body["approvals"]] == ["telegram:42"]
    assert his.body == {"approvals": [], "is_complete": True}
