"""Extract the limit and the requested size from a provider's message.

A number gets its role from the words around it, not from its order: the nearest cue before it, or the words after it.
Comparisons, sums and ranges are unambiguous and are parsed first.
"""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.core.faults.words import SENTENCE_END
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Unit


class Stated(msgspec.Struct, frozen=True):
    """Numbers stated by a provider. `output` is the part of `requested` for the output."""

    limit: int | None = None
    requested: int | None = None
    output: int | None = None
    unit: Unit | None = None


# Powers of ten and of two. Providers that mean 1,048,576 print the bytes; "MB" mostly means a million.
_SCALE = {"k": 10**3, "thousand": 10**3, "万": 10**4, "m": 10**6, "million": 10**6, "ki": 2**10, "mi": 2**20}
_SCALE |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "px": 1}
_DIGITS = r"(?:-?\d{1,3}(?:[,_]\d{3}){1,4}|-?\d{1,15}(?:\.\d{1,6})?)"
# A number that is not part of a path, a version, a model name, a date or an index.
_N = rf"(?<![\w.\-/#])(?<!\w\[)(?<!\d:){_DIGITS}(?: ?(?:{'|'.join(_SCALE)}))?(?![a-z\d])(?!\.\d|[-:/]\d)"
_NUMBER = Pattern(_N)
# The largest context window is ten million today; above a billion it is an id or a time.
_VALUE_MAX = 1_000_000_000

_WORDS = r"\)?(?:[ -][a-z()_]+){0,4}"
# A comparison, and the text up to its right side: no number, no new sentence, and no "by", which gives a distance.
_OVER = (
    r",? ?(?:which |that |together )*\)?(?:>=?|≥|/|vs\.?|(?:exceeds?|exceeded(?= th)|over|past|beyond|above"
    r"|(?:greater|larger|longer|bigger|more) than|(?:is not|must|should) (?:be )?less(?: than)?)(?![a-z]))"
    r"(?: or equal to)?(?:(?! by )[^.;,\d]){0,60}?"
)
_PLUS = r"(?: ?\+ ?| plus |,? and (?:a |your |the )?(?=max|output|completion|requested))(?:[a-z_]+ ){0,3}\(?"
# Forms with the groups "limit", "asked", "plus" (added to what was asked) and "end" (a range without its end).
_FORMS = (
    Pattern(rf"(?P<asked>{_N}){_WORDS}{_PLUS}(?P<plus>{_N}){_WORDS}{_OVER}(?P<limit>{_N})"),
    # The output that is asked for exceeds the window less the prompt.
    Pattern(rf"(?P<plus>{_N}) > (?P<limit>{_N}) - (?P<asked>{_N})"),
    Pattern(rf"(?P<asked>{_N}){_WORDS}{_OVER}(?P<limit>{_N})"),
    # In "(9000 tokens, limit 8192)" the bracket or the complaint before it makes the first number the requested size.
    Pattern(
        rf"(?:\(|exceeded: ?|too (?:long|large|big|many): ?)(?P<asked>{_N})(?: tokens?| bytes| characters)?, ?"
        rf"(?:n_)?(?:ctx|limit|max(?!_)\w*|window|context)[^.;,\d]{{0,20}}(?P<limit>{_N})"
    ),
    Pattern(rf"(?P<limit>{_N}){_WORDS} exceeded\W{{1,3}}(?P<asked>{_N})"),
    Pattern(r"(?<![\w/.,-])(?P<asked>\d{3,12})(?:/| (?:out )?of (?:the )?)(?P<limit>\d{3,12})(?![\w/])"),
    # "[1, 1025)" excludes its right side; round brackets on both sides are not meant that precisely.
    Pattern(
        r"(?:range|between|should? be|must be|shoule be|within)[^.;]{0,40}?(?:\[ ?"
        rf"{_DIGITS}, ?(?P<limit>{_DIGITS}) ?(?:\]|(?P<end>\)))|\( ?{_DIGITS}, ?(?P<closed>{_DIGITS}) ?[)\]])"
    ),
    Pattern(rf"(?:between|from) {_N}(?: \(?inclusive\)?)? (?:and|to) (?P<limit>{_N})(?P<end> \(exclusive\))?"),
)

