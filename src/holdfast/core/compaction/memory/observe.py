"""Fold messages into a memory, one at a time and in order.

Everything read is data: text of tools and pasted text changes facts, verdicts and the story, never what a person asked.
"""

import re
from collections.abc import Mapping

import msgspec

from holdfast.core.compaction.facts import FactKind, Judge, definitions, merged
from holdfast.core.compaction.memory import agreements, checks, edits, tasks, uses
from holdfast.core.compaction.memory.quotes import one_line, without_code, worth_of
from holdfast.core.compaction.memory.shell import Parsed, command_of
from holdfast.core.compaction.memory.state import Doing, Event, Memory, PendingCall, Said, Typed
from holdfast.core.compaction.memory.typed import (
    SENTENCE_CHARS_MAX,
    add_rule,
    is_standing,
    split_sentences,
    typed_sentences,
    typed_text,
)
from holdfast.core.text.truncation import well_formed
from holdfast.types.messages import LargeText, Message, Role, Text, ToolCall, ToolOutcome, ToolResult

# Characters read of one text, half from its beginning and half from its end; more is a dump.
_TEXT_CHARS_MAX = 128 * 2**10
_PROSE_CHARS_MAX = 16 * 2**10
# Sentences and lines kept.
TYPED_MAX, EVENTS_MAX = 600, 800
_GOAL_CHARS, _WORDS_CHARS = 1_200, 1_500
# Of the first messages that were typed, the first with this many characters states the goal.
_GOAL_CHARS_MIN = 16
_PENDING_MAX, _TOOLS_MAX = 64, 64
_SENTENCE_CHARS_MIN = 24
_LINE_CHARS = 160
_EDIT_LINES_MAX = 4
_OLD_KEYS = ("old_string", "oldText", "old_str", "old_text", "search")
_NEW_KEYS = ("new_string", "newText", "new_str", "new_text", "replace", "content", "file_text", "contents")
_DEFINES = re.compile(r"\b(?:def|class|func|function|fn|type|struct|enum|interface|trait|const|export)\s+\w")
_PLAN_KEYS = ("plan",)


def observe(memory: Memory, seq: int, message: Message, judge: Judge | None = None) -> Memory:
    """Update a memory by the next message, in place, and return it.

    `judge` is a cache of classified words that calls may share; it changes no result.
    """
    judge = judge or Judge()
    if not memory.messages:
        memory.first_seq = seq
    memory.last_seq = seq
    if message.role is Role.USER:
        _observe_user(memory, judge, seq, message)
    elif message.role is Role.ASSISTANT:
        _observe_agent(memory, judge, seq, message)
    else:
        for part in message.parts:
            if isinstance(part, Text | LargeText):
                _observe_output(memory, judge, seq, _text_of(part))
    for part in message.parts:
        if isinstance(part, ToolResult):
            _observe_result(memory, judge, seq, part)
    memory.messages += 1
    _drop_excess(memory)
    return memory


def _text_of(part: Text | LargeText) -> str:
    text = _storable(part.text if isinstance(part, Text) else part.head)
    if len(text) <= _TEXT_CHARS_MAX:
        return text
    return f"{text[: _TEXT_CHARS_MAX // 2]}\n{text[-_TEXT_CHARS_MAX // 2 :]}"


def _storable(text: str) -> str:
    return text if text.isascii() else well_formed(text)


# --- The person ---


def _observe_user(memory: Memory, judge: Judge, seq: int, message: Message) -> None:
    texts = [_text_of(part) for part in message.parts if isinstance(part, Text | LargeText)]
    if not texts:
        return
    call = memory.pending.pop("", None)
    if call is not None:
        # Agents without call ids bring the result as the next message.
        _settle(memory, judge, seq, call, "\n".join(texts), has_failed=False)
        return
    typed = "\n".join(filter(None, map(typed_text, texts)))
    for text in texts:
        uses.read_text(memory, judge, seq, uses.USER, text)
        tasks.observe_text(memory, seq, "", text)
    if not typed.strip():
        return
    agreements.observe_answer(memory, seq, typed)
    if memory.goal is None or len(memory.goal.text) < _GOAL_CHARS_MIN:
        memory.goal = Said(seq, one_line(typed, _GOAL_CHARS))
    for order, sentence, is_deep in typed_sentences(typed):
        memory.typed.append(Typed(seq, memory.messages, order, sentence, is_deep))
        if not is_deep and is_standing(sentence):
            add_rule(memory.rules, Said(seq, sentence))


