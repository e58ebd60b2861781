"""Requests encoded in two dialects, decoded as JSON."""

import json
from typing import Any

import pytest

from holdfast.models.dialects import DIALECTS
from holdfast.types.messages import Request
from tests.models.conversations import (
    IMAGES,
)

OPENAI, ANTHROPIC = "openai-chat", "anthropic"
ISSUER = "anthropic:example.com:m"
both = pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC])


def encoded(dialect: str, request: Request, issuer: str = ISSUER, blobs: dict[str, bytes] | None = None) -> bytes:
    return DIALECTS[dialect].encode_request(request, "m", {**IMAGES, **(blobs or {})}, issuer)


def wire(dialect: str, request: Request, issuer: str = ISSUER, blobs: dict[str, bytes] | None = None) -> Any:
    return json.loads(encoded(dialect, request, issuer, blobs))