# Words before a number, by the role that they give it; those that end in "$" only count beside it. The nearest counts.
_CUES = {
    "distance": r"(?<!divisible )by( about| around| approximately)?$",
    "used": r"used$",
    "output": r"(max_(new_|completion_|output_)?tokens|num_predict|output tokens)( is| set to)?(?! ?\[)$",
    "asked": (
        r"request(ed|ing)( about| up to| a total of)?|result\w* in|contain\w*|needs?|uses|takes?|require[sd]?|estimated"
        r"|projected|keep the first|n_keep|got|given|rec(ei|ie)v(ed|ing)|found|provid(ed|ing)|suppl(ied|ying)|sent"
        r"|passed|specified|actual\w*|current(?! batch)\w*|has|have|was|were|you|whereas|value( of)?|not$|with$"
        r"|too (long|large|big|high|many)|(?<!max )(?<!maximum )(?<!allowed )number of (prompt|input) tokens"
    ),
    "limit": (
        r"max\w*|limit\w*|at most|up to|no more than|(not|cannot) exceed|exceed(s|ed)?$|over the|over$|below|under"
        r"|within|<=?|≤|>=?$|(less|fewer|smaller|lower|shorter|larger|longer|greater|more) than|(must|should) be|only"
        r"|afford|allow\w*|supports?|accepts?|(reduced?|shorten(ed)?|cut|truncated?|trim(med)?)( it| the \w+)? to"
        r"|window|context|(n_)?ctx|capacity|ceiling|budget(?!_)|cap of|truncation length|available$"
        # A size stated of the model itself is its limit.
        r"|models? ([a-z]+ ){1,4}is$|(window|model|slot) (only )?(has|holds|takes|fits)$|(this|the|your) model$"
    ),
    "none": (
        r"(index|position|lines?|code|status|http|errors?(?! ?:)|version|(?<!_)ids?|port|level|tier|current batch size"
        r"|smallest|min(imum)?|leaves?|keep=|new=|remain\w*|retry|retries|reset\w*|after|in|on|at)( is| of)?$"
    ),
    # These count only if there is no other: "maximum input length" is a limit.
    "weak": (
        r"prompt|inputs?|messages?|request|texts?|total|count|length|size|tokens?|dimensions?|height|width|(is|of|for)$"
    ),
}
_CUE = Pattern(
    rf"(?<![a-z])(?:{'|'.join(f'(?P<{role}>{words})' for role, words in _CUES.items())})(?![a-z])".replace(
        "$", r"(?=\W{0,4}$)"
    )
)
# Words after a number, by the role that they give it, unless they belong to the next number.
_FOLLOWING = {
    "time": r"(seconds?|secs?|ms|milliseconds?|minutes?|mins?|hours?|days?|months?|percent)(?![a-z])|%|秒|分钟",
    "distance": r"(over|past|beyond|above) (the|its|your)",
    "output": r"((in|for|of|as) )?((the|your|requested) )*(output|completion|max_\w*tokens|generat|draft)",
    "asked": (
        r"([a-z]+ )?((was|were|are|is) )?(provided|given|received|sent|found|supplied|requested|used|present|needed"
        r"|required)\b(?![^\w,]{0,3}\d)|request[;,)]"
    ),
    "limit": (
        r"((token|per \w+) )?(max(imum)?\b(?![a-z_ ]{0,30}\W{0,3}\d)|limit(?!\W{0,2}\d)|context|window"
        r"|(allowed|available|at most)\b(?!\W{0,2}\d)|or (less|fewer))"
    ),
    "prompt": (
        r"((in|of|from|for) )?((the|your) )?((text|tool|image) )?(inputs?|prompt|messages|functions|tools|context)\b"
        r"(?![^\w,]{0,3}\d)"
    ),
}
# Cues before and after a number in the order in which they count.
_PRIORITIES = (
    *("after time", "before distance", "after distance", "after asked", "before limit", "after limit", "before none"),
    *("after output", "after prompt", "before output", "before used", "before asked"),
)
_AFTER = Pattern(
    r"^[ (-]{0,2}((tokens?|bytes?|characters?|chars|items?|messages?|tools?|images?|pages?)\b[) -]{0,2})?"
    rf"(?:{'|'.join(f'(?P<{role}>{words})' for role, words in _FOLLOWING.items())})"
)
_UNIT_AFTER = Pattern(
    r"^[ (-]{0,2}(?:(?P<chars>char(acter)?s?)|(?P<bytes>bytes?|b)|(?P<pixels>pixels?|px)"
    r"|(\w+ ){0,2}?(?P<tokens>tokens?)"
    r"|(\w+ )?(?P<count>images?|pages?|items?|messages?|tools?|files?|documents?|texts|requests?))\b"
)
_LEFT_CHARS, _RIGHT_CHARS = 70, 40

# Field names under which servers state the limit, the limit if the other number is stated as well, and that one.
_LIMIT_FIELD = Pattern(
    r"^nctx$|^quotavalue$|limit$|^max.+(token|len|context|allowed|size)|^(model|context)(len|wind|size)"
)
_WEAK_LIMIT_FIELD = Pattern(r"^max(imum)?(tokens|size|value|count|bytes|chars)?$|^limit|^(allowed|available|capacity)")
_ASKED_FIELD = Pattern(
    r"^(n|num)?(prompt|input|request(ed)?|required|seq(uence)?|estimated|current|provided|received|sent|used|total)?"
    r"(input|prompt)?(tokens?|size|len(gth)?|bytes)(count|used)?$|^(estimated|current|provided|received|sent|used|given)$"
    r"|^(got|total|requested)$|^actual"
)


