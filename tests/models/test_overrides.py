"""Overrides file: it takes precedence over the tables, and mistakes are named."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.commands.models import models
from holdfast.errors import UsageError
from holdfast.models.catalogue import open_model
from holdfast.models.limits import DECLARED, NO_OVERRIDES, declared_limits, load_overrides, open_limits
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.learning import LEARNED_KEY
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.limits import Learned, Limits
from holdfast.types.records import LimitsLearned
from holdfast.wiring import model_overrides

FILE = """
[models."openai:gpt-5*"]
window_tokens = 100_000
output_tokens_max = 9
[models."openai:gpt-5.4"]
window_tokens = 200_000
[models."openai:*"]
media_count_max = 3
"""


def a_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(text)
    return path


def test_the_most_exact_name_that_sets_a_limit_counts(tmp_path: Path) -> None:
    overrides = load_overrides(a_file(tmp_path, FILE))
    assert overrides.overridden_limits("openai:gpt-5.4") == {
        "window_tokens": 200_000,
        "output_tokens_max": 9,
        "media_count_max": 3,
    }
    assert overrides.overridden_limits("openai:gpt-5-mini")["window_tokens"] == 100_000
    assert overrides.overridden_limits("anthropic:x") == {}


def test_the_file_wins_over_the_table_and_speaks_for_servers_of_ones_own_too(tmp_path: Path) -> None:
    overrides = load_overrides(a_file(tmp_path, FILE))
    official = open_model("openai:gpt-5.4", environ={"OPENAI_API_KEY": "k" * 9}, overrides=overrides)
    assert official.limits == Limits(200_000, 9, 50 * 2**20, 3)
    local = open_model("openai:my-model", base_url="http://box:8000/v1", environ={}, overrides=overrides)
    assert local.limits == Limits(media_count_max=3)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[models."openai:m"]\nwindow_token = 5', "unknown field 'window_token'; did you mean 'window_tokens'?"),
        ('[models."openai:m"]\nzzz = 5', "unknown field 'zzz'; known are window_tokens,"),
        ('[models."openai:m"]\nwindow_tokens = "5"', "window_tokens must be a whole number above 0, not '5'"),
        ('[models."openai:m"]\nwindow_tokens = 0', "must be a whole number above 0"),
        ('[models."openai:m"]\nwindow_tokens = true', "must be a whole number above 0"),
        ('[models."gpt-5"]\nwindow_tokens = 5', "such as openai:gpt-5"),
        ('[model."openai:m"]\nwindow_tokens = 5', "unknown top-level key 'model'"),
        ("models = 5", "models must be a table"),
        ('[models]\n"openai:m" = 5', "must be a table of limits"),
        ("[models", "is not TOML"),
        ("#" * (2**20 + 1), "more than 1,048,576 bytes"),
    ],
)
def test_a_slip_in_the_file_is_named_with_what_was_meant(tmp_path: Path, text: str, complaint: str) -> None:
    path = a_file(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_overrides(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_file_is_found_by_its_variable_or_in_the_config_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_MODELS", raising=False)
    assert model_overrides() == NO_OVERRIDES
    (tmp_path / "holdfast").mkdir()
    a_file(tmp_path / "holdfast", FILE)
    assert model_overrides().overridden_limits("openai:x") == {"media_count_max": 3}
    monkeypatch.setenv("HOLDFAST_MODELS", str(tmp_path / "nowhere.toml"))
    with pytest.raises(UsageError, match="cannot be read"):
        model_overrides()


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("llama3.1:8b", 131_072),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
        ("llama3:8b", 8_192),
        ("qwen/qwen3-coder:free", 262_144),
        ("qwen3:30b", 40_960),
        ("deepseek/deepseek-r1", 163_840),
        ("deepseek-r1-distill-llama3.1", 131_072),
        ("openai/gpt-oss-120b", 131_072),
        ("google/gemma-3-27b-it", 131_072),
        ("gemma-3-1b-it", 8_192),
        ("gpt-4o", None),
    ],
)
def test_an_open_model_is_known_by_its_name_on_any_server(name: str, window: int | None) -> None:
    assert open_limits(name).window_tokens == window
    assert open_model(f"openai:{name}", base_url="http://box/v1", environ={}).limits.window_tokens == window


def test_openais_models_are_the_same_in_both_of_its_dialects() -> None:
    assert declared_limits("responses:gpt-5.4") == declared_limits("openai:gpt-5.4") == DECLARED["openai:gpt-5.4"]


@pytest.mark.parametrize(
    ("environ", "key"),
    [
        ({"GEMINI_API_KEY": "gemini-key"}, "gemini-key"),
        ({"GOOGLE_API_KEY": "google-key", "GEMINI_API_KEY": "gemini-key"}, "google-key"),
    ],
)
def test_gemini_takes_its_key_from_either_variable(environ: dict[str, str], key: str) -> None:
    model = open_model("gemini:gemini-2.5-pro", environ=environ)
    assert model._key == key
    assert key not in repr(model)
    with pytest.raises(UsageError, match="set GOOGLE_API_KEY or GEMINI_API_KEY"):
        open_model("gemini:gemini-2.5-pro", environ={})


# --- the command -------------------------------------------------------------------------------------------------


async def taught(path: Path) -> None:
    store = SqliteStore(path, clock=SystemClock())
    for issuer, window in {
        "openai-chat:api.openai.com:gpt-4o": 90_000,
        "openai-chat:box:8000:my-model": 4_096,
        "scripted": 7,
    }.items():
        await store.admit(LEARNED_KEY, LimitsLearned(issuer, Learned(window_tokens=window)))
    await store.close()


async def test_the_command_tells_where_each_number_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MODELS", str(a_file(tmp_path, FILE + '[models."gemini:mine"]\nwindow_tokens = 11\n')))
    await taught(tmp_path / "s.db")
    told = await asyncio.to_thread(CliRunner().invoke, models, ["--json", "--store", str(tmp_path / "s.db")])
    assert told.exit_code == 0, told.output
    rows = {row["model"]: row["limits"] for row in map(json.loads, told.output.splitlines())}
    assert rows["openai:gpt-5.4"]["window_tokens"] == {"value": 200_000, "from": "override"}
    assert rows["openai:gpt-5.4"]["wire_bytes_max"] == {"value": 50 * 2**20, "from": "declared"}
    assert rows["gemini:mine"]["window_tokens"] == {"value": 11, "from": "override"}
    assert rows["openai-chat:api.openai.com:gpt-4o"] == {
        "window_tokens": {"value": 90_000, "from": "learned"},
        "output_tokens_max": {"value": 16_384, "from": "declared"},
        "wire_bytes_max": {"value": 50 * 2**20, "from": "declared"},
        "media_count_max": {"value": 3, "from": "override"},
    }
    assert rows["openai-chat:box:8000:my-model"]["window_tokens"] == {"value": 4_096, "from": "learned"}
    assert rows["scripted"] == {"window_tokens": {"value": 7, "from": "learned"}}


def test_the_command_prints_a_table_of_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "none.db"))
    monkeypatch.setenv("HOLDFAST_MODELS", str(a_file(tmp_path, FILE)))
    lines = CliRunner().invoke(models, ["GPT-5.4-mini"]).output.splitlines()
    limits = ["model", "window", "output", "bytes", "images", "bytes", "each", "pixels"]
    assert lines[0].split() == [*limits, "$", "in", "$", "cached", "$", "out", "$", "kept"]
    assert lines[1].split()[:3] == ["openai:gpt-5.4-mini", "100,000", "(override)"]
    assert len(lines) == 3
    assert lines[2].startswith("openai:gpt-5.4-mini: $ in, $ cached, $ out from copies of https://")
    assert "No model matches" in CliRunner().invoke(models, ["no-such"]).output


async def test_the_command_tells_the_evidence_of_learned_limits_and_forgets_them(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await taught(path)

    async def run(*words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, models, [*words, "--store", str(path)])

    lines = (await run("my-model")).output.splitlines()
    assert lines[2] == (
        "openai-chat:box:8000:my-model takes at most 4,096 tokens: an earlier version learned it and kept no evidence; "
        "the next large request tests it"
    )
    (row,) = (json.loads(line) for line in (await run("my-model", "--json")).output.splitlines())
    assert (row["claims"][0]["value"], row["claims"][0]["evidence"]) == (4_096, "inherited")
    assert (await run("forget", "openai:gpt-4o")).output == "forgotten: openai-chat:api.openai.com:gpt-4o\n"
    assert (await run("forget", "my-model", "--json")).output == '{"forgotten":"openai-chat:box:8000:my-model"}\n'
    assert "scripted" in str((await run("forget", "scripte")).exception)
    assert "models forget NAME" in str((await run("one", "two")).exception)
    assert "No model matches" in (await run("my-model")).output
