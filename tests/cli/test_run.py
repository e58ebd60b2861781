"""`holdfast run` and `holdfast setup`, with agents of our own making and a provider in another process."""

import hashlib
import os
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from tests.cli.agents import make_agent, provider
from tests.cli.programs import holdfast, terminal


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with provider() as url:
        yield url


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def settings(home: Path, upstream: str = "", programs: Path | None = None, **more: str) -> dict[str, str]:
    found = {"HOME": str(home), "HOLDFAST_STORE": str(home / "store.db"), "HOLDFAST_GATEWAY_PORT": "1", **more}
    if upstream:
        found["ANTHROPIC_BASE_URL"] = upstream
    if programs is not None:
        found["PATH"] = f"{programs}:{os.environ['PATH']}"
    return found


def files_of(folder: Path) -> Mapping[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("store.db")
    }


def test_an_agent_speaks_through_the_gateway_and_its_exit_code_is_returned(home: Path, upstream: str) -> None:
    programs = make_agent(home / "bin", "claude", "print(send(sys.argv[1])); print(BASE); sys.exit(7)")
    before = files_of(home)
    ended = holdfast("run", "claude", "remember harbour = Kiel", settings=settings(home, upstream, programs))
    lines = ended.stdout.decode().splitlines()
    assert (ended.returncode, lines[0]) == (7, "I will remember that harbour = Kiel.")
    assert lines[1] != upstream
    told = ended.stderr.decode()
    assert re.fullmatch(r"holdfast: 1 messages, 0 rescues, 0 tokens saved, session dropin:\S+\n", told)
    assert files_of(home) == before


def test_the_store_has_the_session_that_the_status_line_names(home: Path, upstream: str) -> None:
    programs = make_agent(home / "bin", "claude", "send('remember harbour = Kiel')")
    chosen = settings(home, upstream, programs)
    status = msgspec.json.decode(holdfast("run", "--json", "claude", settings=chosen).stderr)
    found = holdfast("search", status["session"], "harbour", settings=chosen)
    assert b"harbour = Kiel" in found.stdout


def test_a_rescued_message_is_counted_with_the_tokens_it_saved(home: Path) -> None:
    with provider("--window", "2000", "--output", "200") as small:
        does = """
said = []
for number in range(8):
    said.append({"role": "user", "content": f"remember key{number} = value{number}. " + "The tide is high. " * 150})
    body = {"model": "model-1", "max_tokens": 100, "messages": said}
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "test-key"}
    request = urllib.request.Request(BASE + "/v1/messages", json.dumps(body).encode(), headers)
    said.append({"role": "assistant", "content": json.load(urllib.request.urlopen(request))["content"]})
"""
        programs = make_agent(home / "bin", "claude", does)
        ended = holdfast("run", "--json", "claude", settings=settings(home, small, programs))
    status = msgspec.json.decode(ended.stderr.splitlines()[-1])
    assert ended.returncode == 0
    assert status["messages"] == 8
    assert status["rescues"] >= 1
    assert status["tokens_saved"] > 500


def test_the_terminal_is_the_agents_own(home: Path, upstream: str) -> None:
    does = """
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
print(all(os.isatty(number) for number in range(3)), os.getpgrp() == os.tcgetpgrp(0), flush=True)
print("typed:", input(), flush=True)
print(send("remember harbour = Kiel"))
sys.exit(3)
"""
    programs = make_agent(home / "bin", "claude", does)
    with terminal("run", "claude", settings=settings(home, upstream, programs)) as screen:
        screen.until("True True")
        # The terminal sends the signal to everything in its foreground: the agent decides, and the gateway lives.
        screen.write("\x03")
        screen.until("interrupted")
        screen.write("hello\n")
        screen.until("typed: hello")
        screen.until("I will remember that harbour = Kiel.")
        screen.until("1 messages, 0 rescues")
        assert screen.end() == 3


