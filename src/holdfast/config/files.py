"""The configuration file: the named one, else the first that exists of project, user and system.

One file applies, not a merge of several, so that the file that `holdfast config` names tells everything. A file in the
current folder may be part of a downloaded project. It may choose limits and paths, and may not send keys or messages to
another machine, unless it is named.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import UsageError
from holdfast.gateway.http.origin import is_loopback

FILE_NAME = "holdfast.toml"
FILE_VARIABLE = "HOLDFAST_CONFIG"
# The file of the machine, for a service and for people without a file of their own.
SYSTEM_FOLDER = Path("/etc/holdfast")
# Settings that name a server to which keys or messages are sent.
_ADDRESSES = frozenset(
    {
        "store",
        "archive",
        "base_url",
        "upstream.openai_base_url",
        "upstream.anthropic_base_url",
        "upstream.gemini_base_url",
    }
)
# Settings that name a variable whose value is sent.
_KEY_VARIABLES = frozenset(
    {"upstream.openai_key_variable", "upstream.anthropic_key_variable", "upstream.gemini_key_variable"}
)
# Settings with a path, relative to the folder of the file.
_PATHS = frozenset({"store", "archive", "models", "gateway.keys_file", "gateway.tls_certificate", "gateway.tls_key"})


class Scope(StrEnum):
    """How a file was found."""

    NAMED = "named"
    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"


class ConfigurationFile(msgspec.Struct, frozen=True):
    """The file that applies, and those that exist behind it and are not read."""

    path: Path
    scope: Scope
    shadowed: tuple[Path, ...] = ()


def find_file(given: Path | None, environ: Mapping[str, str]) -> ConfigurationFile | None:
    """Return the configuration file: the given one, else the first that exists."""
    named = given or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if named is not None and not named.is_file():
        raise UsageError(f"there is no configuration at {named}; `holdfast config --init` prints an example")
    found = _existing_files(environ)
    if named is not None:
        others = tuple(path for path, _ in found if not path.samefile(named))
        return ConfigurationFile(named, Scope.NAMED, others)
    if not found:
        return None
    (path, scope), *rest = found
    return ConfigurationFile(path, scope, tuple(other for other, _ in rest))


def _existing_files(environ: Mapping[str, str]) -> list[tuple[Path, Scope]]:
    """Return the files that exist and may be read, the one that applies first."""
    home = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    places = (
        (Path(FILE_NAME), Scope.PROJECT),
        (home / "holdfast" / FILE_NAME, Scope.USER),
        (SYSTEM_FOLDER / FILE_NAME, Scope.SYSTEM),
    )
    return [(path, scope) for path, scope in places if _applies(path, scope)]


def _applies(path: Path, scope: Scope) -> bool:
    try:
        # A file of the machine that this user cannot read is meant for its service.
        return path.is_file() and (scope is not Scope.SYSTEM or os.access(path, os.R_OK))
    except PermissionError:
        return False


def value_in(file: ConfigurationFile, name: str, value: object) -> object:
    """Return a value of the file: a relative path is below its folder. Raises if the file may not set it."""
    if file.scope is Scope.PROJECT:
        _check_project(file.path, name, value)
    is_path = name in _PATHS and isinstance(value, str) and value and value != ":memory:" and "://" not in value
    return str(file.path.parent / Path(str(value)).expanduser()) if is_path else value


def _check_project(path: Path, name: str, value: object) -> None:
    is_remote = name in _ADDRESSES and isinstance(value, str) and "://" in value and not _is_local(value)
    if is_remote or (name in _KEY_VARIABLES and value):
        raise UsageError(
            f"{path}: a file that is only found in the current folder may not set {name} to {str(value)[:80]!r}, "
            f"because keys or messages would go there; if the file is yours, name it: --config {path} "
            f"or {FILE_VARIABLE}={path}"
        )


def _is_local(address: str) -> bool:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
