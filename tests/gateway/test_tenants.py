"""Gateway keys: each opens its own sessions, and nothing tells of another's."""

import stat
from pathlib import Path

import pytest

from holdfast.errors import StoreIoError, UsageError
from holdfast.gateway.api.routes import PREFIX, ROUTES
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.auth import Tenant
from holdfast.gateway.http.keys import KeyFile
from tests.gateway.gateways import a_gateway


def keys(folder: Path, *names: str) -> tuple[Path, dict[str, str]]:
    file = KeyFile(folder / "store.db-keys")
    return file.path, {name: file.add(name) for name in names}


def test_a_key_is_kept_as_a_hash_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    text = path.read_text()

    assert made["alice"] not in text
    assert made["alice"].removeprefix("hf_") not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file = KeyFile(path)
    assert [file.name_of(key) for key in (made["alice"], made["bob"], "hf_x", "", "x" * 9_999, "\udcff")] == [
        "alice",
        "bob",
        None,
        None,
        None,
        None,
    ]
    assert [one.name for one in tmp_path.iterdir()] == ["store.db-keys"]


@pytest.mark.parametrize("name", ["", "Alice", "a/b", "a b", "../x", "a" * 33, "@a"])
def test_a_name_that_could_be_taken_for_another_tenants_prefix_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid key name"):
        KeyFile(tmp_path / "keys").add(name)


def test_keys_are_added_and_removed_by_name(tmp_path: Path) -> None:
    path, _ = keys(tmp_path, "alice")
    file = KeyFile(path)
    with pytest.raises(UsageError, match="a key named 'alice' already exists"):
        file.add("alice")
    with pytest.raises(UsageError, match="no key named 'bob'; keys: alice"):
        file.remove("bob")
    file.remove("alice")
    assert file.all() == ()


def test_a_damaged_key_file_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("[{")
    with pytest.raises(StoreIoError, match="cannot read the keys"):
        KeyFile(path).all()
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreIoError, match="cannot read the keys"):
        KeyFile(tmp_path / "folder").all()
    with pytest.raises(StoreIoError, match="cannot write the keys"):
        KeyFile(tmp_path / "nowhere" / "keys").add("alice")


