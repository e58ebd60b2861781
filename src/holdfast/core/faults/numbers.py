"""Extract the limit and the requested size from a provider's message.

Numbers get their role from the words around them, not from their order: the nearest cue before a number, or the words
after it. Comparisons, sums and ranges are unambiguous and are parsed first.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Unit


class Stated(msgspec.Struct, frozen=True):
    """Numbers stated by a provider. `output` is the part of `requested` for the output."""

    limit: int | None = None
    requested: int | None = None
    output: int | None = None
    unit: Unit | None = None


class _Role(Enum):
    LIMIT = "limit"
    TOTAL = "total"
    PROMPT = "prompt"
    # Used so far: by this request, or before it if the request is listed separately.
    USED = "used"
    OUTPUT = "output"
    OVERSHOOT = "overshoot"


class _Number(msgspec.Struct, frozen=True):
    value: int
    role: _Role
    unit: Unit | None


def any_of(*alternatives: str) -> str:
    """Return a pattern that matches any of the alternatives."""
    return f"(?:{'|'.join(alternatives)})"


_DIGITS = r"(?:-?\d{1,3}(?:[,_]\d{3}){1,4}|-?\d{1,15}(?:\.\d{1,6})?)"
_SUFFIXES = "k|m|ki|mi|kb|mb|gb|kib|mib|gib|thousand|million|px|万"
# A number that is not part of a path, a version, a model name, a date or an index.
_BEFORE, _AFTER = r"(?<![\w.\-/#])(?<!\w\[)(?<!\d:)", r"(?![a-z\d])(?!\.\d|[-:/]\d)"
_N = f"{_BEFORE}({_DIGITS}(?: ?(?:{_SUFFIXES}))?){_AFTER}"
_NUMBER = Pattern(f"{_BEFORE}({_DIGITS}(?: ?({_SUFFIXES}))?){_AFTER}")
_SCALE = {
    "k": 1_000,
    "thousand": 1_000,
    "万": 10_000,
    "million": 1_000_000,
    "ki": 2**10,
    "mi": 2**20,
    "m": 1_000_000,
    # Providers that mean 1,048,576 print the bytes; "MB" mostly means a million.
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}

# --- Comparisons, sums and ranges ---

_WORDS = r"(?:[ -][a-z()_]+){0,4}"
_OVER = any_of(
    r">=?|≥|/|vs\.?|(?:would |will |which |that )?exceeds?|exceeded|超过了?|超出",
    r"(?:is |are )?(?:greater|larger|longer|more|bigger) than",
    r"(?:(?:goe?s?|is|are) )?(?:over|past|beyond|above)(?![a-z])",
    r"is not (?:less|smaller)(?: than)? or equal to",
    r"(?:must|should|can) ?(?:be|not) (?:<=?|less than|smaller than|lower than|exceed)",
)
# Text allowed between a comparison and its right side: no number, no new sentence, and no "by", which gives a distance.
_UP_TO_LIMIT = r"(?: ?or equal to)?(?:(?! by )[^.;,\d]){0,60}?"
_PLUS = r"(?: ?\+ ?| plus )(?:[a-z_]+ ){0,3}\(?"
_SUM = Pattern(rf"{_N}\)?{_WORDS}{_PLUS}{_N}\)?,?{_WORDS} ?{_OVER}{_UP_TO_LIMIT}{_N}")
# "9000 prompt tokens and max_tokens (512) exceed 8192": the requested output is named as such.
_OUTPUT_TOO = r",? and (?:a |your |the )?(?:max|output|completion|requested)[a-z_ ]{0,24}\(?"
_SUM_IN_WORDS = Pattern(rf"{_N}\)?{_WORDS}{_OUTPUT_TOO}{_N}\)?,?{_WORDS} ?{_OVER}{_UP_TO_LIMIT}{_N}")
_DIFFERENCE = Pattern(rf"{_N} > {_N} - {_N}")
_COMPARISON = Pattern(rf"{_N}\)?{_WORDS},? ?\)?{_OVER}{_UP_TO_LIMIT}{_N}")
# "n_ctx 8192 < 9000 tokens"; with two such signs it is a range.
_LESS = Pattern(rf"^[^<]*?{_N}\)?{_WORDS} ?<=? ?[^.;,<\d]{{0,30}}?{_N}[^<]*$")
# "140123/131072" is a path or a date unless tokens are counted.
_RATIO = Pattern(r"(?<![\w/.,-])(\d{3,12})(?:/| (?:out )?of (?:the )?)(\d{3,12})(?![\w/])")
_BRACKETS = Pattern(
    r"(?:range|between|should be|must be|shoule be|within)[^.;]{0,40}?[\[(] ?"
    rf"({_DIGITS}), ?({_DIGITS}) ?([\])])"
)
_FROM_TO = Pattern(rf"(?:between|from) {_N}(?: \(?inclusive\)?)? (?:and|to) {_N}( \(exclusive\))?")
# "Context length 8192 exceeded: got 9000".
_TURNED = Pattern(r"exceeded\W{0,3}(?:[a-z]{1,20} ){0,2}(?:got|received|requested|given|sent|with|at|\(|:) ?\(?\d")
# Comparison words that may give the distance instead; with "be" before them the number is too small.
_FURTHER = Pattern(r"(?<![a-z])(?<!be )(?:over|past|beyond|above|more than|longer than|larger than)(?![a-z])")
# "The limit of 50000 exceeded" states a limit on the left of the comparison.
_LIMIT_BEFORE = Pattern(r"(?:limit(?: is| of|:)?|window of) ?\(?$")

# --- Words around a number ---

_LIMIT_WORDS = any_of(
    r"max(?:imum)?\w*|limit\w*|at most|up to|no more than|not exceed|cannot exceed",
    r"exceed(?:s|ed)?(?= ?$)|over(?: the|(?= ?$))",
    r"(?:less|fewer|smaller|lower|shorter|larger|longer|greater|more) than|below|within|under|<=?|≤|>=?(?= ?$)|≥",
    r"must be|should be|(?:must|should) (?:be|have) at least|only|afford|allow\w*|supports?|accepts?",
    r"(?:reduced?|shorten(?:ed)?|cut|truncated?|trim(?:med)?)(?: it| them| (?:the|your) \w+)? to",
    # A size stated of the model itself is its limit.
    r"models? (?:[a-z]+ ){1,4}is(?= ?$)|(?:window|context|model|slot) (?:only )?(?:has|holds|takes|fits)(?= ?$)",
    r"window|context|(?:n_)?ctx|capacity|ceiling|budget(?!_)|cap of|quotavalue|truncation length",
    r"available(?=\W{0,3}$)|(?:this|the|your) model(?= ?\($)",
    r"最大|最多|上限|限制|不能超过|不得超过|不超过|不可超过|超过了?|超出|小于|不大于|低于",
)
_ASKED_WORDS = any_of(
    r"request(?:ed|ing)(?: about| up to| a total of)?|(?:request|prompt|messages|you) (?:has |have )?used",
    r"contain(?:s|ed|ing)?(?: at least| about)?|result(?:ed|ing|s) in|needs?|require[sd]?|takes?|estimated|projected",
    r"keep the first|(?<!maximum )(?<!max )(?<!allowed )number of (?:prompt|input) tokens",
    r"got|given|rec(?:ei|ie)v(?:ed|ing)|found|provid(?:ed|ing)|suppl(?:ied|ying)|passed|sent|specified|actual\w*|current\w*",
    r"has|have|was|were|you|whereas|too (?:long|large|big|high|many)|value of|value|(?:not|with)(?= ?$)",
    r"prompt=|prompt_tokens=|n_keep|实际|当前|传入|输入了|共有?|现有|请求了",
)
# Weak cues count only without a stronger one before the number: "maximum input length" is a limit.
_ASKED_WEAK_WORDS = any_of(
    r"prompt|inputs?|messages?|request|texts?|total|count|length|size|tokens?|dimensions?|height|width",
    r"(?:is|of|for)(?= ?$)|输入|长度|请求",
)
# These only count right before a number.
_IGNORED_WORDS = any_of(
    r"index|position|lines?|code|status|http|errors?(?! ?:)|version|(?<!_)ids?|port|level|tier|current batch size",
    r"smallest|min(?:imum)?",
    r"leaves?|keep=|new=|remain\w*|retry|retries|reset\w*|after|in|on|at",
)
_CUE = Pattern(
    rf"(?<![a-z])(?:(?P<overshoot>(?<!divisible )by(?=(?: about| around| approximately)?\W{{0,2}}$))"
    rf"|(?P<used>used(?=\W{{0,4}}$))"
    rf"|(?P<asked>{_ASKED_WORDS})"
    rf"|(?P<limit>{_LIMIT_WORDS})|(?P<ignored>{_IGNORED_WORDS}(?=\W{{0,4}}(?:is |of )?$)))(?![a-z])"
)
_WEAK_CUE = Pattern(rf"(?<![a-z]){_ASKED_WEAK_WORDS}(?![a-z])")
_OUTPUT_BEFORE = Pattern(
    r"(?:max_?(?:new_?|completion_?|output_?)?tokens|output tokens|num_predict)\W*(?:is too large)?\W*$"
    r"|max_(?:new_|completion_|output_)?tokens (?:is|set to) $"
)
_OUTPUT_AFTER = Pattern(
    r"^\W{0,2}(?:tokens )?(?:(?:in|for|of|as) )?(?:the |your )?(?:requested )?"
    r"(?:output|completion|max_(?:new_|completion_|output_)?tokens|generat\w+|draft)"
)
_PROMPT_AFTER = Pattern(
    r"^\W{0,2}(?:tokens )?(?:(?:in|of|from|for) )?(?:the |your )?(?:text |tool |image )?"
    r"(?:inputs?|prompt|messages|functions|tools|context)\b(?![^\w,]{0,3}\d)"
)
_LIMIT_AFTER = Pattern(
    r"^[ -]?\(?(?:tokens?|bytes?|characters?|chars|items?|messages?|tools?|images?|pages?)?\)?[ -]?(?:token |per \w+ )?"
    r"(?:max(?:imum)?\b(?![a-z_ ]{0,30}\W{0,3}\d)|limit(?!\W{0,2}\d)|context|window"
    r"|(?:allowed|available|at most)\b(?!\W{0,2}\d)|or (?:less|fewer)|的?(?:上限|限制))"
)
_ASKED_AFTER = Pattern(
    r"^ ?(?:[a-z]+ ){0,2}(?:(?:was|were|are|is) )?"
    r"(?:provided|given|received|sent|found|supplied|requested|used|present|needed|required)\b(?![^\w,]{0,3}\d)"
    r"|^ request(?=[;,)])"
)
# In "(9000 tokens, limit 8192)" the bracket or the complaint before it makes the first number the requested size.
_BOUND_NEXT = Pattern(r"^ ?(?:tokens?|bytes|characters)?, ?(?:n_)?(?:ctx|limit|max\w*|window|context)[^.;\d]{0,20}\d")
_OPENING = Pattern(r"(?:\(|exceeded: ?|too (?:long|large|big|many): ?)$")
_TIME_AFTER = Pattern(
    r"^[ -]?(?:seconds?|secs?|ms|milliseconds?|minutes?|mins?|hours?|days?|months?|%|percent|秒|分钟)(?![a-z])"
)
_UNIT_AFTER = (
    (Pattern(r"^\W{0,2}(?:\w+ ){0,2}tokens?\b|^ ?个? ?tokens?"), Unit.TOKENS),
    (Pattern(r"^ ?\(?(?:characters?|chars?)\b|^ ?个?字符|^ ?个?字"), Unit.CHARS),
    (Pattern(r"^ ?\(?bytes?\b|^ ?b\b|^ ?字节"), Unit.BYTES),
    (Pattern(r"^ ?\(?(?:pixels?|px)\b|^ ?像素"), Unit.PIXELS),
    (
        Pattern(
            r"^[ -]?(?:\w+ )?(?:images?|pages?|items?|messages?|tools?|files?|documents?)"
            r"|^ ?(?:\w+ )?(?:texts|blocks|elements|requests?)\b|^ ?(?:张|页|个)"
        ),
        Unit.COUNT,
    ),
)
# A sentence end resets the cues; the last two are the Chinese full stop and semicolon.
_SENTENCE_END = Pattern("[.!?] |[;\u3002\uff1b]")

# Field names under which servers state the two numbers.
_LIMIT_FIELD = Pattern(
    r"^nctx$|^quotavalue$|^max.+(?:tokens?|len(?:gth)?$|length|context|allowed|size)|^(?:model|context)(?:len(?:gth)?$|length|window|size|limit)|limit$"
)
_ASKED_FIELD = Pattern(
    r"^n?(?:prompt|input|requested|required|total|seq|sequence)(?:tokens?|len|length)$|^requested$|^actual|^tokencount$"
)
# Ambiguous names: they count only if the other number is stated as well.
_LIMIT_FIELD_WEAK = Pattern(
    r"^max(?:imum)?(?:tokens|size|value|count|bytes|chars)?$|^limit(?:tokens|bytes)$|^(?:allowed|available|capacity)(?:tokens)?$"
)
_ASKED_FIELD_WEAK = Pattern(
    r"^(?:n|num)?(?:prompt|input|request|estimated|current|provided|received|sent|used|total)?(?:input|prompt)?"
    r"(?:tokens?|size|length|bytes)(?:count|used)?$|^(?:estimated|current|provided|received|sent|used|given|got|total)$"
)

# The largest context window is ten million today; above a billion it is an id or a time.
_TOKENS_MAX = 1_000_000_000
_LEFT_CHARS, _RIGHT_CHARS = 70, 40


def stated(text: str, fields: Mapping[str, int], unit: Unit | None) -> Stated:
    """Extract the numbers of one sentence. `unit` is the unit of the fault's kind; None takes it from the words."""
    # Comparisons are the most reliable, then named fields, then cues.
    found = _from_comparison(text, unit)
    for other in (_from_fields(fields, unit), _from_cues(text, unit)):
        found = Stated(
            limit=found.limit if found.limit is not None else other.limit,
            requested=found.requested if found.requested is not None else other.requested,
            output=found.output if found.output is not None else other.output,
            unit=found.unit or other.unit,
        )
    return found


