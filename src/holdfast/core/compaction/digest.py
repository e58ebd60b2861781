"""Digest: the text that replaces earlier messages without a model, rendered from a memory in layers.

State comes first (goal, tasks, agreements, standing instructions, changed files, verdicts, open errors, last words),
then quoted sentences, then values and names. Each layer has a share of the tokens and passes on what it does not use.
It cannot fail: any messages give a text within the token limit, deterministically and in bounded time. Sentences are
quoted, never rephrased, and framed as reference, so that old messages do not read like current instructions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from holdfast.core.compaction import layers
from holdfast.core.compaction.facts import Judge, Passage, numbers
from holdfast.core.compaction.layers import Candidate
from holdfast.core.compaction.memory.observe import observe
from holdfast.core.compaction.memory.quotes import one_line
from holdfast.core.compaction.memory.state import Memory
from holdfast.core.compaction.names import choose_names, fact_scores, merge_paths, rank
from holdfast.core.compaction.story import Story, choose_typed, render_typed
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.truncation import frame

Count = Callable[[str], int]


class Shares(msgspec.Struct, frozen=True):
    """Shares of the tokens per layer. Unused room passes on to the next layer."""

    state: tuple[float, ...]
    typed: float
    story: float
    values: float
    names: float
    # Bound of the names as a share of the characters, and the characters of the text beside this one, which count too.
    names_chars: float
    beside_chars: int = 0


_STATE: tuple[Callable[[Memory], Iterator[Candidate]], ...] = (
    layers.goal,
    layers.tasks,
    layers.agreements,
    layers.rules,
    layers.changes,
    layers.checks,
    layers.errors,
    layers.last_words,
    layers.commits,
)
DIGEST = Shares((0.10, 0.08, 0.14, 0.06, 0.07, 0.05, 0.05, 0.07, 0.01), 0.11, 0.03, 0.02, 0.21, 0.245)
_TOOLS_SHOWN = 8
_MISFITS_MAX = 8
_GOAL_TOKENS_MIN = 60
# A text takes fewer tokens than its lines, counted one by one, by more than one in so many.
_UNUSED = 50
# A text without sentences still shows some names.
_NAMES_CHARS_MIN = 240


def remember(passages: Iterable[Passage]) -> Memory:
    """Fold passages into a new memory."""
    memory, judge = Memory(), Judge()
    for passage in passages:
        observe(memory, passage.seq, passage.message, judge)
    return memory


class _Page:
    """Lines chosen so far, within a token limit."""

    def __init__(self, tokens_max: int, count: Count) -> None:
        self.tokens_max, self.count = tokens_max, count
        self.lines: list[str] = []
        self.left = 0.0

    def grant(self, share: float) -> int:
        """Add a layer's share to what is left, and return the room."""
        self.left += share * self.tokens_max
        return int(self.left)

    def fill(self, candidates: Iterable[Candidate], share: float) -> None:
        """Add the candidates that fit into a share and what is left.

        As many as fit come first, each in its shortest variant; the room that remains lengthens them in their order.
        """
        room = self.grant(share)
        chosen: list[tuple[Candidate, int]] = []
        misfits = 0
        for candidate in candidates:
            cost = self.count(candidate.variants[-1]) + 1
            if cost <= room:
                chosen.append((candidate, cost))
                room -= cost
            else:
                misfits += 1
                if misfits == _MISFITS_MAX:
                    break
        lines: list[tuple[tuple[int, int], str]] = []
        for candidate, shortest in chosen:
            room += shortest
            line, cost = self._longest(candidate, room)
            room -= cost
            lines.append((candidate.order, line))
        self.left -= int(self.left) - room
        self.lines += [line for _, line in sorted(lines)]

    def _longest(self, candidate: Candidate, room: int) -> tuple[str, int]:
        """Return the longest variant that fits, and its tokens; the shortest fits."""
        *longer, shortest = candidate.variants
        for line in longer:
            cost = self.count(line) + 1
            if cost <= room:
                return line, cost
        return shortest, self.count(shortest) + 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def _header(memory: Memory) -> str:
    head = f"{memory.messages} messages, #{memory.first_seq} to #{memory.last_seq}."
    if memory.is_part:
        head += f" Messages before #{memory.first_seq} are not read for this text yet."
    if memory.tools:
        most = sorted(memory.tools.items(), key=lambda tool: (-tool[1], tool[0]))[:_TOOLS_SHOWN]
        head += " Tools: " + ", ".join(f"{one_line(name, 40)} {number}" for name, number in sorted(most)) + "."
    return head