def test_a_signal_is_forwarded_and_reported_as_shells_do(home: Path, upstream: str) -> None:
    programs = make_agent(home / "bin", "claude", "print('ready', flush=True); signal.pause()")
    with terminal("run", "claude", settings=settings(home, upstream, programs)) as screen:
        screen.until("ready")
        screen.program.send_signal(signal.SIGTERM)
        assert screen.end() == 128 + signal.SIGTERM


def test_a_gateway_that_dies_is_restarted_at_the_same_address(home: Path, upstream: str) -> None:
    does = """
send("remember harbour = Kiel")
began = time.monotonic()
os.kill(gateway(), signal.SIGKILL)
try:
    send("lost")
except (urllib.error.URLError, OSError) as error:
    print("error within a second:", time.monotonic() - began < 1)
print(until_answered("remember berth = 17"))
"""
    programs = make_agent(home / "bin", "claude", does)
    ended = holdfast("run", "claude", settings=settings(home, upstream, programs))
    assert ended.returncode == 0
    assert ended.stdout.decode().splitlines() == [
        "error within a second: True",
        "I will remember that berth = 17.",
    ]
    assert "the gateway was restarted 1 times" in ended.stderr.decode()


def test_a_running_gateway_is_joined(home: Path) -> None:
    programs = make_agent(home / "bin", "claude", "print(BASE)")
    with terminal("serve", "--port", "0", settings=settings(home)) as server:
        address = re.search(r"http://127\.0\.0\.1:(\d+)", server.until("API:"))
        assert address is not None
        chosen = {**settings(home, programs=programs), "HOLDFAST_GATEWAY_PORT": address[1]}
        assert holdfast("run", "claude", settings=chosen).stdout.decode() == f"{address[0]}\n"


def test_an_agents_own_addresses_become_upstreams_and_its_file_stays(home: Path) -> None:
    config = home / ".openclaw" / "openclaw.json"
    config.parent.mkdir()
    provider_ = {"baseUrl": "http://127.0.0.1:2/v1", "apiKey": "k", "api": "openai-completions"}
    config.write_bytes(msgspec.json.encode({"models": {"providers": {"local": provider_}}, "agents": {}}))
    before = files_of(home)
    shown = msgspec.json.decode(holdfast("run", "--explain", "--json", "openclaw", settings=settings(home)).stdout)
    assert shown["upstreams"] == {"openai": "http://127.0.0.1:2/v1"}
    assert shown["variables"] == {"OPENCLAW_CONFIG_PATH": "FOLDER/settings.json"}
    copied = msgspec.json.decode(shown["files"]["settings.json"])
    assert copied["models"]["providers"]["local"] == {**provider_, "baseUrl": "http://127.0.0.1:PORT/v1"}
    assert files_of(home) == before


def test_an_agent_that_cannot_be_redirected_is_not_started(home: Path) -> None:
    programs = make_agent(home / "bin", "gemini", "print('started')")
    ended = holdfast("run", "gemini", settings=settings(home, programs=programs))
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"set GEMINI_API_KEY" in ended.stderr


def test_a_program_that_is_not_installed_is_named(home: Path) -> None:
    ended = holdfast("run", "crush", settings={**settings(home), "PATH": str(home)})
    assert (ended.returncode, b"no program 'crush'" in ended.stderr) == (127, True)


def test_gateway_keys_are_not_bypassed(home: Path) -> None:
    programs = make_agent(home / "bin", "claude", "print('started')")
    chosen = settings(home, programs=programs)
    assert holdfast("keys", "add", "alice", settings=chosen).returncode == 0
    ended = holdfast("run", "claude", settings=chosen)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"gateway keys" in ended.stderr


def test_a_check_sends_one_message_with_the_agent(home: Path, upstream: str) -> None:
    programs = make_agent(home / "bin", "claude", "assert sys.argv[1] == '-p'; print(send(sys.argv[-1]))")
    chosen = settings(home, upstream, programs)
    ended = holdfast("run", "--check", "--json", "claude", settings=chosen)
    result = msgspec.json.decode(ended.stdout)
    assert (ended.returncode, result["is_answered"], result["calls"]) == (0, True, 1)
    make_agent(home / "bin", "claude", "print('not logged in'); sys.exit(1)")
    ended = holdfast("run", "--check", "claude", settings=chosen)
    assert ended.returncode == 1
    assert ended.stdout == b"Claude Code did not reach the gateway (exit code 1): not logged in\n"