def _from_fields(fields: Mapping[str, int], unit: Unit | None) -> Stated:
    """Read the two numbers from named fields."""
    limit, requested = _first(fields, _LIMIT_FIELD), _first(fields, _ASKED_FIELD)
    if limit is None or requested is None:
        pair = (limit or _first(fields, _LIMIT_FIELD_WEAK), requested or _first(fields, _ASKED_FIELD_WEAK))
        if None not in pair:
            limit, requested = pair
    return Stated(limit=limit, requested=requested, unit=unit)


def _first(fields: Mapping[str, int], names: Pattern) -> int | None:
    return next((value for name, value in fields.items() if names.search(name) and 0 < value < _TOKENS_MAX), None)


def _value(number: str) -> int:
    """Return the value of a number with or without a suffix."""
    digits = number.rstrip("abcdefghijklmnopqrstuvwxyz 万")
    return int(float(digits.replace(",", "").replace("_", "")) * _SCALE.get(number[len(digits) :].strip(), 1))


def _from_comparison(text: str, unit: Unit | None) -> Stated:
    """Read "a + b > c", "a > b - c", "a > b" and ranges; the first form that matches counts."""
    forms = (_sum, _difference, _comparison, _less, _ratio, _range)
    return next((found for form in forms if (found := form(text, unit)) is not None), Stated())


