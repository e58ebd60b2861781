"""What the demo came to, counted from the logs and from what the tools did, not from what was said on the way."""

from collections import Counter

import msgspec

from holdfast.cli.demo.stage import Stage, payments
from holdfast.core.records import CompactionApplied, InputAdmitted, Logged, Outcome, ToolStarted, TurnEnded

_PAGE_RECORDS = 1_000


class Figures(msgspec.Struct, frozen=True):
    """The figures at the end."""

    sent: int
    answered: int
    # Accepted, and without exactly one outcome in the log.
    lost: int
    # Client ids that stand in a log more than once.
    doubled: int
    tools_run: int
    tools_run_twice: int
    compactions: int
    kills: tuple[str, ...]
    facts_planted: int
    facts_recalled: int
    seconds: float

    def broken(self) -> list[str]:
        """Return a sentence for every promise that did not hold."""
        checks = (
            (self.lost == 0, f"{self.lost} accepted messages have no outcome, or more than one"),
            (self.answered == self.sent, f"{self.sent - self.answered} messages were not answered"),
            (self.doubled == 0, f"{self.doubled} messages stand in the log twice"),
            (self.tools_run_twice == 0, f"{self.tools_run_twice} tool calls ran twice"),
            (self.compactions > 0, "nothing was compacted"),
            (len(self.kills) > 1, f"{len(self.kills)} processes were killed instead of two"),
            (
                self.facts_recalled == self.facts_planted,
                f"{self.facts_planted - self.facts_recalled} of {self.facts_planted} facts were forgotten",
            ),
        )
        return [sentence for holds, sentence in checks if not holds]


async def reckon(stage: Stage, seconds: float) -> Figures:
    """Count."""
    logs = {key: await _log(stage, key) for key in sorted({key for key, _ in stage.accepted})}
    outcomes = {
        (key, logged.record.client_id): _outcomes(records, logged.seq)
        for key, records in logs.items()
        for logged in records
        if isinstance(logged.record, InputAdmitted)
    }
    file = payments(stage.folder)
    paid = Counter(file.read_text(encoding="utf-8").splitlines() if file.exists() else ())
    return Figures(
        sent=len(stage.accepted),
        answered=sum(outcomes.get(message) == [Outcome.ANSWERED] for message in stage.accepted),
        lost=sum(len(outcomes.get(message, [])) != 1 for message in stage.accepted),
        doubled=sum(_doubled(records) for records in logs.values()),
        tools_run=paid.total(),
        tools_run_twice=max(paid.total() - len(paid), sum(_started_twice(records) for records in logs.values())),
        compactions=sum(isinstance(logged.record, CompactionApplied) for log in logs.values() for logged in log),
        kills=tuple(stage.kills),
        facts_planted=stage.facts_planted,
        facts_recalled=stage.facts_recalled,
        seconds=round(seconds, 1),
    )


async def _log(stage: Stage, key: str) -> list[Logged]:
    session = await stage.hold.session(key)
    records: list[Logged] = []
    while page := await session.history(after=len(records), limit=_PAGE_RECORDS):
        records += page
    return records


def _outcomes(records: list[Logged], turn: int) -> list[Outcome]:
    endings = (logged.record for logged in records if isinstance(logged.record, TurnEnded))
    return [ended.outcome for ended in endings if ended.turn == turn]


def _doubled(records: list[Logged]) -> int:
    named = Counter(logged.record.client_id for logged in records if isinstance(logged.record, InputAdmitted))
    return sum(times - 1 for times in named.values())


def _started_twice(records: list[Logged]) -> int:
    calls = Counter(logged.record.call_id for logged in records if isinstance(logged.record, ToolStarted))
    return sum(times - 1 for times in calls.values())


def table(figures: Figures) -> list[tuple[str, str]]:
    """Return the figures as a person reads them."""
    return [
        ("messages sent", str(figures.sent)),
        ("answered", str(figures.answered)),
        ("lost", str(figures.lost)),
        ("doubled", str(figures.doubled)),
        ("tools run", str(figures.tools_run)),
        ("tools run twice", str(figures.tools_run_twice)),
        ("compactions", str(figures.compactions)),
        ("processes killed", f"{len(figures.kills)} ({', '.join(figures.kills)})"),
        ("facts recalled", f"{figures.facts_recalled} of {figures.facts_planted}"),
        ("seconds", f"{figures.seconds:g}"),
    ]
