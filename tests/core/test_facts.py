"""Which exact facts stand in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.compaction.facts import FactKind, Judge, definitions, judge, merged, numbers


@pytest.mark.parametrize(
    ("chunk", "facts"),
    [
        # Paths, with what stands behind a colon judged by itself.
        ("/srv/shop/main.go", [("path", "/srv/shop/main.go")]),
        ("cmd/server/main.go:42", [("path", "cmd/server/main.go")]),
        ("cmd/server/main.go:isReady", [("path", "cmd/server/main.go"), ("name", "isReady")]),
        ("setup.py.", [("path", "setup.py")]),
        ("setup.py:12", [("path", "setup.py")]),
        ("./run", [("path", "./run")]),
        ("../lib/x.js", [("path", "../lib/x.js")]),
        ("~/notes.md", [("path", "~/notes.md")]),
        ("@scope/package", [("path", "@scope/package")]),
        ("build/", []),
        ("a//b", []),
        ("1/2", []),
        ("/copy", []),
        (".../copy", [("path", ".../copy")]),
        # Urls and addresses.
        ("https://example.org/a?b=1.", [("url", "https://example.org/a?b=1")]),
        ("file:///etc/hosts", [("url", "file:///etc/hosts")]),
        ("://nothing", []),
        ("ada@example.org", [("id", "ada@example.org")]),
        ("ada@home", []),
        # Ids.
        ("8a6f3c2e-41d7-4b0e-9c55-0f2d7b1e6a90", [("id", "8a6f3c2e-41d7-4b0e-9c55-0f2d7b1e6a90")]),
        ("25fbbfd", [("id", "25fbbfd")]),
        ("HOLD-123", [("id", "HOLD-123")]),
        ("#89", [("id", "#89")]),
        ("GV1N64", [("id", "GV1N64")]),
        ("toolu_01XYosP93TmyeTpxfA8fJ2xT", []),
        # Dates.
        ("2024-05-15", [("number", "2024-05-15")]),
        ("2024-05-15T15:00:00Z", [("number", "2024-05-15T15:00:00Z")]),
        # Names.
        ("isFullyEnabled", [("name", "isFullyEnabled")]),
        ("HTTPServer", [("name", "HTTPServer")]),
        ("mia_li_3668", [("name", "mia_li_3668")]),
        ("os.ReadFile", [("name", "ReadFile")]),
        ("agent.Default", [("name", "agent.Default")]),
        # Plain words, numbers, versions and what is too long for anyone to type.
        ("Default", []),
        ("self.value", []),
        ("e.g.", []),
        ("9dc6x", []),
        ("1.2.3", []),
        ("aB" * 200, []),
        ("x" + "aB" * 60, []),
    ],
)
def test_a_chunk_is_judged_by_its_shape(chunk: str, facts: list[tuple[str, str]]) -> None:
    assert [(kind.value, fact) for fact, kind in judge(chunk).items()] == facts


def test_facts_are_found_in_text_of_any_kind() -> None:
    judge_of_texts = Judge()
    text = '     1→package cli\\nimport "net/http" // siehe Übersicht→isReady, naïve_word (see #12)'
    found = judge_of_texts.facts([text])
    assert {fact: kind.value for fact, kind in found.items()} == {
        "net/http": "path",
        "isReady": "name",
        "naïve_word": "name",
        "#12": "id",
    }
    # What was judged once is not judged again, and found all the same.
    assert judge_of_texts.facts([text]) == found


@pytest.mark.parametrize(
    ("chunk", "facts"),
    [
        ("isReady:", {"isReady"}),
        ("--dryRun=", {"dryRun"}),
        ("exit_code.", {"exit_code"}),
        ("call_aBcDeF", set()),
        ("_private_", set()),
        ("aBc", set()),
        ("word:", set()),
        ("NOTE:", set()),
        ("-12.", set()),
        ("a/", set()),
        ("aB" * 41, set()),
    ],
)
def test_a_word_is_judged_without_the_marks_around_it(chunk: str, facts: set[str]) -> None:
    assert set(Judge().facts([chunk])) == facts


def test_what_a_definition_names_is_a_fact_however_plain() -> None:
    code = "class Ledger:\n    def render(self): ...\ntype Reader struct"
    assert definitions([code]) == dict.fromkeys(("Ledger", "render", "Reader"), FactKind.NAME)


def test_of_two_kinds_the_same_one_wins_in_any_order() -> None:
    id_first, name_first = Judge().facts(["a1b2c3d4 x:a1b2c3d4"]), Judge().facts(["x:a1b2c3d4 a1b2c3d4"])
    assert id_first == name_first == {"a1b2c3d4": FactKind.ID}
    assert merged({"one": FactKind.NAME}, {"one": FactKind.ID, "two": FactKind.URL}) == {
        "one": FactKind.ID,
        "two": FactKind.URL,
    }


def test_the_kind_of_a_fact_depends_on_its_text_alone() -> None:
    used = Judge()
    used.facts(["a1b2c3d4"])
    assert used.facts(["x:a1b2c3d4"]) == Judge().facts(["x:a1b2c3d4"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("listens on port 8080.", {"8080": "port 8080"}),
        ("limit=167174", {"167174": "limit=167174"}),
        ("about 35 % of 1,234 tokens", {"35": "about 35 %", "1,234": "1,234 tokens"}),
        ("took 3.5s", {"3.5": "took 3.5s"}),
        ("costs $112 in all", {"112": "costs $112"}),
        ("costs US$112 in all", {"112": "112"}),
        ("1000", {"1000": "1000"}),
        # Small counts, versions, times and parts of words are no facts.
        ("3 files, v1.2.3, 12:30, a-100, x100, 1/200", {}),
    ],
)
def test_a_number_keeps_its_words(text: str, found: dict[str, str]) -> None:
    assert numbers(text) == found


@given(st.text())
def test_every_fact_stands_in_the_text_as_it_is(text: str) -> None:
    assert all(fact in text for fact in Judge().facts([text]))
