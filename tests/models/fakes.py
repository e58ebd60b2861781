"""Helpers that send requests to the simulated model, by dialect."""

import json

import pytest

from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Request
from tests.models.conversations import IMAGES, reply_of, text_of_reply

OPENAI, ANTHROPIC, RESPONSES, GEMINI = "openai-chat", "anthropic", "openai-responses", "gemini"
both = pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC])
every = pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC, RESPONSES, GEMINI])
UNBOUNDED = Limits()


async def told(dialect: str, request: Request, simulation: Simulation | None = None) -> str:
    return text_of_reply(await reply_of(simulated_model(simulation or Simulation(), dialect), request, IMAGES))


def message_of(refusal: Refusal) -> str:
    message = json.loads(refusal.body)["error"]["message"]
    assert isinstance(message, str)
    return message
