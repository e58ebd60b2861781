"""`holdfast keys` with roles, limits and rotation, and `holdfast usage`."""

import json
from pathlib import Path

import pytest

from holdfast.gateway.http.keys import KeyFile, Role
from holdfast.runtime.clock import SystemClock
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.accounts import KeyLimits, Saved, UsageLimits, UsageTotals
from holdfast.types.records import UsageRecorded
from tests.cli.programs import holdfast

USAGE = 2


def out(*arguments: str | Path) -> str:
    """Return what a command prints that succeeds."""
    ended = holdfast(*arguments)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def keys_of(store: Path) -> KeyFile:
    return KeyFile(store.with_name("store.db-keys"))


def test_a_key_is_made_changed_and_listed_with_its_limits(store: Path) -> None:
    made = out("keys", "--store", store, "add", "bob", "--usd-day", "5", "--rpm", "60", "--expires", "90d")
    assert keys_of(store).name_of(made.strip()) == "bob"
    told = out(
        *("keys", "--store", store, "change", "bob", "--rpm", "0", "--role", "read", "--comment", "the night shift"),
        *("--allow", "gpt-5*", "--model-limit", "gpt-5-pro:usd-day=1.5,concurrent=2"),
    )
    assert told == "changed bob: usd-day 5.0; gpt-5-pro: concurrent 2, usd-day 1.5; only gpt-5*\n"
    (key,) = keys_of(store).all()
    assert key.limits == KeyLimits(
        usd_per_day=5.0,
        models=("gpt-5*",),
        per_model={"gpt-5-pro": UsageLimits(concurrent_requests=2, usd_per_day=1.5)},
    )
    assert (key.role, key.comment) == (Role.READ, "the night shift")
    assert keys_of(store).name_of(made.strip()) == "bob"
    listed = out("keys", "--store", store, "list")
    assert "the night shift" in listed
    shown = json.loads(out("keys", "--store", store, "list", "--json"))
    assert (shown["name"], shown["role"], shown["limits"]["usd_per_day"]) == ("bob", "read", 5.0)
    assert "sha256" not in str(shown)


def test_limits_and_expiry_are_removed_again(store: Path) -> None:
    options = ("--usd-day", "5", "--allow", "deep", "--model-limit", "deep:rpm=1", "--expires", "1d")
    out("keys", "--store", store, "add", "bob", *options)
    cleared = ("--usd-day", "0", "--allow", "*", "--model-limit", "deep:", "--expires", "never")
    assert out("keys", "--store", store, "change", "bob", *cleared) == "changed bob: none\n"
    (key,) = keys_of(store).all()
    assert (key.limits, key.expires_at) == (KeyLimits(), 0.0)


def test_a_rotated_key_prints_its_new_secret_once(store: Path) -> None:
    old = out("keys", "--store", store, "add", "bob").strip()
    new = json.loads(out("keys", "--store", store, "rotate", "bob", "--overlap", "2d", "--json"))["key"]
    assert [keys_of(store).name_of(one) for one in (old, new)] == ["bob", "bob"]
    assert new not in keys_of(store).path.read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("change", "bob", "--expires", "soon"), "'soon' is not a time; use a number and s, m, h, d or w, as in 90d"),
        (("change", "bob", "--model-limit", "deep"), "--model-limit takes MODEL:NAME=NUMBER"),
        (("change", "bob", "--model-limit", "deep:speed=3"), "'speed' is not a limit; use one of rpm, tpm,"),
        (("change", "bob", "--model-limit", "deep:rpm=many"), "'many' is not a number"),
        (("change", "bob", "--model-limit", "deep:rpm=-1"), "Expected `int` >= 0"),
        (("change", "bob", "--comment", "x" * 201), "the comment has 201 characters, the limit is 200"),
        (("change", "eve", "--rpm", "1"), "no key named 'eve'; keys: bob"),
        (("rotate", "eve"), "no key named 'eve'; keys: bob"),
        (("add", "bob"), "`holdfast keys rotate` gives it a new secret"),
    ],
)
def test_a_wrong_option_is_a_sentence_and_changes_nothing(store: Path, options: tuple[str, ...], sentence: str) -> None:
    keys_of(store).add("bob")
    before = keys_of(store).path.read_bytes()
    ended = holdfast("keys", "--store", store, *options)
    assert ended.returncode == USAGE
    assert sentence in ended.stderr.decode()
    assert keys_of(store).path.read_bytes() == before


async def test_usage_is_printed_by_day_key_and_model(store: Path) -> None:
    logs = SqliteStore(store, clock=SystemClock())
    for name, model, totals in (
        ("alice", "deep", UsageTotals(2, 1, 2, 1_000, 400, 50, 0.25)),
        ("bob", "quick", UsageTotals(1, 0, 1, 10, 0, 5, 0.0, 1)),
    ):
        await logs.admit(f"holdfast:usage:{name}", UsageRecorded(model, totals))
    await logs.close()
    shown = out("usage", "--store", store).splitlines()
    assert shown[0].split() == [
        *("period", "key", "model", "requests", "limited", "calls", "input", "cached", "output", "US", "dollars")
    ]
    assert shown[1].split()[1:] == ["alice", "deep", "2", "1", "2", "1,000", "400", "50", "0.2500"]
    assert shown[2].split()[1:] == ["bob", "quick", "1", "0", "1", "10", "0", "5", "-"]
    assert shown[3] == "total: $0.2500, and 1 calls without a price"
    (only,) = json.loads(out("usage", "--store", store, "--key", "bob", "--json"))["rows"]
    assert (only["key"], only["input_tokens"], only["unpriced"]) == ("bob", 10, 1)


def test_a_store_without_usage_says_so(store: Path) -> None:
    out("chat", "--store", store, "hello")
    assert "`holdfast usage --session KEY` shows that of one session" in out("usage", "--store", store)


async def test_usage_without_the_changes_of_the_proxy_is_printed_with_losses(store: Path) -> None:
    logs = SqliteStore(store, clock=SystemClock())
    saved = Saved(3, 2, -1_000, 500, -20, -0.75, 0.5)
    await logs.admit(
        "holdfast:usage:bob", UsageRecorded("deep", UsageTotals(3, 0, 3, 5_000, 100, 90, 2.0, saved=saved))
    )
    await logs.admit("holdfast:usage:eve", UsageRecorded("free", UsageTotals(1, 0, 1, 50, unpriced=1, saved=Saved(1))))
    await logs.close()
    shown = out("usage", "--store", store).splitlines()
    place = shown.index("without the changes of the proxy, estimated:")
    rows = [line.split()[1:] for line in shown[place + 1 : -1]]
    assert rows == [
        ["key", "model", "changed", "rejected", "input", "cached", "output", "US", "dollars", "saved"],
        ["bob", "deep", "3", "2", "4,000", "600", "70", "1.2500", "-$0.7500"],
        ["eve", "free", "1", "0", "50", "0", "0", "-", "-"],
    ]
    assert shown[-1] == (
        "saved: -$0.7500; $0.5000 of the cost paid for summaries and for 2 answers to requests that the provider would "
        "have rejected"
    )