def stated(text: str, fields: Mapping[str, int], unit: Unit | None) -> Stated:
    """Extract the numbers of one sentence. `unit` is the unit of the fault's kind; None takes it from the words."""
    # Comparisons are the most reliable, then named fields, then cues.
    sources = (_from_forms(text, unit), _from_fields(fields, unit), _from_cues(text, unit))
    columns = zip(*map(msgspec.structs.astuple, sources), strict=True)
    return Stated(*(next((one for one in column if one is not None), None) for column in columns))


def _from_fields(fields: Mapping[str, int], unit: Unit | None) -> Stated:
    limit, weak, requested = (
        next((value for name, value in fields.items() if names.search(name) and 0 < value < _VALUE_MAX), None)
        for names in (_LIMIT_FIELD, _WEAK_LIMIT_FIELD, _ASKED_FIELD)
    )
    return Stated(limit or (weak if requested else None), requested if limit or weak else None, unit=unit)


def _value(number: str) -> int:
    """Return the value of a number with or without a suffix."""
    digits = number.rstrip("abcdefghijklmnopqrstuvwxyz 万")
    return int(float(digits.replace(",", "").replace("_", "")) * _SCALE.get(number[len(digits) :].strip(), 1))


def _from_forms(text: str, unit: Unit | None) -> Stated:
    """Read "a + b > c", "a > b - c", "a > b" and ranges; the first form that matches counts."""
    for form in _FORMS:
        match = form.search(text)
        groups = {} if match is None else {name: one for name, one in match.groupdict().items() if one is not None}
        if match is None:
            continue
        counted = _unit_of(text[match.end() :])
        limit = _value(groups.get("limit") or groups["closed"]) - ("end" in groups)
        if "asked" not in groups:
            return Stated(limit, unit=unit or counted)
        asked, plus = _value(groups["asked"]), _value(groups.get("plus", "0"))
        is_output = "plus" in groups and ("max_tokens" in text or "output" in text or "completion" in text)
        # A comparison in characters is a rough estimate beside token counts; a smaller left side is no comparison of
        # the request with its limit.
        if asked + plus >= limit and not (unit is Unit.TOKENS and counted is Unit.CHARS):
            near = _unit_of(text[match.start() + len(groups["asked"]) :])
            return Stated(limit, asked + plus, plus if is_output else None, unit or counted or near)
    return Stated()


def _from_cues(text: str, unit: Unit | None) -> Stated:
    """Read numbers by the words around them."""
    roles: dict[str, list[int]] = {}
    for role, value, found in _roles(text):
        if unit in {None, found} or found is None:
            roles.setdefault(role, []).append(value)
            unit = unit if role == "distance" else unit or found
    # Messages often state the remaining tokens as well, which are 0 if the request was too large.
    limit = next((value for value in roles.get("limit", ()) if value > 0), None)
    output = next(iter(roles.get("output", ())), None)
    return Stated(limit, _requested(roles, limit, output), output, unit)


def _requested(roles: Mapping[str, list[int]], limit: int | None, output: int | None) -> int | None:
    totals = roles.get("asked", [])
    over = next((total for total in totals if limit is not None and total > limit), None)
    if over is not None:
        return over
    if "prompt" in roles:
        # Messages often repeat the prompt's size.
        return sum(set(roles["prompt"])) + (output or 0)
    if limit is not None and "distance" in roles:
        return limit + roles["distance"][0]
    return next(iter([*totals, *roles.get("used", [])]), None)


def _roles(text: str) -> Iterator[tuple[str, int, Unit | None]]:
    """Yield the role, value and unit of each number; numbers without a cue are skipped."""
    start = 0
    for match in _NUMBER.finditer(text):
        before = SENTENCE_END.split(text[max(start, match.start() - _LEFT_CHARS) : match.start()])[-1]
        after = text[match.end() : match.end() + _RIGHT_CHARS]
        start = match.end()
        role, value = _role(before, after), _value(match[0])
        if role not in {"", "none", "time"} and value < _VALUE_MAX:
            yield role, value, _unit_of(after, match[0])


def _role(before: str, after: str) -> str:
    cues = [cue.lastgroup or "" for cue in _CUE.finditer(before)]
    nearest = next((one for one in reversed(cues) if one != "weak"), "asked" if cues else "")
    found = _AFTER.match(after)
    following = "" if found is None else found.lastgroup
    pairs = {f"before {nearest}", f"after {following}"}
    return next((one.split()[1] for one in _PRIORITIES if one in pairs), "")


def _unit_of(after: str, number: str = "") -> Unit | None:
    """Return the unit of a number by its suffix or the words after it."""
    if number.endswith("b"):
        return Unit.BYTES
    found = _UNIT_AFTER.match("px" if number.endswith("px") else after)
    return None if found is None else Unit(found.lastgroup or "")
