"""A model with its own endpoint, key, headers and settings: `holdfast.Model`, usable in place of a model's name.

The key is never stored, shown or logged: it stays in this object, and goes into the headers of requests only.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from holdfast.core.limits.settings import checked_settings
from holdfast.errors import MissingKeyError, UsageError
from holdfast.types.settings import NO_SETTINGS, Settings

# A function is called before each request, so that a key may expire.
KeySource: TypeAlias = str | Callable[[], str | Awaitable[str]]

# Prefix of a key that is the name of an environment variable.
ENVIRONMENT = "env:"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# Headers that the transport writes.
_OWN_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})


class Model:
    """A model at an endpoint. Use it wherever the name of a model is accepted, so that fallbacks mix providers.

        holdfast.open(model=[
            holdfast.Model("openai:gpt-5", api_key="env:TEAM_KEY", settings=holdfast.Settings(effort="low")),
            holdfast.Model("anthropic:claude-sonnet-4-5", base_url="https://llm.example.com"),
        ])

    `api_key` is the key itself, "env:NAME" for an environment variable, or a function that returns the key and is
    called before each request; it may be async. Omitted, the key comes from the provider's usual variable; "" sends
    none. `headers` go with every request. `settings` apply to this model, above those of the client. `name` is the name
    in records and notices, by default the reference; two models with the same reference need different names.
    """

    def __init__(
        self,
        reference: str,
        *,
        base_url: str | None = None,
        api_key: KeySource | None = None,
        headers: Mapping[str, str] | None = None,
        settings: Settings = NO_SETTINGS,
        name: str = "",
    ) -> None:
        self.reference = reference
        self.name = name or reference
        self.base_url = base_url
        self.settings = checked_settings(settings)
        self._headers = _checked_headers(headers or {}, self.name)
        self._api_key = api_key

    def __repr__(self) -> str:
        place = f", base_url={self.base_url!r}" if self.base_url is not None else ""
        named = f", headers of {sorted(self._headers)}" if self._headers else ""
        return f"Model({self.name!r}{place}{named})"

    @property
    def headers(self) -> Mapping[str, str]:
        """The additional headers. They may hold secrets."""
        return self._headers

    def key(self, environ: Mapping[str, str]) -> "KeySource | None":
        """Return the key, or the function that returns it; None: the provider's usual variable."""
        key = self._api_key
        if not isinstance(key, str) or not key.startswith(ENVIRONMENT):
            return checked_key(key, f"the key of {self.name}") if isinstance(key, str) else key
        variable = key.removeprefix(ENVIRONMENT)
        found = environ.get(variable, "").strip()
        if not found:
            raise MissingKeyError(f"model {self.name!r} needs a key: set {variable}")
        return checked_key(found, variable)


def checked_key(key: str, source: str) -> str:
    """Return a key. Raises `UsageError` if it cannot be in a header."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{source} has characters that are invalid in a header; copy the key again")
    return key


def _checked_headers(headers: Mapping[str, str], name: str) -> dict[str, str]:
    for header, value in headers.items():
        if not _HEADER_NAME.fullmatch(header) or header.lower() in _OWN_HEADERS:
            raise UsageError(f"model {name!r}: {header[:80]!r} cannot be set as a header; leave it out")
        if not value.isascii() or not value.isprintable():
            raise UsageError(f"model {name!r}: the header {header} has characters that are invalid in a header")
    return {header.lower(): value for header, value in headers.items()}


async def read_key(source: KeySource) -> str:
    """Return the key of a source. A function's own errors pass through."""
    if isinstance(source, str):
        return source
    key = source()
    if inspect.isawaitable(key):
        key = await key
    return checked_key(key, "the key that the function returned")
