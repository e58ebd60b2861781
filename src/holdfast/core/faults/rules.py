"""A row of the classifier's tables: the words that mean one kind of fault, and the statuses under which they do."""

import msgspec

from holdfast.core.faults.kinds import FaultKind as K
from holdfast.core.faults.kinds import Unit
from holdfast.core.patterns import Pattern

Statuses = frozenset[int | None]


class Rule(msgspec.Struct, frozen=True):
    """One row: the kind, where `pattern` is found and `unless` is not. `statuses` None: any status."""

    kind: K
    pattern: Pattern
    unless: Pattern | None = None
    statuses: Statuses | None = None
    second: K | None = None
    # What the numbers count. None: the sentence has no numbers worth reading, or says itself what they count.
    unit: Unit | None = None
    has_numbers: bool = False


def rule(  # noqa: PLR0913 - a row of a table, its columns given by name
    kind: K,
    pattern: str,
    *,
    unless: str | None = None,
    statuses: Statuses | None = None,
    second: K | None = None,
    unit: Unit | None = None,
    has_numbers: bool = False,
) -> Rule:
    """Build a row from what its columns say."""
    return Rule(
        kind=kind,
        pattern=Pattern(pattern),
        unless=None if unless is None else Pattern(unless),
        statuses=statuses,
        second=second,
        unit=unit,
        has_numbers=has_numbers or unit is not None,
    )


ANYTHING = ""
NO_RESPONSE: Statuses = frozenset({None, 200})
# Statuses under which a call may have broken rather than been refused.
BROKEN: Statuses = frozenset({None, 200, 408, 409, 424, 425, 499, *range(500, 600)})
# Statuses under which a request was refused for what it is; some servers say so with a 5xx.
REFUSED: Statuses = frozenset({None, 200, 400, *range(403, 407), *range(409, 424), 500, 501, 502})
