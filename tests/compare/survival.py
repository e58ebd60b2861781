"""Conversations that outgrow a small window, in the frameworks of this environment, alone and with Holdfast below.

`python -m tests.compare.survival` prints one JSON object per framework, scenario and side. A message that fails does
not end the conversation: the next one is sent, as a person would.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

# Before a framework is imported: no telemetry and no list of models from the network.
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

import holdfast.blocking
import holdfast.http
from tests.adapters.frameworks import BASE_URL_ONLY, FRAMEWORKS, Talking, http
from tests.adapters.provider import KNOWN, MESSAGES, WINDOW_TOKENS, a_gateway, a_provider, growing_message
from tests.adapters.test_frameworks import INSTALLED, SYNC

# The number of the message that is larger than the window, in the scenario "paste".
_PASTE = 4
_SHORT = "This is report {0}. Sounding {0} found sand."


def _overflow(_agent: Talking, number: int) -> str:
    return growing_message(number)


def _paste(_agent: Talking, number: int) -> str:
    if number in (1, MESSAGES):
        return growing_message(number)
    return _SHORT.format(number) + (" The log of the day says nothing new." * WINDOW_TOKENS if number == _PASTE else "")


def _orphan(agent: Talking, number: int) -> str:
    if number == _PASTE:
        agent.orphan()
    return growing_message(number) if number in (1, MESSAGES) else _SHORT.format(number)


SCENARIOS: Mapping[str, Callable[[Talking, int], str]] = {"overflow": _overflow, "paste": _paste, "orphan": _orphan}


async def talk(agent: Talking, scenario: str) -> tuple[int, bool]:
    """Send all messages; return how many were answered, and whether the fact of the first is known at the end."""
    answered, last = 0, ""
    for number in range(1, MESSAGES + 1):
        text = SCENARIOS[scenario](agent, number)
        try:
            last = await agent.ask(text)
        except Exception:  # noqa: BLE001 - each framework has errors of its own; a failed message counts as such
            last = ""
        answered += bool(last)
    return answered, KNOWN in last


async def run(name: str, scenario: str, *, with_holdfast: bool) -> Mapping[str, Any]:
    """Run one conversation against a provider of its own."""
    with a_provider() as provider, ExitStack() as stack:
        served, transport = provider.url, _direct(name)
        if with_holdfast:
            client = stack.enter_context(holdfast.blocking.open(":memory:"))
            transport = holdfast.http.transport(client, upstream=provider.url)
            served = stack.enter_context(a_gateway(provider.url)) if name in BASE_URL_ONLY else served
        answered, knows = await talk(FRAMEWORKS[name][1](transport, served), scenario)
    side = "with Holdfast" if with_holdfast else "alone"
    return {"framework": name, "scenario": scenario, "side": side, "answered": answered, "knows": knows}


def _direct(name: str) -> Any:
    return http.HTTPTransport() if name in SYNC else http.AsyncHTTPTransport()


def main() -> None:
    for name in INSTALLED:
        for scenario in SCENARIOS:
            for with_holdfast in (False, True):
                found = asyncio.run(run(name, scenario, with_holdfast=with_holdfast))
                sys.stdout.write(json.dumps(found) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