def _sum(text: str, unit: Unit | None) -> Stated | None:
    match = _SUM.search(text) or _SUM_IN_WORDS.search(text)
    if match is None:
        return None
    prompt, output, limit = (_value(one) for one in match.groups())
    is_output = "max_tokens" in text or "output" in text or "completion" in text
    return Stated(limit, prompt + output, output if is_output else None, _unit_near(text, match.end(), unit))


def _difference(text: str, unit: Unit | None) -> Stated | None:
    match = _DIFFERENCE.search(text)
    if match is None:
        return None
    output, limit, prompt = (_value(one) for one in match.groups())
    return Stated(limit, prompt + output, output, unit)


def _comparison(text: str, unit: Unit | None) -> Stated | None:
    match = _COMPARISON.search(text)
    if match is None or (unit is Unit.TOKENS and _unit_near(text, match.end(), None) is Unit.CHARS):
        # A comparison in characters is a rough estimate next to the token counts.
        return None
    left, right = (_value(one) for one in match.groups())
    if ">" not in match[0] and _LIMIT_BEFORE.search(text[: match.start()]):
        return Stated(left, right, None, _unit_near(text, match.end(), unit)) if right > left else None
    if _OUTPUT_AFTER.match(text[match.end(1) : match.end()]):
        return Stated(right, None, left, unit)
    found = _unit_near(text, match.end(), unit) or _unit_near(text, match.end(1), unit)
    return Stated(right, left, None, found) if left >= right else _smaller_left(match[0], left, right, unit, found)