def render(memory: Memory, tokens_max: int, count: Count = tokens_of_text, shares: Shares = DIGEST) -> str:
    """Return a memory as lines of at most this many tokens by `count`, "" if nothing fits."""
    if not memory.messages:
        return ""
    page = _Page(tokens_max, count)
    has_story = shares.story > 0
    if has_story:
        page.lines.append(_header(memory))
        page.left -= count(page.text) + 1
        if page.left + tokens_max < 0:
            return ""
    # In a small window a share is less than a sentence, and the goal comes first.
    page.left += min(_GOAL_TOKENS_MIN, tokens_max // 4)
    for layer, share in zip(_STATE, shares.state, strict=True):
        page.fill(layer(memory), share)
    page.left -= min(_GOAL_TOKENS_MIN, tokens_max // 4)
    _add_typed(memory, page, shares)
    _add_facts(memory, page, shares)
    return page.text


def _add_typed(memory: Memory, page: _Page, shares: Shares) -> None:
    room = page.grant(shares.typed if memory.has_calls else shares.typed + shares.names / 2)
    chosen, taken = choose_typed(memory, page.text, room, page.count)
    page.left -= taken
    page.lines += [line for _, line in render_typed(chosen)]


def _add_facts(memory: Memory, page: _Page, shares: Shares) -> None:
    """Add the story, values and names, which share their room: a name that is quoted is not listed."""
    judge = Judge()
    merged = msgspec.structs.replace(memory, facts=merge_paths(memory))
    scores = fact_scores(merged)
    text = page.text
    shown = {*judge.facts((text,)), *numbers(text)}
    quoted_at = len(page.lines)
    told: list[tuple[int, str]] = []
    story = Story(memory, scores, judge, shown, text) if shares.story else None
    if story is not None:
        told, taken = story.choose(page.grant(shares.story), page.count)
        page.left -= taken
    values = _values(merged, scores, shown, page, shares.values)
    names_room = page.grant(shares.names)
    everything = "\n".join([text, *(line for _, line in told), *values])
    ranking = rank(merged, scores, lambda fact: fact in shown or fact in everything)
    share = shares.names_chars
    names = _bounded_names(merged, ranking, names_room, _expected_chars(len(everything), page, shares), page.count)
    page.left -= page.count("\n".join(names)) + 1 if names else 0
    if story is not None:
        more, taken = story.choose(int(page.left), page.count)
        page.left -= taken
        told += more
        rest = len(everything) + sum(len(line) for _, line in more)
        names = _bounded_names(merged, ranking, names_room, rest * share / (1 - share), page.count, names)
    page.lines[quoted_at:] = [line for _, line in sorted(told)]
    page.lines += [*values, *names]


def _expected_chars(chars: int, page: _Page, shares: Shares) -> float:
    """Return the most characters of names, before the story is complete."""
    if shares.beside_chars:
        return (chars + shares.beside_chars) * shares.names_chars / (1 - shares.names_chars)
    # The story takes what the names leave, so the whole text is about as long as all tokens allow.
    return shares.names_chars * chars * page.tokens_max / max(1, page.tokens_max - page.left)


def _bounded_names(
    memory: Memory, ranking: dict[str, float], room: int, chars_max: float, count: Count, names: list[str] | None = None
) -> list[str]:
    """Return lines of names within tokens and characters; `names` unchanged if they are."""
    chars_max = max(chars_max, _NAMES_CHARS_MIN)
    if names is not None and sum(map(len, names)) <= chars_max:
        return names
    # Characters count as tokens at the rate that uses up both bounds together.
    rate = room / max(1.0, chars_max)
    return choose_names(memory, ranking, room, lambda text: max(count(text), int(len(text) * rate)))


def _values(memory: Memory, scores: dict[str, float], shown: set[str], page: _Page, share: float) -> list[str]:
    """Return the likeliest values that are not shown, with the words that say what they are, by record."""
    room = page.grant(share)
    ranked = sorted(
        (-scores[fact], fact)
        for fact in memory.values
        if fact in scores and fact not in shown and memory.values[fact].text != fact
    )
    by_seq: dict[int, list[str]] = {}
    taken = misfits = 0
    for _, fact in ranked:
        said = memory.values[fact]
        cost = page.count(said.text) + 1 + (0 if said.seq in by_seq else page.count(f"value [#{said.seq}] ") + 1)
        if taken + cost > room:
            misfits += 1
            if misfits == _MISFITS_MAX:
                break
            continue
        taken += cost
        by_seq.setdefault(said.seq, []).append(said.text)
        shown.add(fact)
    page.left -= taken
    return [f"value [#{seq}] {'; '.join(texts)}" for seq, texts in sorted(by_seq.items())]


# --- Text for the view ---

_LABEL = (
    "Taken by rule from earlier messages that are no longer shown. This is reference, not instructions: what was asked "
    "here was asked then and may be done; a rule of the person holds until a newer one. [#n] is the record in which it "
    "stands, word for word: recall(seq=n) reads it, recall(query=...) finds what is not mentioned here."
)
# Used if not even the frame fits.
_BARE = "[earlier messages left out]"


def represent(passages: Sequence[Passage], *, tokens_max: int, count: Count = tokens_of_text) -> str:
    """Return the digest of passages, labelled and framed, in at most this many tokens; "" without passages."""
    return represent_memory(remember(passages), tokens_max=tokens_max, count=count)


def represent_memory(memory: Memory, *, tokens_max: int, count: Count = tokens_of_text) -> str:
    """Return the digest of a memory, labelled and in an escaped frame, in at most this many tokens."""
    if not memory.messages:
        return ""
    framed = _fitting(memory, tokens_max, count, DIGEST, lambda text: frame(_LABEL, text))
    return framed or (_BARE if count(_BARE) <= tokens_max else "")


def digest_text(passages: Sequence[Passage], *, tokens_max: int, count: Count = tokens_of_text) -> str:
    """Return the digest of passages without label and frame."""
    return render_fitting(remember(passages), tokens_max, count, DIGEST)


def render_fitting(memory: Memory, tokens_max: int, count: Count, shares: Shares) -> str:
    """Render a memory in at most this many tokens, "" if nothing fits."""
    return _fitting(memory, tokens_max, count, shares, str)


def _fitting(memory: Memory, tokens_max: int, count: Count, shares: Shares, framed: Callable[[str], str]) -> str:
    room = tokens_max - count(framed(""))
    room += room // _UNUSED
    # Escapes can lengthen the measured text, and a sum of lines is an estimate; then retry with less room.
    while room > 0:
        text = render(memory, room, count, shares)
        if not text:
            break
        whole = framed(text)
        excess = count(whole) - tokens_max
        if excess <= 0:
            return whole
        room = min(room * tokens_max // (tokens_max + excess), room - max(1, room // 16))
    return ""
