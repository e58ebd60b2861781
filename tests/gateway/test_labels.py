"""Labels, filtered lists, branches, the context and long-term memory over HTTP."""

from pathlib import Path

from tests.gateway.gateways import a_gateway
from tests.gateway.test_tenants import keys

KEY = "/api/sessions/telegram:42"


async def test_sessions_are_labelled_and_listed_by_their_labels() -> None:
    async with a_gateway() as running:
        client = running.client
        for key, text in (("a", "remember harbour = Kiel"), ("b", "hello")):
            await client.send(key, text)
        labels = {"title": "Harbour", "tags": ["x"], "metadata": {"owner": "me"}}
        labelled = await client.ask("PUT", "/api/sessions/b/labels", labels)
        await client.ask("PUT", "/api/sessions/c", {"model": "sim"})

        async def listed(query: str) -> list[str]:
            return [one["key"] for one in (await client.get(f"/api/sessions?{query}")).body["sessions"]]

        assert labelled.body == {**labels, "is_title_made": False}
        assert (await client.get("/api/sessions/a/labels")).body["title"] == "remember harbour = Kiel"
        assert await listed("order=recent") == ["c", "b", "a"]
        assert await listed("tag=x") == ["b"]
        assert await listed("text=HARBOUR") == ["a", "b"]
        assert await listed("match=C") == ["c"]
        assert await listed("model=sim") == ["c"]
        assert (await listed("state=working"), await listed("state=idle")) == ([], ["a", "b", "c"])
        page = (await client.get("/api/sessions?order=recent&limit=2")).body
        assert await listed(f"order=recent&after={page['next']}") == ["a"]
        row = (await client.get("/api/sessions?tag=x")).body["sessions"][0]
        assert (row["title"], row["tags"], row["metadata"], row["state"]) == ("Harbour", ["x"], {"owner": "me"}, "rest")
        assert (await client.get("/api/sessions?order=recent&after=nonsense")).status == 422
        assert (await client.ask("PUT", "/api/sessions/b/labels", {"title": "late", "expect": 1})).status == 409


async def test_a_message_is_edited_and_its_branches_are_listed_and_switched() -> None:
    async with a_gateway() as running:
        client = running.client
        await client.send("telegram:42", "remember harbour = Kiel")
        edited = await client.post(f"{KEY}/messages", {"text": "remember harbour = Oslo", "replaces": 1})
        branches = (await client.get(f"{KEY}/branches")).body["branches"]
        switched = await client.post(f"{KEY}/switch", {"head": branches[0]["head"]})
        again = await client.post(f"{KEY}/regenerate", {})
        answered = (await client.get(f"{KEY}/turns/{again.body['turn']}?wait_seconds=20")).body
        late = await client.post(f"{KEY}/messages", {"text": "late", "expect": 1})

        assert edited.body["text"] == "I will remember that harbour = Oslo."
        assert [one["text"] for one in branches] == ["remember harbour = Kiel", "remember harbour = Oslo"]
        assert switched.body["is_current"]
        assert (again.status, answered["answer"]["text"]) == (202, "I will remember that harbour = Kiel.")
        assert late.status == 409


async def test_the_context_is_given_within_a_budget_and_as_a_providers_request() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "remember harbour = Kiel")

        plain = (await running.client.get(f"{KEY}/context")).body
        encoded = (await running.client.get(f"{KEY}/context?max_tokens=100000&dialect=anthropic")).body
        small = await running.client.get(f"{KEY}/context?max_tokens=1")

        assert (plain["messages"][0]["role"], plain["request"], plain["is_whole"]) == ("user", None, True)
        assert "harbour = Kiel" in str(encoded["request"]["messages"])
        assert (small.status, "raise it" in str(small.body)) == (422, True)


async def test_memories_and_lists_of_keys_are_apart(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        await alice.send("a", "hello alice")
        await bob.send("b", "hello bob")
        for order in ("key", "recent"):
            page = (await alice.get(f"/api/sessions?text=hello&order={order}&limit=1")).body
            assert [one["key"] for one in page["sessions"]] == ["a"]
            assert "bob" not in str(page)
        assert (await alice.get("/api/sessions?text=alice&match=alice")).body["sessions"] == []
        note = (await alice.post("/api/memory/user", {"text": "Likes tea."})).body
        await alice.ask("PUT", f"/api/memory/user/{note['id']}", {"text": "Likes black tea."})

        assert [one["text"] for one in (await alice.get("/api/memory/user?query=tea")).body["notes"]] == [
            "Likes black tea."
        ]
        assert (await bob.get("/api/memory/user")).body == {"notes": []}
        assert (await bob.ask("DELETE", f"/api/memory/user/{note['id']}")).status == 422
        assert (await alice.ask("DELETE", f"/api/memory/user/{note['id']}")).status == 200
        assert (await alice.get("/api/memory/user")).body == {"notes": []}
