"""The two digests in docs/survival.md are those of the sessions below."""

import re
from pathlib import Path

from holdfast.core.compaction.digest import digest_text
from holdfast.types.messages import ToolOutcome
from tests.core.passages import answered, called, returned, said

PAGE = Path(__file__).parents[2] / "docs" / "survival.md"
BERTH = [
    said(
        1,
        "The berth planner double-books ships when two requests come at once. Find out why and fix it. "
        "Never push to main, I review every branch.",
    ),
    called(
        2,
        "TodoWrite",
        todos=[
            {"content": "Reproduce the double booking", "status": "in_progress"},
            {"content": "Fix the race in reserve_berth", "status": "pending"},
            {"content": "Add a test with two writers", "status": "pending"},
        ],
    ),
    returned(3, "ok"),
    called(4, "Grep", pattern="reserve_berth", path="src"),
    returned(
        5,
        "src/planner/booking.py:41:def reserve_berth(ship_id, berth, day):\nsrc/api/routes.py:88:    "
        "reserve_berth(ship_id, berth, day)",
    ),
    called(6, "Read", file_path="/srv/harbour/src/planner/booking.py"),
    returned(
        7,
        "def reserve_berth(ship_id, berth, day):\n    if is_free(berth, day):\n        "
        "write_booking(ship_id, berth, day)",
    ),
    answered(
        8,
        "The root cause is that is_free and write_booking run without a lock, so two requests can pass "
        "the check together. I can take a row lock, or add a unique index on (berth, day). Should I add "
        "the unique index?",
    ),
    said(9, "yes, and keep the error message in English"),
    called(
        10,
        "Edit",
        file_path="/srv/harbour/src/planner/booking.py",
        old_string="write_booking(ship_id, berth, day)",
        new_string="with berth_lock(berth, timeout=LOCK_TIMEOUT):\n    insert_booking_or_raise(ship_id, berth, day)",
    ),
    returned(11, "The file has been updated."),
    called(
        12,
        "TodoWrite",
        todos=[
            {"content": "Reproduce the double booking", "status": "completed"},
            {"content": "Fix the race in reserve_berth", "status": "in_progress"},
            {"content": "Add a test with two writers", "status": "pending"},
        ],
    ),
    returned(13, "ok"),
    called(14, "Bash", command="cd /srv/harbour && pytest -q tests/planner 2>&1 | tail -20"),
    returned(
        15,
        "tests/planner/test_booking.py::test_move_ship FAILED\nE   sqlite3.IntegrityError: UNIQUE "
        "constraint failed: booking.berth, booking.day\n1 failed, 18 passed in 0.41s",
        outcome=ToolOutcome.FAILED,
    ),
    called(16, "Bash", command="ruff check src"),
    returned(17, "All checks passed!"),
    answered(
        18,
        "The index works, but test_move_ship books the old berth again before it is released. Next I "
        "will release first in move_ship.",
    ),
]
FERRY = [
    said(1, "Hi, I have to change my booking. My customer number is KD-20417."),
    answered(2, "What is the booking code, please?"),
    said(3, "It is QX-7731, the ferry to Tromsø on 14 May."),
    called(4, "get_booking", code="QX-7731"),
    returned(5, '{"ship": "MS Lofoten", "cabin": "B12", "price_eur": 412.50}'),
    answered(
        6,
        "I see two seats on MS Lofoten, cabin B12, 412.50 EUR.\n1. 16 May for 35.00 EUR\n2. 18 May free "
        "of charge\nWhich one would you like?",
    ),
    said(7, "the second one"),
    called(8, "change_booking", code="QX-7731", date="2026-05-18"),
    returned(9, "Error: cabin B12 is taken on 2026-05-18", outcome=ToolOutcome.FAILED),
    answered(10, "Cabin B12 is taken on 18 May. B14 next to it is free at the same price. Shall I take B14?"),
    said(11, "Yes please. And always write to me in German, my English is poor."),
]


def test_the_digests_that_the_page_shows_are_made_by_this_version() -> None:
    shown = re.findall(r"```text\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

    assert shown == [digest_text(BERTH, tokens_max=3_000), digest_text(FERRY, tokens_max=3_000)]
