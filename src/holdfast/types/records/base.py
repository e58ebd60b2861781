"""What every record is."""

import msgspec


class Record(msgspec.Struct, frozen=True, tag=True, tag_field="type", omit_defaults=True):
    """One immutable fact."""