def _smaller_left(comparison: str, left: int, right: int, unit: Unit | None, found: Unit | None) -> Stated:
    """Read a comparison whose left side is smaller than the limit that it is said to exceed."""
    if "exceed" in comparison:
        # The left side is a part of the requested size, or the two sides are swapped.
        return Stated(left, right, None, unit) if _TURNED.search(comparison) else Stated(right, unit=unit)
    # "808 tokens over the limit of 8192" gives the distance.
    return Stated(right, left + right if _FURTHER.search(comparison) else left, None, found)


def _less(text: str, unit: Unit | None) -> Stated | None:
    match = _LESS.search(text) if unit is Unit.TOKENS else None
    if match is None:
        return None
    limit, requested = (_value(one) for one in match.groups())
    return Stated(limit, requested, None, unit) if 1 < limit < requested else None


def _ratio(text: str, unit: Unit | None) -> Stated | None:
    match = _RATIO.search(text) if unit is Unit.TOKENS else None
    return None if match is None else Stated(limit=int(match[2]), requested=int(match[1]), unit=unit)


def _range(text: str, unit: Unit | None) -> Stated | None:
    if match := _BRACKETS.search(text):
        # "[1, 1025)" excludes its right side; round brackets on both sides are not meant that precisely.
        is_open = match[3] == ")" and "[" in match[0]
    elif match := _FROM_TO.search(text):
        is_open = match[3] is not None
    else:
        return None
    return Stated(limit=_value(match[2]) - is_open, unit=_unit_near(text, match.end(), unit))


