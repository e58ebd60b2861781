"""The same conversation in every agent framework: 17 growing messages in a small window, over the transport."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import holdfast.blocking
import holdfast.http
from tests.adapters.frameworks import BASE_URL_ONLY, FRAMEWORKS, Talking, http
from tests.adapters.provider import CALLING, KNOWN, MESSAGES, RESULT, STREAMED, a_gateway, a_provider, growing_message

pytestmark = pytest.mark.adapter


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


INSTALLED = [name for name, (module, _) in FRAMEWORKS.items() if is_installed(module)]


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep frameworks, which their tests import, from fetching a list of models and from sending telemetry."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")


@pytest.fixture
def url() -> Iterator[str]:
    with a_provider() as provider:
        yield provider.url


async def talk(agent: Talking, answers: list[str], *, has_orphan: bool = False) -> None:
    """Send the 17 messages, and collect the answers."""
    for number in range(1, MESSAGES + 1):
        text = growing_message(number)
        answers.append(await (agent.stream(text) if number == STREAMED else agent.ask(text)))
        if has_orphan and number == 2:
            agent.orphan()


def test_the_frameworks_of_this_lane_are_installed() -> None:
    wanted = os.environ.get("ADAPTER_LANE", "")
    lanes = {"clients": ["langchain", "litellm", "dspy", "smolagents"], "adk": ["google-genai", "adk"]}
    expected = lanes.get(wanted, [wanted] if wanted else [])

    assert [name for name in INSTALLED if name in expected] == [name for name in expected if name in FRAMEWORKS]


# Pydantic AI rejects a prompt after an open tool call before it sends a request.
REJECTING = {"pydantic-ai"}
CASES = [(name, has) for name in INSTALLED for has in (False, True) if not (has and name in REJECTING)]


@pytest.mark.parametrize(("name", "has_orphan"), CASES)
async def test_seventeen_growing_messages_are_answered(url: str, name: str, *, has_orphan: bool) -> None:
    answers: list[str] = []
    with holdfast.blocking.open(":memory:") as client, ExitStack() as stack:
        served = stack.enter_context(a_gateway(url)) if name in BASE_URL_ONLY else url
        agent = FRAMEWORKS[name][1](holdfast.http.transport(client, upstream=url), served)

        await talk(agent, answers, has_orphan=has_orphan)

    assert len([one for one in answers if one]) == MESSAGES
    assert RESULT in answers[CALLING - 1]
    assert KNOWN in answers[-1]


@pytest.mark.parametrize("name", INSTALLED)
async def test_without_the_transport_the_conversation_fails(url: str, name: str) -> None:
    agent = FRAMEWORKS[name][1](http.HTTPTransport() if name in SYNC else http.AsyncHTTPTransport(), url)
    answers: list[str] = []

    with pytest.raises(Exception) as raised:  # noqa: PT011 - each framework has errors of its own
        await talk(agent, answers)

    assert 1 < len(answers) < MESSAGES
    print(f"{name}: {len(answers)} of {MESSAGES} without the transport ({type(raised.value).__name__})")  # noqa: T201


SYNC = {"litellm", "smolagents"}