async def test_without_a_right_key_nothing_is_served(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice")
    async with a_gateway(keys=path) as running:
        nobody = [
            await running.client.get("/api/sessions"),
            await running.with_key("hf_wrong").get("/api/sessions"),
            await running.client.get("/api/nothing"),
            await running.client.get("/metrics"),
            await running.client.get("/api/sessions", headers={"authorization": f"Basic {made['alice']}"}),
        ]
        alice = await running.with_key(made["alice"]).get("/api/sessions")
        by_other_header = await running.client.get("/api/sessions", headers={"x-api-key": made["alice"]})
        open_to_all = [(await running.client.get(path)).status for path in ("/healthz", "/readyz", "/api/openapi.json")]

    assert [answer.code for answer in nobody] == [(401, "unauthorized")] * 5
    assert nobody[0].headers["www-authenticate"].startswith("Bearer")
    assert (alice.status, by_other_header.status) == (200, 200)
    assert open_to_all == [200, 200, 200]


async def test_a_key_that_is_removed_stops_working_and_no_key_left_lets_nobody_in(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice")
    async with a_gateway(keys=path) as running:
        alice = running.with_key(made["alice"])
        before = await alice.get("/api/sessions")
        KeyFile(path).remove("alice")
        running.gateway.state.keys._checked_at = float("-inf")  # type: ignore[union-attr] # a second later
        after = await alice.get("/api/sessions")
        nobody = await running.client.get("/api/sessions")

    assert (before.status, after.code, nobody.code) == (200, (401, "unauthorized"), (401, "unauthorized"))


async def test_a_tenant_sees_its_own_sessions_and_no_others(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob", "bobby")
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        bobby = running.with_key(made["bobby"])
        for client, word in ((alice, "Kiel"), (bob, "Bergen"), (bobby, "Tromso")):
            await client.send("telegram:42", f"remember harbour = {word}")
        await alice.send("only-alice", "hello")
        asked = [(await client.send("telegram:42", "what is harbour?")).body["text"] for client in (alice, bob, bobby)]
        lists = [
            [one["key"] for one in (await client.get("/api/sessions?limit=1")).body["sessions"]]
            for client in (alice, bob, bobby)
        ]
        everything = [one["key"] for one in (await alice.get("/api/sessions")).body["sessions"]]
        hits = (await bob.get("/api/sessions/telegram:42/search?query=Kiel")).body["hits"]
        foreign = [
            await bob.get("/api/sessions/only-alice"),
            await bob.get("/api/sessions/@alice%2Fonly-alice"),
            await bob.get("/api/sessions/..%2F@alice%2Fonly-alice/records"),
            await bob.get("/api/sessions/only-alice/events"),
            await bob.get("/api/sessions/only-alice/turns/1"),
            await bob.post("/api/sessions/only-alice/results", {"reply": 1, "call_id": "x"}),
            await bob.post("/api/sessions/only-alice/compact", {}),
            await bob.ask("PUT", "/api/sessions/only-alice/pins/1"),
            await bob.ask("PUT", "/api/sessions/only-alice/exclusions/1"),
        ]
        upload = (await alice.ask("POST", "/api/attachments?name=a.txt", b"secret")).body["upload"]
        stolen = await bob.send("telegram:42", "read", attachments=[{"upload": upload}])

    assert asked == ["harbour = Kiel.", "harbour = Bergen.", "harbour = Tromso."]
    assert lists == [["only-alice"], ["telegram:42"], ["telegram:42"]]
    assert everything == ["only-alice", "telegram:42"]
    assert hits == []
    assert [answer.code for answer in foreign] == [(404, "not_found")] * 9
    assert stolen.code == (404, "not_found")


async def test_counters_are_for_the_operator_alone(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "operator")
    async with a_gateway(keys=path) as running:
        alice = await running.with_key(made["alice"]).get("/metrics")
        operator = await running.with_key(made["operator"]).get("/metrics")

    assert alice.code == (403, "forbidden")
    assert operator.status == 200


async def test_requests_of_one_key_have_a_bound_and_another_key_is_not_held_up(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    async with a_gateway(keys=path, bounds=GatewayBounds(requests_max=1)) as running:
        tenant = running.gateway.state.tenant("alice")
        with tenant.working():
            alice = await running.with_key(made["alice"]).get("/api/sessions")
            bob = await running.with_key(made["bob"]).get("/api/sessions")
        later = await running.with_key(made["alice"]).get("/api/sessions")

    assert alice.code == (429, "too_many")
    assert (bob.status, later.status) == (200, 200)


async def test_without_keys_sessions_of_tenants_are_neither_listed_nor_opened(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice")
    async with a_gateway(keys=path) as running:
        await running.with_key(made["alice"]).send("x", "hello")
        store = running.engine.store
        async with a_gateway(store=store) as plain:
            for key in ("!first", "Zed", "zed"):
                await plain.client.send(key, "hello")
            pages = [await plain.client.get(f"/api/sessions?limit=1&after={after}") for after in ("", "!first", "Zed")]
            opened = await plain.client.get("/api/sessions/@alice%2Fx")

    assert [page.body["sessions"][0]["key"] for page in pages] == ["!first", "Zed", "zed"]
    assert opened.code == (422, "invalid")


def test_no_key_of_one_tenant_is_one_of_another() -> None:
    alice, bob = Tenant("alice", GatewayBounds()), Tenant("bob", GatewayBounds())
    for key in ("x", "@bob/x", "../bob/x", "/x", "a/../../@bob/x"):
        assert bob.key_of(alice.store_key(key)) is None
        assert alice.key_of(alice.store_key(key)) == key


async def test_no_address_gives_one_tenant_anything_of_another_or_changes_it(tmp_path: Path) -> None:
    """Whatever is added to the table of addresses is tried here too."""
    path, made = keys(tmp_path, "alice", "bob")
    body = {"text": "hello", "to": "mine", "reply": 1, "call_id": "x", "parts": []}
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        await alice.send("only-alice", "remember harbour = Kiel")
        before = (await alice.get("/api/sessions/only-alice/records")).body
        for route in ROUTES:
            if "{key}" not in route.path or (route.method, route.path) == ("PUT", "/sessions/{key}"):
                continue
            address = route.path.replace("{sha256}", "0" * 64).replace("{turn}", "1").replace("{seq}", "1")
            tried = [
                await bob.ask(
                    route.method, f"{PREFIX}{address.replace('{key}', key)}", body if route.body is not None else None
                )
                for key in ("only-alice", "%40alice%2Fonly-alice", "@alice%2Fonly-alice")
            ]
            # A message to a key that nobody has begins a session: one's own.
            allowed = {200, 404, 422} if route.path.endswith("/messages") else {404, 422}
            assert {answer.status for answer in tried} <= allowed, route.path
            assert not any("Kiel" in str(answer.body) for answer in tried), route.path
        found = (await bob.get("/api/search?query=Kiel")).body
        after = (await alice.get("/api/sessions/only-alice/records")).body

    assert after == before
    assert "Kiel" not in str(found["hits"])
