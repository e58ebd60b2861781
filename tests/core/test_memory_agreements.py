"""Agreements: short answers with the questions and proposals that they answer."""

import pytest

from holdfast.core.compaction.digest import digest_text, remember
from holdfast.core.compaction.memory import agreements
from tests.core.passages import answered, called, calling, returned, said


@pytest.mark.parametrize(
    ("proposal", "answer", "agreed"),
    [
        ("I looked around. Should I drop the old table?", "yes", "Should I drop the old table?"),
        ("Cabin B12 is taken on that day. Shall I take B14?", "yes please", "Shall I take B14?"),
        ("Which port do you want?", "8080, as before", "Which port do you want?"),
        ("Two ways:\n1. Keep it all\n2. Drop the index now\nWhich one do you prefer?", "2", "2. Drop the index now"),
        (
            "Two ways:\n1. Keep it all\n2. Drop the index now\nWhich one do you prefer?",
            "the first one",
            "1. Keep it all",
        ),
        ("The index is too large for this. It has three parts.", "ok", "It has three parts."),
        ("The index is too large for this.", "tell me what you see in the log of today", None),
        ("Should I drop it now?", "x" * 300, None),
        ("", "yes", None),
        ("```\nonly code\n```", "yes", None),
    ],
)
def test_a_short_answer_is_kept_with_what_it_answers(proposal: str, answer: str, agreed: str | None) -> None:
    found = remember([answered(1, proposal), said(2, answer)]).agreements
    if agreed is None:
        assert found == []
    else:
        assert [one.answer for one in found] == [answer]
        assert agreed in found[0].question
        assert (found[0].question_seq, found[0].answer_seq) == (1, 2)


def test_an_answer_to_a_question_of_a_tool_is_an_agreement() -> None:
    asked = {"questions": [{"question": "Which database?", "options": [{"label": "SQLite"}]}]}
    memory = remember([calling(1, "AskUserQuestion", asked), returned(2, "SQLite"), called(3, "ask", other=["x"])])
    assert [(one.question, one.answer) for one in memory.agreements] == [("Which database?", "SQLite")]


def test_a_task_for_another_agent_is_no_question_to_a_person() -> None:
    prompt = "I need to understand the hooks. Please find them."
    for name, expected in (("Task", ""), ("TaskCreate", ""), ("AskUserQuestion", prompt), ("ask_user", prompt)):
        assert agreements.asked_by(name, {"prompt": prompt}) == expected


@pytest.mark.parametrize(
    ("proposal", "question"),
    [
        (
            "The getters are cheap reads.\n\nReady to start WP1?",
            "Ready to start WP1? (after: The getters are cheap reads.)",
        ),
        (
            "Now the levels go from dark to bright:\n- `low`: a muted grey tone\n- `high`: a bright purple tone",
            "Now the levels go from dark to bright:",
        ),
        (
            "I updated:\n1. Replaced the old colour tokens\n2. Counted all tokens again\n\nThe docs are up to date!",
            "The docs are up to date! (after: Replaced the old colour tokens Counted all tokens again)",
        ),
        (
            "- Replace the old colour tokens\n- Count all of the tokens",
            "Replace the old colour tokens Count all of the tokens",
        ),
        (
            "| hook | exists? |\n|---|---|\n| a | no |\n\nThe hook is missing there. Is that right?",
            "Is that right? (after: The hook is missing there.)",
        ),
        (f"{'A sentence that fills the room. ' * 15}\n\nDo we go on?", "Do we go on?"),
        (f"{'The plan has many parts and words. ' * 9}Shall I begin with {'x' * 360}?", None),
    ],
)
def test_a_question_is_kept_with_the_sentences_before_it(proposal: str, question: str | None) -> None:
    (found,) = remember([answered(1, proposal), said(2, "ok")]).agreements
    if question is None:
        assert "(after:" not in found.question
    else:
        assert found.question.startswith(question)


def test_code_in_a_long_proposal_is_not_taken_for_its_question() -> None:
    code = "const level = result.off ? null : 1;\n" * 200
    (found,) = remember(
        [answered(1, f"Here is the whole file.\n```ts\n{code}```\nShould I write this file?"), said(2, "yes")]
    ).agreements
    assert found.question == "Should I write this file? (after: Here is the whole file.)"


def test_an_option_is_found_behind_a_yes() -> None:
    proposal = "1. Test the sub-agents first\n2. Test the folders\nWould you like me to do any of these?"
    (found,) = remember([answered(1, proposal), said(2, "yes, do 1")]).agreements
    assert found.question.startswith("1. Test the sub-agents first (Would you like me to do any of these?")


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        ("the second, please", "2. Test the folders ("),
        ("second", "2. Test the folders ("),
        ("first option", "1. Test the sub-agents ("),
        ("ok, the first one", "1. Test the sub-agents ("),
        ("ok, write the test first", ""),
        ("First, run what we have", ""),
        ("yes, but leave the first line", ""),
    ],
)
def test_an_ordinal_chooses_an_option_only_where_it_stands_for_one(answer: str, option: str) -> None:
    proposal = "1. Test the sub-agents\n2. Test the folders\nWould you like me to do any of these?"
    (found,) = remember([answered(1, proposal), said(2, answer)]).agreements
    assert found.question.startswith(option or "Would you like me")


def test_an_option_alone_is_the_question() -> None:
    (found,) = remember([answered(1, "2. Go on"), said(2, "2")]).agreements
    assert found.question == "2. Go on"


def test_a_question_back_is_no_answer() -> None:
    assert remember([answered(1, "Ready to start WP1?"), said(2, "how do we set things there?")]).agreements == []


@pytest.mark.parametrize(
    ("answer", "label"),
    [("yes", "agreed"), ("no, leave it", "answered"), ("8080, as before", "agreed"), ("on port 80", "answered")],
)
def test_only_a_consent_is_told_as_agreed(answer: str, label: str) -> None:
    told = digest_text([answered(1, "Which port shall I take?"), said(2, answer)], tokens_max=1_000)
    assert f"{label} [#1] Which port shall I take? -> [#2] {answer}" in told
