"""One configuration for every command: the store, models and limits of the file apply to all of them."""

import json
import subprocess
from pathlib import Path

import pytest

from holdfast.cli import COMMANDS
from holdfast.config import files
from holdfast.config.schema import all_settings, read_configuration
from holdfast.config.uses import commands_of, unused
from holdfast.errors import UsageError
from tests.cli.programs import DEADLINE_SECONDS, PROGRAM, environment

KEY = "telegram:42"


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder, with a home of its own."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    own = environment(HOME=str(home), XDG_CONFIG_HOME=str(home / "config"), **variables)
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=folder,
        env=own,
        input="",
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose file names a store with one session, which `chat` made."""
    folder = tmp_path_factory.mktemp("project") / "work"
    folder.mkdir()
    (folder / "holdfast.toml").write_text('store = "project.db"\nsystem = "Answer as a harbour master."\n')
    said = run(folder, "chat", "--session", KEY, "remember harbour = Kiel")
    assert said.returncode == 0, said.stderr
    return folder


# Every command with a store that can be run to its end here, each with what it prints only on the project's store.
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("sessions",), KEY),
        (("show", KEY), "harbour = Kiel"),
        (("view", KEY), "Answer as a harbour master."),
        (("search", KEY, "harbour"), "Kiel"),
        (("recall", KEY, "1"), ""),
        (("export", KEY), "harbour"),
        (("compact", KEY, "--preview"), ""),
        (("cancel", KEY), ""),
        (("prune", "--days", "9999"), ""),
        (("doctor",), "project.db"),
        (("backup", "{}.copy"), ""),
        (("keys", "list"), ""),
        (("usage",), ""),
        (("models", "sim"), ""),
    ],
)
def test_every_command_uses_the_store_of_the_file(
    project: Path, tmp_path: Path, arguments: tuple[str, ...], shown: str
) -> None:
    ended = run(project, *(part.format(tmp_path / "b") for part in arguments))

    assert "there is no" not in ended.stderr, ended.stderr
    assert shown in ended.stdout + ended.stderr
    # None of them made or used the store in the user's data folder.
    assert not list((project.parent / "home").rglob("*.db"))


def test_a_flag_wins_over_the_environment_and_that_over_the_file_for_reading_commands(project: Path) -> None:
    other = run(project, "sessions", HOLDFAST_STORE="other.db")
    flag = run(project, "sessions", "--store", "project.db", HOLDFAST_STORE="other.db")

    assert "no store at other.db" in other.stderr
    assert KEY in flag.stdout


def test_a_command_takes_a_file_by_its_name(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    named = run(elsewhere, "sessions", "--config", str(project / "holdfast.toml"))

    # The store is beside the file, not in the current folder.
    assert KEY in named.stdout, named.stderr


def test_chat_uses_model_and_limits_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "holdfast.toml").write_text('store = "a.db"\n[bounds]\nmessage_bytes_max = 20\n')
    refused = run(folder, "chat", "a message that is longer than twenty bytes")
    (folder / "holdfast.toml").write_text('store = "a.db"\nmodel = ["nonesuch:x"]\n')
    unknown = run(folder, "chat", "hello")

    assert (refused.returncode, unknown.returncode) == (2, 2)
    assert "20" in refused.stderr
    assert "nonesuch" in unknown.stderr


def test_config_tells_the_file_the_value_that_won_and_the_commands(project: Path) -> None:
    shown = run(project, "config", HOLDFAST_STORE="by-variable.db")
    rows = json.loads(run(project, "config", "--json", HOLDFAST_STORE="by-variable.db").stdout)
    for_setup = json.loads(run(project, "config", "--for", "setup", "--json").stdout)

    assert shown.stdout.splitlines()[:2] == ["file: holdfast.toml (project)", "store: by-variable.db"]
    (store,) = [row for row in rows if row["name"] == "store"]
    assert (store["source"], store["overridden"]) == ("HOLDFAST_STORE", ["holdfast.toml"])
    assert {"chat", "doctor", "backup", "serve"} <= set(store["commands"])
    assert [row["name"] for row in for_setup] == ["gateway.port"]


def test_values_that_no_command_uses_are_warnings(project: Path) -> None:
    user = project.parent / "home" / "config" / "holdfast"
    user.mkdir(parents=True, exist_ok=True)
    (user / "holdfast.toml").write_text("[gateway]\nport = 1\n")
    try:
        shown = run(project, "config", HOLDFAST_BASE_URL="http://127.0.0.1:1", HOLDFAST_QWERTZ="1")
    finally:
        (user / "holdfast.toml").unlink()

    assert shown.stderr.splitlines() == [
        f"warning: {user / 'holdfast.toml'} is not read, because holdfast.toml comes first",
        "warning: HOLDFAST_QWERTZ is set, and no command uses it; `holdfast config` lists the variables",
        "warning: base_url (HOLDFAST_BASE_URL) has no effect: every model is the simulated one",
    ]


def test_every_setting_is_used_by_a_command_that_exists() -> None:
    used = {setting.name: commands_of(setting.name) for setting in all_settings()}

    assert [name for name, commands in used.items() if not commands or not set(commands) <= set(COMMANDS)] == []


def test_the_file_of_the_machine_is_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "SYSTEM_FOLDER", tmp_path / "etc")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "holdfast.toml").write_text('store = "a.db"\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "user")}

    alone = read_configuration(environ=environ)
    (tmp_path / "user" / "holdfast").mkdir(parents=True)
    (tmp_path / "user" / "holdfast" / "holdfast.toml").write_text("")
    behind = read_configuration(environ=environ)

    # A relative path is below the folder of its file.
    assert alone.settings.store == str(tmp_path / "etc" / "a.db")
    assert (behind.settings.store, behind.file and behind.file.scope) == ("", files.Scope.USER)
    assert len(unused(behind, {})) == 1


@pytest.mark.parametrize(
    "line",
    [
        'base_url = "https://evil.example"',
        'store = "postgresql://evil.example/a"',
        'archive = "s3://evil/a"',
        '[upstream]\nanthropic_base_url = "https://evil.example"',
        '[upstream]\nopenai_key_variable = "AWS_SECRET_ACCESS_KEY"',
    ],
)
def test_a_file_of_a_downloaded_project_sends_no_keys_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holdfast.toml").write_text(line + "\n")

    with pytest.raises(UsageError, match=r"name it: --config holdfast.toml"):
        read_configuration(environ={})

    assert read_configuration(path=Path("holdfast.toml"), environ={}).file is not None