# --- The agent ---


def _observe_agent(memory: Memory, judge: Judge, seq: int, message: Message) -> None:
    texts = [_text_of(part) for part in message.parts if isinstance(part, Text | LargeText)]
    said = "\n".join(texts)
    if said.strip():
        uses.read_text(memory, judge, seq, uses.TEXT, said)
        memory.last_words = Said(seq, said.strip()[:_WORDS_CHARS])
        agreements.observe_agent(memory, seq, said)
        tasks.observe_text(memory, seq, "", said)
        edits.add_changes(memory, seq, edits.blocks_of(said))
        _tell(memory, seq, said)
    for part in message.parts:
        if isinstance(part, ToolCall):
            _observe_call(memory, judge, seq, part)


def _tell(memory: Memory, seq: int, text: str) -> None:
    prose = without_code(text)
    if len(prose) > _PROSE_CHARS_MAX:
        prose = f"{prose[: _PROSE_CHARS_MAX // 2]}\n{prose[-_PROSE_CHARS_MAX // 2 :]}"
    for sentence in split_sentences(prose):
        if len(sentence) >= _SENTENCE_CHARS_MIN or not sentence.isascii():
            line = one_line(sentence, SENTENCE_CHARS_MAX)
            if len(line) >= _SENTENCE_CHARS_MIN or not line.isascii():
                memory.events.append(Event(seq, memory.messages, Doing.SAID, line, worth_of(line)))


def _observe_call(memory: Memory, judge: Judge, seq: int, call: ToolCall) -> None:
    memory.has_calls = True
    name, call_id = _storable(call.name), _storable(call.call_id)
    if len(memory.tools) < _TOOLS_MAX or name in memory.tools:
        memory.tools[name] = memory.tools.get(name, 0) + 1
    texts, arguments, raw = _decoded(_storable(call.arguments))
    if tasks.observe_call(memory, seq, name, arguments):
        # Words of a list are told by its layer.
        return
    _remember_plan(memory, seq, arguments)
    pending = PendingCall(seq, name, command_of(name, arguments, raw), "", [], agreements.asked_by(name, arguments))
    facts = judge.facts(texts)
    if pending.command:
        uses.count(memory, seq, uses.CALL, facts)
        pending.changes = edits.changed_by(Parsed(pending.command))
        _tell_command(memory, seq, pending.command)
    else:
        paths = edits.paths_in(arguments)
        pending.target = paths[0] if paths else ""
        if edits.is_edit(name, arguments):
            pending.changes = paths
            uses.count(memory, seq, uses.EDIT, merged(facts, definitions(texts)))
            memory.edited.update((text, seq) for text in texts if facts.get(text) is FactKind.PATH)
            _observe_edit(memory, seq, arguments, paths)
        else:
            uses.count(memory, seq, uses.CALL, facts)
            uses.read_arguments(memory, seq, arguments, facts)
            _tell_call(memory, seq, name, arguments)
    if pending.target:
        memory.sources[seq] = pending.target
    memory.pending[call_id] = pending
    while len(memory.pending) > _PENDING_MAX:
        del memory.pending[next(iter(memory.pending))]


def _observe_edit(memory: Memory, seq: int, arguments: Mapping[str, object], paths: list[str]) -> None:
    _tell_edit(memory, seq, paths, arguments)
    contents = [text for key in _NEW_KEYS if isinstance(text := arguments.get(key), str)]
    for path in paths:
        for content in contents:
            tasks.observe_text(memory, seq, path, content)


def _remember_plan(memory: Memory, seq: int, arguments: Mapping[str, object]) -> None:
    for key in _PLAN_KEYS:
        plan = arguments.get(key)
        if isinstance(plan, str) and plan.strip():
            memory.plan = Said(seq, plan.strip()[:_GOAL_CHARS])


def _tell_command(memory: Memory, seq: int, command: str) -> None:
    line = one_line(command, _LINE_CHARS)
    if line:
        memory.events.append(Event(seq, memory.messages, Doing.RAN, line, 0.0))