def test_the_users_arguments_do_not_separate_a_message_from_its_option(home: Path, upstream: str) -> None:
    does = "assert sys.argv[-2] == '--message', sys.argv; assert '--no-git' in sys.argv; print(send(sys.argv[-1]))"
    programs = make_agent(home / "bin", "aider", f"BASE = os.environ['ANTHROPIC_API_BASE']\n{does}")
    chosen = settings(home, upstream, programs, ANTHROPIC_API_BASE=upstream)
    ended = holdfast("run", "--check", "--json", "aider", "--no-git", settings=chosen)
    assert (ended.returncode, msgspec.json.decode(ended.stdout)["is_answered"]) == (0, True)


# --- setup ---


def test_setup_changes_only_its_values_and_undo_restores_the_file_byte_for_byte(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"theme":"dark",  "env": {"OWN": "1"}}')
    path.chmod(0o640)
    own = path.read_bytes()
    chosen = settings(home, HOLDFAST_GATEWAY_PORT="8712")
    result = msgspec.json.decode(holdfast("setup", "claude", "--json", settings=chosen).stdout)
    changed = msgspec.json.decode(path.read_bytes())
    assert changed["theme"] == "dark"
    assert changed["env"]["OWN"] == "1"
    assert changed["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8712"
    assert Path(result["backup"]).read_bytes() == own
    assert path.stat().st_mode & 0o777 == 0o640
    assert b"already set up" in holdfast("setup", "claude", settings=chosen).stderr
    assert holdfast("setup", "claude", "--undo", settings=chosen).returncode == 0
    assert path.read_bytes() == own
    assert b"is not set up" in holdfast("setup", "claude", "--undo", settings=chosen).stderr


def test_undo_keeps_what_the_agent_changed_since(home: Path) -> None:
    chosen = settings(home, HOLDFAST_GATEWAY_PORT="8712")
    path = home / ".claude" / "settings.json"
    assert holdfast("setup", "claude", settings=chosen).returncode == 0
    changed = msgspec.json.decode(path.read_bytes())
    changed["env"]["ENABLE_TOOL_SEARCH"] = "auto"
    changed["theme"] = "dark"
    path.write_bytes(msgspec.json.encode(changed))
    assert holdfast("setup", "claude", "--undo", settings=chosen).returncode == 0
    assert msgspec.json.decode(path.read_bytes()) == {"env": {"ENABLE_TOOL_SEARCH": "auto"}, "theme": "dark"}


def test_setup_of_codex_keeps_its_other_lines_and_its_own_provider_for_undo(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    own = '# mine\nmodel = "m"\nmodel_provider = "own"\n\n[model_providers.own]\nbase_url = "http://127.0.0.1:2/v1"\n'
    path.write_text(own)
    chosen = settings(home, HOLDFAST_GATEWAY_PORT="8712")
    told = holdfast("setup", "codex", settings=chosen).stdout.decode()
    assert "holdfast serve --set upstream.openai_base_url=http://127.0.0.1:2/v1" in told
    shown = holdfast("run", "--explain", "--json", "codex", settings=chosen)
    assert msgspec.json.decode(shown.stdout)["upstreams"] == {"openai": "http://127.0.0.1:8712/v1"}
    path.write_text(path.read_text() + "# added since\n")
    assert holdfast("setup", "codex", "--undo", settings=chosen).returncode == 0
    assert path.read_text() == own + "# added since\n"


def test_setup_of_an_agent_without_a_file_prints_the_variables(home: Path) -> None:
    ended = holdfast("setup", "goose", settings=settings(home, HOLDFAST_GATEWAY_PORT="8712"))
    assert ended.returncode == 2
    assert b"export OPENAI_HOST=http://127.0.0.1:8712; export ANTHROPIC_HOST=http://127.0.0.1:8712" in ended.stderr
