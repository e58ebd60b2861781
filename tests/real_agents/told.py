"""Show what real agents are told of their context after a rescue: `python -m tests.real_agents.told [claude codex]`.

An agent grows a conversation to twice the model's window of 64,000 tokens behind a gateway, with its own compaction on:
once it is told a window of 1,000,000 tokens, as `holdfast run` tells it, once the model's own. Everything between the
agent and the gateway is recorded: the size of its requests as `count_tokens` of the gateway gives it, the usage that
the answers report, and the agent's own compactions. The columns show whether the agent compacts in a loop, and whether
it can see that its window is full.
"""

import json
import re
import shutil
import sys
import tempfile
import urllib.request
from itertools import pairwise
from pathlib import Path

from holdfast.core.proxy.client_profiles import COMPACTION_ORDER
from tests.real_agents.desk import WINDOW, Desk, gateway, provider, version
from tests.real_agents.recalled import Call, recorded

_PAGES = 7
_PAGE = "The tide table of the harbour lists high and low water for every day of the year. " * 750
_TOLD_USUALLY = 1_000_000
_MODEL_CALLS = ("/v1/messages", "/v1/responses")


def usage_told(call: Call) -> int:
    """Return the input tokens that an answer reports, cached ones included; 0 for an error."""
    found = [
        dict(re.findall(rb'"(\w*input_tokens)": ?(\d+)', one)) for one in re.findall(rb'"usage": ?\{[^}]*', call.answer)
    ]
    return max((sum(int(value) for value in one.values()) for one in found), default=0)


def counted(proxy: str, call: Call) -> int:
    """Return the tokens of a request as `count_tokens` of the gateway tells them."""
    asked = json.loads(call.body)
    asked = {name: asked[name] for name in ("model", "system", "messages", "tools") if name in asked}
    headers = {"x-api-key": "test-key", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    request = urllib.request.Request(f"{proxy}/v1/messages/count_tokens", json.dumps(asked).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return int(json.loads(answer.read())["input_tokens"])


def grown(name: str, window_told: int) -> str:
    """Grow a conversation, and return a row of the table."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-agents-", ignore_cleanup_errors=True) as folder,
        provider() as base,
    ):
        desk = Desk(name, Path(folder) / "home", base)
        desk.home.mkdir()
        desk.variables = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(window_told), "DISABLE_AUTO_COMPACT": "0"}
        with gateway(base, desk.home / "store.db") as proxy, recorded(proxy) as (address, calls):
            desk.prepare(address)
            for file in desk.agent.files:
                path = desk.home / file
                path.write_text(path.read_text().replace(str(_TOLD_USUALLY), str(window_told)))
            desk.say("remember harbour = Kiel", is_first=True)
            desk.say("remember berth = 17")
            ends = [len(calls)]
            for number in range(_PAGES):
                desk.say(f"Page {number} of the tide tables. {_PAGE}")
                ends.append(len(calls))
            known, last = desk.asked()
            asked = [one for one in calls if one.path.partition("?")[0].endswith(_MODEL_CALLS)]
            largest = max(asked, key=lambda one: len(one.body))
            size = f"{counted(proxy, largest):,}" if name == "claude" else f"about {len(largest.body) // 4:,}"
        orders = [COMPACTION_ORDER.search(one.body.decode(errors="replace")) is not None for one in calls]
        most = max(sum(orders[begin:end]) for begin, end in pairwise(ends))
        told = max(map(usage_told, asked))
        row = (
            f"{name} {version(name)} | {window_told:,} | {size} | {told:,} | {sum(orders)}, at most {most} per message"
        )
        return f"| {row} | {known} of 2{'' if known == 2 else f': {last}'} |\n"


def main(names: list[str]) -> int:
    """Print the table."""
    sys.stdout.write(f"The model's window: {WINDOW:,} tokens.\n\n")
    sys.stdout.write("| agent | told window | largest request, counted | most usage told | own compactions | facts |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for name in names or ["claude", "codex"]:
        for window_told in (_TOLD_USUALLY, WINDOW) if shutil.which(name) else ():
            sys.stdout.write(grown(name, window_told))
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
