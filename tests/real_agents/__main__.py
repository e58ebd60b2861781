"""Break sessions of real agents, rescue and resume them: `python -m tests.real_agents [AGENT|BREAKAGE|leave ...]`.

Each agent runs in a home folder of its own with the simulated model as its only provider. It makes a session with two
facts; a copy is broken in one of five ways; the agent is asked for the facts before and after `holdfast rescue
--in-place`. `leave`: the session outgrows the window behind a gateway, the gateway is switched off, and the agent is
asked before and after `holdfast rescue --leave`. The output is the tables of docs/rescue.md.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.real_agents.breakage import BREAKAGES, break_session, session_of
from tests.real_agents.desk import AGENTS, Desk, gateway, provider, rescue, version

# More than the window, in one message: it is refused, stays in the history, and is sent with every message.
_SENTENCE = "The tide table of the harbour lists high and low water for every day of the year. "
_PASTE = _SENTENCE * 5_000
# Six of these outgrow the window.
_PAGE = _SENTENCE * 750


def run_breakage(desk: Desk, how: str) -> tuple[str, str]:
    """Break, ask, rescue and ask again; return both results."""
    whole = desk.home.with_name(f"{desk.home.name}-whole")
    shutil.copytree(desk.home, whole, symlinks=True)
    try:
        if how == "overflow":
            desk.say(_PASTE)
        break_session_of(desk, how)
        broken = desk.home.with_name(f"{desk.home.name}-broken")
        shutil.copytree(desk.home, broken, symlinks=True)
        known, last = desk.asked()
        before = f"{known} of 2 facts: {last}"
        shutil.rmtree(desk.home)
        broken.rename(desk.home)
        rescued = rescue(desk)
        known, last = desk.asked()
        return before, f"{known} of 2 facts ({rescued})" if known == 2 else f"{known} of 2 facts: {last} ({rescued})"
    finally:
        shutil.rmtree(desk.home, ignore_errors=True)
        whole.rename(desk.home)


def break_session_of(desk: Desk, how: str) -> None:
    """Damage the newest session of a desk."""
    if how != "overflow":
        break_session(desk.name, session_of(desk.name, desk.home, str(desk.work)), how)


def leave(name: str) -> tuple[str, str]:
    """Grow a session beyond the window behind a gateway, switch the gateway off, and ask before and after leaving."""
    with tempfile.TemporaryDirectory(prefix="holdfast-agents-") as folder, provider() as base:
        desk = Desk(name, Path(folder) / "home", base)
        store = desk.home / "store.db"
        desk.home.mkdir()
        desk.variables = {"HOLDFAST_STORE": str(store)}
        with gateway(base, store) as proxy:
            desk.prepare(proxy)
            desk.say("remember harbour = Kiel", is_first=True)
            desk.say("remember berth = 17")
            for number in range(6):
                desk.say(f"Page {number} of the tide tables. {_PAGE}")
            known, last = desk.asked()
            behind = f"{known} of 2 facts behind the gateway" + ("" if known == 2 else f" ({last})")
        desk.prepare(base)
        broken = desk.home.with_name("broken")
        shutil.copytree(desk.home, broken, symlinks=True)
        known, last = desk.asked()
        before = f"{behind}; switched off: {known} of 2: {last}"
        shutil.rmtree(desk.home)
        broken.rename(desk.home)
        rescued = rescue(desk, "--leave")
        known, last = desk.asked()
        return before, f"{known} of 2 facts ({rescued})" + ("" if known == 2 else f": {last}")


def main(names: list[str]) -> int:
    """Run the agents that are installed, and print the table."""
    ways = [how for how in BREAKAGES if how in names]
    ways = ways or ([] if "leave" in names else list(BREAKAGES))
    chosen = [name for name in [name for name in names if name in AGENTS] or AGENTS if shutil.which(name)]
    sys.stdout.write("| agent | broken by | as it was | after `holdfast rescue` |\n|---|---|---|---|\n")
    for name in chosen:
        for how, (before, after) in run_ways(name, ways):
            sys.stdout.write(f"| {name} {version(name)} | {how} | {before} | {after} |\n")
            sys.stdout.flush()
        if "leave" in names:
            before, after = leave(name)
            sys.stdout.write(f"| {name} {version(name)} | gateway switched off | {before} | {after} |\n")
            sys.stdout.flush()
    return 0


def run_ways(name: str, ways: list[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the results of each way in which a session of an agent breaks."""
    if not ways:
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-agents-") as folder, provider() as base:
        desk = Desk(name, Path(folder) / "home", base)
        desk.prepare()
        desk.say("remember harbour = Kiel", is_first=True)
        desk.say("remember berth = 17")
        # The last line of a file is torn off below; it must not be a fact.
        desk.say("hello")
        for how in ways:
            yield how, run_breakage(desk, how)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
