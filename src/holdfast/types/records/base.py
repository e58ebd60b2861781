"""Base class of records."""

import msgspec


class Record(msgspec.Struct, frozen=True, tag=True, tag_field="type", omit_defaults=True):
    """One immutable fact in the log."""
