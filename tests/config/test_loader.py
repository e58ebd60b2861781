"""Configuration loader: one schema, four sources, and errors with the closest name."""

import json
import tomllib
from pathlib import Path

import pytest

from holdfast.config.schema import Settings, all_settings, example, read_configuration, to_toml
from holdfast.errors import StoreIoError, UsageError
from tests.cli.programs import holdfast


def sources(path: Path | None = None, **environ: str) -> dict[str, tuple[object, str]]:
    found = read_configuration(path=path, environ={"XDG_CONFIG_HOME": "/nowhere", **environ}).found
    return {one.setting.name: (one.value, one.source) for one in found if one.source != "default"}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("elsewhere")
def test_nothing_set_is_the_default() -> None:
    assert sources() == {}
    assert read_configuration(environ={}).settings == Settings()


def test_flags_win_over_the_environment_that_over_the_file_that_over_the_default(elsewhere: Path) -> None:
    path = elsewhere / "holdfast.toml"
    path.write_text('store = "a.db"\n[gateway]\nport = 1\nhost = "::1"\n[bounds]\nsteps_max = 7\n')
    environ = {"HOLDFAST_GATEWAY_PORT": "2", "HOLDFAST_GATEWAY_HOST": "localhost", "HOLDFAST_MODEL": "sim, sim:x"}

    read = read_configuration(
        flags={"gateway.port": 3, "store": None}, assignments=["gateway.host=127.0.0.2"], environ=environ
    )

    found = {one.setting.name: (one.value, one.source) for one in read.found if one.source != "default"}
    assert found == {
        "store": ("a.db", "holdfast.toml"),
        "model": (("sim", "sim:x"), "HOLDFAST_MODEL"),
        "gateway.port": (3, "flag --port"),
        "gateway.host": ("127.0.0.2", "flag --set"),
        "bounds.steps_max": (7, "holdfast.toml"),
    }
    assert (read.settings.gateway.port, read.settings.bounds.steps_max, read.settings.model) == (3, 7, ("sim", "sim:x"))
    assert read.file is not None
    assert (read.file.path, read.file.scope.value) == (Path("holdfast.toml"), "project")


