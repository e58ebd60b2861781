"""The schema for people: an example to begin with, and a page of the docs."""

import textwrap
from itertools import groupby

import msgspec

from holdfast.config.reading import shown
from holdfast.config.schema import Setting, Settings, all_settings

_COLUMNS = 100


def example() -> str:
    """Return a file that sets nothing, with everything that can be set as a comment."""
    lines = ["# Holdfast. Everything here has the value it has anyway; take away a `#` to change one.", ""]
    for section, settings in groupby(all_settings(), key=lambda setting: setting.section):
        if section:
            lines += [f"[{section}]", *_wrapped(_section_told(section)), ""]
        for setting in settings:
            lines += [*_wrapped(setting.told), f"# {_field(setting)} = {shown(setting.default)}", ""]
    return "\n".join(lines)


def reference() -> str:
    """Return all settings as tables, for the docs."""
    lines: list[str] = []
    for section, settings in groupby(all_settings(), key=lambda setting: setting.section):
        lines += [f"### `[{section}]`" if section else "### At the top", ""]
        if section:
            lines += [_section_told(section), ""]
        lines += ["| name | default | what it is |", "|---|---|---|"]
        lines += [f"| `{_field(one)}` | `{shown(one.default)}` | {one.told} |" for one in settings]
        lines.append("")
    return "\n".join(lines).rstrip()


def _field(setting: Setting) -> str:
    return setting.name.rpartition(".")[2]


def _section_told(section: str) -> str:
    kind = next(field.type for field in msgspec.structs.fields(Settings) if field.name == section)
    return " ".join((kind.__doc__ or "").split())


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _COLUMNS, initial_indent="# ", subsequent_indent="# ")
