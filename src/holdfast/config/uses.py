"""Which commands use a setting, and warnings about values that none uses."""

from collections.abc import Iterator, Mapping

from holdfast.config.schema import Configuration, Settings, known_variables

_STORE = (
    *("chat", "serve", "run", "rescue", "mcp", "models", "sessions", "show", "view", "search", "recall", "export"),
    *("import", "compact", "undo", "prune", "doctor", "backup", "restore", "exclude", "cancel", "keys", "usage"),
)
_MODELS = ("chat", "serve", "run", "view", "compact")
_GATEWAY = ("serve", "run")
# A name, or the beginning of names that ends in a full stop. The first match counts.
_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("store", _STORE),
    ("archive", tuple(command for command in _STORE if command != "keys")),
    ("models", (*_MODELS, "models")),
    ("model", _MODELS),
    ("base_url", _MODELS),
    ("system", ("chat", "serve", "run")),
    ("gateway.port", ("serve", "run", "setup")),
    ("gateway.keys_file", ("serve", "run", "keys")),
    ("gateway.", _GATEWAY),
    ("gateway_bounds.", _GATEWAY),
    ("engine.", _GATEWAY),
    ("retention.", _GATEWAY),
    ("upstream.", _GATEWAY),
    ("observing.", _GATEWAY),
    ("bounds.", _MODELS),
    ("deadlines.", _MODELS),
)


def commands_of(name: str) -> tuple[str, ...]:
    """Return the commands that use a setting."""
    return next((commands for row, commands in _ROWS if name == row or (row[-1] == "." and name.startswith(row))), ())


def unused(configuration: Configuration, environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each value that is set and that no command uses."""
    return [*_unread(configuration), *_unknown(environ), *_without_effect(configuration)]


def _unread(configuration: Configuration) -> Iterator[str]:
    file = configuration.file
    if file is not None:
        yield from (f"{path} is not read, because {file.path} comes first" for path in file.shadowed)


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    known = known_variables()
    for variable in sorted(environ):
        if variable.startswith("HOLDFAST_") and variable not in known:
            yield f"{variable} is set, and no command uses it; `holdfast config` lists the variables"


def _without_effect(configuration: Configuration) -> Iterator[str]:
    settings = configuration.settings
    given = {one.setting.name: one for one in configuration.found if one.source != "default"}
    for name, reason in _reasons(settings):
        if name in given and given[name].value:
            yield f"{name} ({given[name].source}) has no effect: {reason}"


def _reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield settings that have no effect beside the others, each with the reason."""
    upstream = settings.upstream
    if all(_is_simulated(reference) for reference in settings.model):
        yield "base_url", "every model is the simulated one"
    if settings.store == ":memory:":
        yield "archive", "the store is in memory"
    addresses = {
        "openai": upstream.openai_base_url,
        "anthropic": upstream.anthropic_base_url,
        "gemini": upstream.gemini_base_url,
    }
    for family, base_url in addresses.items():
        for field in ("key_variable", "fallbacks") if not base_url else ():
            yield f"upstream.{family}_{field}", f"upstream.{family}_base_url is empty"


def _is_simulated(reference: str) -> bool:
    return reference.partition(":")[0] == "sim"