def test_the_file_is_the_one_that_is_named_else_one_that_is_there(elsewhere: Path) -> None:
    (elsewhere / "holdfast").mkdir()
    (elsewhere / "holdfast" / "holdfast.toml").write_text("[gateway]\nport = 5\n")
    named = elsewhere / "other.toml"
    named.write_text("[gateway]\nport = 6\n")

    at_home = read_configuration(environ={"XDG_CONFIG_HOME": str(elsewhere)})
    by_variable = read_configuration(environ={"HOLDFAST_CONFIG": str(named)})
    with pytest.raises(
        UsageError, match=r"no configuration at .*gone.toml; `holdfast config --init` prints an example"
    ):
        read_configuration(path=elsewhere / "gone.toml", environ={})

    assert (at_home.settings.gateway.port, by_variable.settings.gateway.port) == (5, 6)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[gatway]\nport = 1", r"no section \[gatway\]; did you mean 'gateway'\?"),
        ("[gateway]\nprot = 1", "no setting 'gateway.prot'; did you mean 'gateway.port'"),
        ("port = 1", "no setting 'port'; did you mean"),
        ("[gateway]\nport = 70000", r"gateway.port cannot be 70000 \(Expected `int` <= 65535\)"),
        ('[gateway]\nport = "x"', "gateway.port cannot be 'x'"),
        ("[bounds]\nsteps_max = -1", "bounds.steps_max cannot be -1; it must be a number of at least 0"),
        ('[bounds]\non_oversize = "panic"', "bounds.on_oversize cannot be 'panic'"),
        ("[deadlines]\nidle_seconds = nan", "deadlines.idle_seconds cannot be nan"),
        ("[gateway", "is not TOML"),
        ("x = 1\nx = 2", "is not TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_where_it_stands(elsewhere: Path, text: str, why: str) -> None:
    path = elsewhere / "holdfast.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=why) as caught:
        read_configuration(path=path, environ={})
    assert str(path) in str(caught.value)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("variable", ["HOLDFAST_CHROMIUM", "HOLDFAST_CORPUS"])
def test_a_variable_that_is_for_something_else_is_not_taken_for_a_mistyped_one(variable: str) -> None:
    assert read_configuration(environ={variable: "somewhere"}) == read_configuration(environ={})


@pytest.mark.usefixtures("elsewhere")
def test_what_is_wrong_elsewhere_is_told_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"GATEWAY_PROT is not a setting; did you mean HOLDFAST_GATEWAY_PORT\?"):
        sources(HOLDFAST_GATEWAY_PROT="1")
    with pytest.raises(UsageError, match=r"HOLDFAST_GATEWAY_PORT: gateway.port cannot be 'many'"):
        sources(HOLDFAST_GATEWAY_PORT="many")
    with pytest.raises(UsageError, match="--set takes NAME=VALUE"):
        read_configuration(assignments=["gateway.port"], environ={})
    with pytest.raises(UsageError, match=r"--set: there is no setting 'gateway.prt'; did you mean 'gateway.port'"):
        read_configuration(assignments=["gateway.prt=1"], environ={})
    (tmp_path / "long.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(UsageError, match="that is not a configuration"):
        sources(tmp_path / "long.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not TOML"):
        sources(tmp_path / "bytes.toml")


@pytest.mark.usefixtures("elsewhere")
def test_variables_of_others_and_empty_ones_are_left_alone() -> None:
    assert sources(HOLDFAST_CORPUS="x", HOLDFAST_ZEPPELIN="y", HOLDFAST_GATEWAY_PORT=" ", OTHER="z") == {}
    assert sources(HOLDFAST_LOG="warning") == {"observing.log": ("warning", "HOLDFAST_LOG")}


def test_a_file_that_cannot_be_read_is_the_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text("")

    def refuses(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuses)
    with pytest.raises(StoreIoError, match=r"cannot be read \(Permission denied\)"):
        read_configuration(path=path, environ={})


def test_every_setting_is_documented_and_has_a_variable_of_its_own() -> None:
    settings = all_settings()
    assert [one.name for one in settings if not one.description] == []
    assert len({one.variable for one in settings}) == len(settings)


def test_the_example_sets_nothing_and_says_everything() -> None:
    text = example()
    empty = {name: table for name, table in tomllib.loads(text).items() if table != {}}
    uncommented = "\n".join(
        line.removeprefix("# ") if " = " in line and line.startswith("# ") else line for line in text.splitlines()
    )

    assert empty == {}
    assert sum(len(one) if isinstance(one, dict) else 1 for one in tomllib.loads(uncommented).values()) == len(
        all_settings()
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ("a", '"a"'),
        (("a", "b"), '["a", "b"]'),
        (1.0, "1.0"),
        (0.5, "0.5"),
        (7, "7"),
        (10**6, "1_000_000"),
    ],
)
def test_values_are_shown_as_the_file_has_them(value: object, text: str) -> None:
    assert to_toml(value) == text


def test_the_command_shows_values_and_where_they_came_from(elsewhere: Path) -> None:
    settings = {"HOLDFAST_GATEWAY_PORT": "81", "XDG_CONFIG_HOME": str(elsewhere)}
    lines = holdfast("config", settings=settings).stdout.decode().splitlines()
    as_json = json.loads(holdfast("config", "--json", "--set", "system=Be brief.", settings=settings).stdout)
    wrong = holdfast("config", "--set", "gateway.prt=1", settings=settings)
    example_shown = holdfast("config", "--init", settings=settings).stdout.decode()

    assert next(line.split() for line in lines if line.startswith("gateway.port")) == [
        "gateway.port",
        "81",
        "HOLDFAST_GATEWAY_PORT",
        "serve,",
        "run,",
        "setup",
    ]
    by_name = {one["name"]: one for one in as_json}
    assert (by_name["system"]["value"], by_name["system"]["source"]) == ("Be brief.", "flag --set")
    assert wrong.returncode == 2
    assert b"did you mean 'gateway.port'?" in wrong.stderr
    assert example_shown.strip() == example().strip()