def _from_cues(text: str, unit: Unit | None) -> Stated:
    """Read numbers by the words around them."""
    numbers = [one for one in _roles(text) if unit is None or one.unit is None or one.unit is unit]
    # Messages often state the remaining tokens as well, which are 0 if the request was too large.
    limit = next((value for value in _values(numbers, _Role.LIMIT) if value > 0), None)
    output = next(_values(numbers, _Role.OUTPUT), None)
    return Stated(limit, _requested(numbers, limit, output), output, unit or _unit_in(numbers))


def _requested(numbers: list[_Number], limit: int | None, output: int | None) -> int | None:
    totals = list(_values(numbers, _Role.TOTAL))
    # Messages often repeat the prompt's size.
    parts = set(_values(numbers, _Role.PROMPT))
    over = next((total for total in totals if limit is not None and total > limit), None)
    if over is not None:
        return over
    if parts:
        return sum(parts) + (output or 0)
    overshoot = next(_values(numbers, _Role.OVERSHOOT), None)
    if limit is not None and overshoot is not None:
        return limit + overshoot
    return totals[0] if totals else next(_values(numbers, _Role.USED), None)


def _values(numbers: list[_Number], role: _Role) -> Iterator[int]:
    return (one.value for one in numbers if one.role is role)


def _unit_in(numbers: list[_Number]) -> Unit | None:
    return next((one.unit for one in numbers if one.unit is not None and one.role is not _Role.OVERSHOOT), None)


def _roles(text: str) -> Iterator[_Number]:
    """Assign a role to each number; numbers without a cue are skipped."""
    start = 0
    for match in _NUMBER.finditer(text):
        before = text[max(start, match.start() - _LEFT_CHARS) : match.start()]
        before = _SENTENCE_END.split(before)[-1]
        after = text[match.end() : match.end() + _RIGHT_CHARS]
        start = match.end()
        role = None if _TIME_AFTER.match(after) else _role(before, after)
        value = _value(match[1])
        if role is not None and value < _TOKENS_MAX:
            yield _Number(value, role, _unit_of(match[2], after))


def _role(before: str, after: str) -> _Role | None:
    cues = list(_CUE.finditer(before))
    cue = cues[-1].lastgroup if cues else None
    role = _explicit_role(cue, before, after)
    return role if role is not None or cue == "ignored" else _implied_role(cue, before, after)


def _explicit_role(cue: str | None, before: str, after: str) -> _Role | None:
    if cue == "overshoot":
        return _Role.OVERSHOOT
    if _OUTPUT_BEFORE.search(before):
        return _Role.OUTPUT
    if _ASKED_AFTER.match(after) or (_OPENING.search(before) and _BOUND_NEXT.match(after)):
        return _Role.TOTAL
    return _Role.LIMIT if cue == "limit" or _LIMIT_AFTER.match(after) else None


def _implied_role(cue: str | None, before: str, after: str) -> _Role | None:
    if _OUTPUT_AFTER.match(after):
        return _Role.OUTPUT
    if _PROMPT_AFTER.match(after):
        return _Role.PROMPT
    if cue == "used":
        return _Role.USED
    return _Role.TOTAL if cue == "asked" or _WEAK_CUE.search(before) else None


def _unit_of(suffix: str | None, after: str) -> Unit | None:
    if suffix == "px":
        return Unit.PIXELS
    if suffix is not None and suffix.endswith("b"):
        return Unit.BYTES
    return next((unit for pattern, unit in _UNIT_AFTER if pattern.match(after)), None)


def _unit_near(text: str, position: int, unit: Unit | None) -> Unit | None:
    return unit or _unit_of(None, text[position : position + _RIGHT_CHARS])