def _tell_edit(memory: Memory, seq: int, paths: list[str], arguments: Mapping[str, object]) -> None:
    """Keep the most telling line of an edit: one that it adds, a definition first."""
    old = next((text for key in _OLD_KEYS if isinstance(text := arguments.get(key), str)), "")
    new = next((text for key in _NEW_KEYS if isinstance(text := arguments.get(key), str)), "")
    before = set(map(str.strip, old[:_PROSE_CHARS_MAX].split("\n")))
    lines = [line for one in new[:_PROSE_CHARS_MAX].split("\n") if (line := one.strip()) and line not in before]
    if not lines or not paths:
        return
    # Definitions first, then the longest lines, which show most.
    lines = sorted(dict.fromkeys(lines), key=lambda line: (_DEFINES.search(line) is None, -min(len(line), _LINE_CHARS)))
    for line in lines[:_EDIT_LINES_MAX]:
        text = f"{'/'.join(paths[0].split('/')[-2:])}: {one_line(line, _LINE_CHARS)}"
        memory.events.append(Event(seq, memory.messages, Doing.CHANGED, text, 0.0))


def _tell_call(memory: Memory, seq: int, name: str, arguments: Mapping[str, object]) -> None:
    """Keep a call with its short arguments."""
    shown = [
        f"{key}={value}"
        for key, value in arguments.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool) and len(str(value)) <= _LINE_CHARS
    ]
    text = one_line(f"{name} {' '.join(shown)}", 2 * _LINE_CHARS)
    if shown:
        memory.events.append(Event(seq, memory.messages, Doing.CALLED, text, 0.0))


def _decoded(arguments: str) -> tuple[list[str], dict[str, object], object]:
    """Return all strings in a call's arguments, the arguments if they are an object, and the decoded value."""
    try:
        decoded: object = msgspec.json.decode(arguments)
        if isinstance(decoded, str) and decoded.startswith("{"):
            # Some agents encode twice.
            decoded = msgspec.json.decode(decoded)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return [arguments[:_TEXT_CHARS_MAX]], {}, None
    texts: list[str] = []
    waiting = [decoded]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            texts.append(value if len(value) <= _TEXT_CHARS_MAX else value[:_TEXT_CHARS_MAX])
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return texts, decoded if isinstance(decoded, dict) else {}, decoded


# --- Tools ---


def _observe_result(memory: Memory, judge: Judge, seq: int, result: ToolResult) -> None:
    output = "\n".join(_text_of(part) for part in result.parts if isinstance(part, Text | LargeText))
    call = memory.pending.pop(_storable(result.call_id), None)
    has_failed = result.outcome is not ToolOutcome.DONE
    if call is None:
        uses.count(memory, seq, uses.RESULT, judge.facts((output,)))
        return
    _settle(memory, judge, seq, call, output, has_failed=has_failed)


def _observe_output(memory: Memory, judge: Judge, seq: int, text: str) -> None:
    """Read a tool's text that answers no call."""
    call = memory.pending.pop("", None)
    if call is not None:
        _settle(memory, judge, seq, call, text, has_failed=False)
        return
    uses.count(memory, seq, uses.RESULT, judge.facts((text,)))
    edits.observe_tool_text(memory, seq, text)


def _settle(memory: Memory, judge: Judge, seq: int, call: PendingCall, output: str, *, has_failed: bool) -> None:
    """Apply the result of a call."""
    uses.count(memory, seq, uses.RESULT, judge.facts((output,)))
    if call.target:
        memory.sources[seq] = call.target
    if call.command:
        parsed = Parsed(call.command)
        if parsed.segments and checks.observe_result(memory, seq, parsed, output, has_failed=has_failed):
            edits.add_changes(memory, call.seq, call.changes)
            edits.observe_versions(memory, call.seq, parsed)
        return
    has_failed = has_failed or checks.reports_failure(output)
    checks.observe_tool_error(memory, seq, call.name, output, has_failed=has_failed)
    if has_failed:
        return
    edits.add_changes(memory, call.seq, call.changes)
    if call.question:
        agreements.add(memory, call.seq, call.question, seq, output)


# --- Bounds ---


def _drop_excess(memory: Memory) -> None:
    uses.drop_excess(memory)
    if uses.is_excess(len(memory.typed), TYPED_MAX):
        # The first messages frame the task, the newest continue it.
        memory.typed = memory.typed[: TYPED_MAX // 8] + memory.typed[TYPED_MAX // 8 - TYPED_MAX :]
    if uses.is_excess(len(memory.events), EVENTS_MAX):
        old, new = memory.events[: -EVENTS_MAX // 2], memory.events[-EVENTS_MAX // 2 :]
        best = sorted(range(len(old)), key=lambda at: (-old[at].worth, -at))[: EVENTS_MAX // 2]
        memory.events = [old[at] for at in sorted(best)] + new
