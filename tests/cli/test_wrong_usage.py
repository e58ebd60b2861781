"""What was typed wrongly ends with the code that the table of exit codes has for it, and a sentence that helps."""

from pathlib import Path

import pytest

from tests.cli.programs import holdfast

USAGE, IO_ERROR, TRY_LATER = 2, 74, 75
LISTS_SESSIONS = "there is no session 'nobody'; `holdfast sessions` lists all"
NEEDS_CORPUS = "this benchmark needs real transcripts: choose their folder with --corpus or HOLDFAST_CORPUS"
WRONG: list[tuple[str, int, str]] = [
    ("shwo", USAGE, "unknown command 'shwo'; did you mean 'show'? See `holdfast --help`."),
    ("show", USAGE, "Missing argument 'KEY'. See `holdfast show --help`."),
    *((f"{name} nobody", USAGE, LISTS_SESSIONS) for name in ("show", "view", "compact", "undo", "export", "cancel")),
    ("search nobody words", USAGE, LISTS_SESSIONS),
    ("search default", USAGE, "give a QUERY or --queries FILE, one of the two. See `holdfast search --help`."),
    ("show default --limit x", USAGE, "'x' is not a whole number. See `holdfast show --help`."),
    ("sessions more", USAGE, "Got unexpected extra argument (more). See `holdfast sessions --help`."),
    ("export default --out {folder}/none/x", IO_ERROR, "check that it exists and that you have access"),
    ("import {folder}/none", USAGE, "does not exist. See `holdfast import --help`."),
    ("import {text}", USAGE, "not a message of the neutral format"),
    ("prune", USAGE, "Missing option '--older-than'. See `holdfast prune --help`."),
    ("prune --older-than x", USAGE, "'x' is not a number. See `holdfast prune --help`."),
    ("prune --older-than -1", USAGE, "give a positive number"),
    ("doctor --store {folder}/none.db", USAGE, "`holdfast chat` creates one, or name another with --store"),
    ("doctor --store {text}", USAGE, "is not a database; choose another path, or move that file away"),
    ("backup {text}", USAGE, "already exists; choose a new path"),
    ("restore {folder}/none.db", USAGE, "does not exist. See `holdfast restore --help`."),
    ("keys remove bob", USAGE, "no key named 'bob'; keys: none"),
    ("keys add A!", USAGE, "use up to 32 lowercase letters"),
    ("config --set nope=1", USAGE, "there is no setting 'nope'; `holdfast config` lists them all"),
    ("config --config {folder}/none.toml", USAGE, "`holdfast config --init` prints an example"),
    ("serve --port 99999", USAGE, "is not in the range 0<=x<=65535. See `holdfast serve --help`."),
    ("serve --host 0.0.0.0", USAGE, "create one with `holdfast keys add NAME`, or listen on 127.0.0.1"),
    ("serve --model foo", USAGE, "Known are sim, openai:NAME"),
    ("chat --model openai:x hello", USAGE, "needs a key: set OPENAI_API_KEY"),
    ("chat --store postgresql://nobody@127.0.0.1:1/x hello", TRY_LATER, "check that the server runs"),
    ("classify {text}", USAGE, "correct or remove the line"),
    ("digest {folder}/none", USAGE, "does not exist. See `holdfast digest --help`."),
    ("sim --faults bogus", USAGE, "Known are: ok, 401"),
    ("crashlab --kills x", USAGE, "'x' is not a whole number. See `holdfast crashlab --help`."),
    ("completion tcsh", USAGE, "'bash', 'zsh', 'fish'"),
    ("bench nope", USAGE, "unknown command 'nope'; commands: all, adapters, archive, store"),
    *((f"bench {name}", USAGE, NEEDS_CORPUS) for name in ("masking", "recall", "digest", "view", "ledger", "prefix")),
    ("bench masking --corpus {folder}", USAGE, "choose another folder with --corpus"),
    ("bench faults --corpus {folder}", USAGE, "choose one with --corpus or HOLDFAST_CORPUS"),
    ("demo --seed x", USAGE, "'x' is not a whole number. See `holdfast demo --help`."),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    (made / "text").write_text("Dear reader, this is no database and no JSON.\n", "utf-8")
    assert holdfast("chat", "hello", "--store", made / "store.db").returncode == 0
    return made


@pytest.mark.parametrize(("typed", "code", "sentence"), WRONG, ids=[typed for typed, _, _ in WRONG])
def test_a_wrong_line_is_answered_with_its_code_and_what_to_do(
    typed: str, code: int, sentence: str, folder: Path
) -> None:
    words = typed.format(folder=folder, text=folder / "text").split()
    ended = holdfast(*words, settings={"HOLDFAST_STORE": str(folder / "store.db")})

    told = ended.stderr.decode()
    assert (ended.returncode, sentence in told) == (code, True), told
    assert told.count("\n") == 1, "one sentence is enough"


@pytest.mark.parametrize("typed", [(), ("keys",), ("bench",)])
def test_a_name_alone_is_answered_with_the_help_and_nothing_around_it(typed: tuple[str, ...]) -> None:
    alone, asked = holdfast(*typed), holdfast(*typed, "--help")
    assert (alone.returncode, alone.stdout, alone.stderr.strip()) == (USAGE, b"", asked.stdout.strip())
