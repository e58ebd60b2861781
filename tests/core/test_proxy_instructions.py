"""Instructions in a client's first message: which texts they are, and what of them stays."""

import hashlib

import pytest

from holdfast.core.proxy.instructions import (
    NO_INSTRUCTIONS,
    Certainty,
    ClientInstructions,
    first_shown,
    instructions_of,
    persons_part,
    split_first,
)
from holdfast.types.messages import BlobRef, LargeText, Media, Message, Part, Role, Text
from holdfast.types.records import InputAdmitted, Logged, TurnStarted

REMINDER = "<system-reminder>\n# claudeMd\n- Rule 1\n</system-reminder>\n\n"
AGENTS = "# AGENTS.md instructions for /project\n\n<INSTRUCTIONS>\n- Rule 1\n</INSTRUCTIONS>"
ENVIRONMENT = "<environment_context>\n  <cwd>/project</cwd>\n</environment_context>"
IMAGE = Media(BlobRef("0" * 64, 10), "image/png")


def user(*parts: str | Part) -> Message:
    """Return a user message."""
    return Message(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def found(*messages: Message) -> list[tuple[str, Certainty]]:
    """Return the texts of the instructions of a conversation, and how certain each is."""
    return [(one.text, one.certainty) for one in instructions_of(messages, {}).parts]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("hello", [("hello", Certainty.PLAIN)]),
        ("  ", []),
        (REMINDER + "hello", [(REMINDER, Certainty.KNOWN), ("hello", Certainty.PLAIN)]),
        (AGENTS, [(AGENTS, Certainty.KNOWN)]),
        # Rules that quote the closing tag, and a person's words between two reminders.
        (
            "<system-reminder>a </system-reminder> b</system-reminder>",
            [("<system-reminder>a </system-reminder> b</system-reminder>", Certainty.KNOWN)],
        ),
        (
            "<system-reminder>1</system-reminder> why? <system-reminder>2</system-reminder>",
            [
                ("<system-reminder>1</system-reminder> ", Certainty.KNOWN),
                ("why? ", Certainty.PLAIN),
                ("<system-reminder>2</system-reminder>", Certainty.KNOWN),
            ],
        ),
        (
            "<rules kind='mine'>\na\n</rules>\nFix it.\n<env>x</env>\n",
            [
                ("<rules kind='mine'>\na\n</rules>\n", Certainty.FRAMED),
                ("Fix it.\n", Certainty.PLAIN),
                ("<env>x</env>\n", Certainty.FRAMED),
            ],
        ),
        # Not frames: a person's own words, markup in a sentence, tags that are not closed or not opened.
        ("<task>fix it</task>", [("<task>fix it</task>", Certainty.PLAIN)]),
        ("make it <task>bold</task>", [("make it <task>bold</task>", Certainty.PLAIN)]),
        ("<rules>and no end", [("<rules>and no end", Certainty.PLAIN)]),
        ("<system-reminder>and no end", [("<system-reminder>and no end", Certainty.PLAIN)]),
        ("what is </b>", [("what is </b>", Certainty.PLAIN)]),
        (
            "This is the Qwen Code. We are setting up the context for our chat.\nThe date is today.",
            [
                (
                    "This is the Qwen Code. We are setting up the context for our chat.\nThe date is today.",
                    Certainty.KNOWN,
                )
            ],
        ),
    ],
)
def test_a_text_is_split_into_the_frames_at_its_ends(text: str, parts: list[tuple[str, Certainty]]) -> None:
    assert found(user(text)) == parts


def test_only_a_first_message_of_a_user_has_instructions() -> None:
    assert instructions_of([], {}) is NO_INSTRUCTIONS
    spoken = Message(Role.ASSISTANT, (Text(REMINDER),))
    assert instructions_of([spoken], {}) is NO_INSTRUCTIONS
    assert split_first([spoken]) == (spoken,)
    assert split_first([]) == ()


def test_a_large_text_is_read_from_its_blob() -> None:
    content = REMINDER.encode()
    large = LargeText(BlobRef(hashlib.sha256(content).hexdigest(), len(content)), "head")
    read = instructions_of([user(large, IMAGE)], {large.blob.sha256: content})
    assert [one.text for one in read.parts] == [REMINDER]
    assert instructions_of([user(large)], {}).parts == ()
    assert read.places((IMAGE, large)) == {1}
    assert read.without(user(large, IMAGE)) == user(IMAGE)
    assert read.without(user(large)) is None
    assert read.places((Text(REMINDER), Text("hello"))) == {0}


def test_frames_become_parts_and_the_rest_is_as_it_was() -> None:
    first, second = user(IMAGE, REMINDER + "hello", "and more"), user(REMINDER + "later")
    assert split_first([first, second]) == (user(IMAGE, REMINDER, "hello", "and more"), second)
    assert persons_part(user(REMINDER, "hello")) == user("hello")
    assert persons_part(user(REMINDER)) == user(REMINDER)


def test_known_instructions_stay_whatever_they_take_and_others_within_their_share() -> None:
    rules = "<rules>" + "mind the harbour. " * 200 + "</rules>"
    read = instructions_of(
        [user(REMINDER.replace("Rule 1", "Rule 1\n" * 4_000), rules, "a question " * 200, "short")], {}
    )
    small = read.within(1_000)
    assert [one.certainty for one in small.parts] == [Certainty.KNOWN]
    large = read.within(100_000)
    assert [one.certainty for one in large.parts] == [
        Certainty.KNOWN,
        Certainty.FRAMED,
        Certainty.PLAIN,
        Certainty.PLAIN,
    ]


def test_they_are_shown_only_while_the_first_message_is_not() -> None:
    read = instructions_of([user(REMINDER, "hello")], {})
    assert read.shown(0) is None
    assert NO_INSTRUCTIONS.shown(3) is None
    framed = "The conversation began with this message.\n<first-message>\nhello\n</first-message>"
    assert read.shown(2) == user(REMINDER, framed)
    assert read.shown(2, is_first_generation=False) == user(REMINDER)
    assert read.framed == (user(REMINDER),)
    assert ClientInstructions().framed == ()


def test_a_newer_version_counts_once_its_message_is_hidden() -> None:
    newer = ENVIRONMENT.replace("/project", "/project/docs")
    said = [
        user(AGENTS, ENVIRONMENT, "hi"),
        Message(Role.ASSISTANT, (Text("hello"),)),
        user(newer, "go on"),
        user("on"),
    ]
    read = instructions_of(said, {}).within(100_000)
    before, after = read.shown(2, is_first_generation=False), read.shown(3, is_first_generation=False)
    assert before == user(AGENTS, ENVIRONMENT)
    assert after == user(AGENTS, newer)
    # Two files in one tag are not versions of each other.
    files = [user("<file>one</file>", "hi"), user("<file>two</file>", "and this")]
    assert instructions_of(files, {}).newer == ()


def test_a_view_begins_with_the_first_input_from_its_boundary_on() -> None:
    inputs = [
        Logged(1, 0.0, InputAdmitted((Text("a"),), "c1", origin=0)),
        Logged(2, 0.0, TurnStarted(1)),
        Logged(5, 0.0, InputAdmitted((Text("b"),), "c2", origin=2)),
        Logged(9, 0.0, InputAdmitted((Text("c"),), "c3")),
    ]
    assert first_shown(inputs, 0) == 0
    assert first_shown(inputs, 1) == 0
    assert first_shown(inputs, 5) == 2
    assert first_shown(inputs, 9) == 0
