"""What the acts of the demo share: the store in a temporary folder, the tongue, and who was promised what."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TextIO

import msgspec

from holdfast import wiring
from holdfast.cli.demo.children import Life, Moment, live
from holdfast.cli.demo.errand import Errand, Line, demo_limits, demo_model, paying
from holdfast.cli.paper import aside, harmless, shortened
from holdfast.cli.telling import Teller
from holdfast.core.limits import Bounds
from holdfast.core.records import Logged
from holdfast.models.simulated import Simulation
from holdfast.runtime.hold import Hold
from holdfast.runtime.sessions import Session
from holdfast.runtime.words import spoken

# Small enough that a dozen pages fill it several times.
SMALL_WINDOW_TOKENS = 6_000
_LINE_CHARS = 110


class Pace(msgspec.Struct, frozen=True):
    """How quickly the demo goes."""

    # Between two pieces of an answer, so that one can watch it being written.
    delta_seconds: float
    # The first wait after a refusal. The engine's own is a second, and grows fourfold each time.
    back_off_seconds: float
    # How often the conversation has to outgrow its window.
    compactions: int


FULL = Pace(delta_seconds=0.03, back_off_seconds=0.5, compactions=3)
FAST = Pace(delta_seconds=0.0, back_off_seconds=0.1, compactions=2)


class Stage:
    """One run of the demo."""

    def __init__(self, folder: Path, hold: Hold, simulation: Simulation, pace: Pace, out: TextIO) -> None:
        self.folder, self.hold, self.simulation, self.pace = folder, hold, simulation, pace
        self._out = out
        # (session, client id) of every message that was accepted: each is owed exactly one outcome.
        self.accepted: set[tuple[str, str]] = set()
        self.kills: list[str] = []
        self.facts_planted = 0
        self.facts_recalled = 0
        self._sent = 0

    # Saying.

    def title(self, text: str) -> None:
        """Begin an act."""
        self._out.write(f"\n{text}\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """Say something about what is shown."""
        self._out.write(f"  {harmless(text)}\n")
        self._out.flush()

    def quote(self, logged: Logged) -> None:
        """Show a record as it stands in the log."""
        aside(f"    record {logged.seq}: {shortened(spoken(logged.record), _LINE_CHARS)}", self._out)

    # Talking.

    async def send(self, session: Session, text: str, *, client_id: str = "") -> list[Logged]:
        """Send a message, show what happens, and return the records of its turn."""
        self.say(f"you: {shortened(text, _LINE_CHARS)}")
        return await self.send_quietly(session, text, Teller(self._out, self._out), client_id=client_id)

    async def send_quietly(
        self, session: Session, text: str, teller: Teller | None = None, *, client_id: str = ""
    ) -> list[Logged]:
        """Send a message and return the records of its turn."""
        self._sent += 1
        client_id = client_id or f"message-{self._sent}"
        records: list[Logged] = []
        async with aclosing(session.stream(text, client_id=client_id)) as events:
            async for event in events:
                self.accepted.add((session.key, client_id))
                if teller is not None:
                    teller.see(event)
                if isinstance(event, Logged):
                    records.append(event)
        return records

    # Processes.

    def errand(self, session: str, lines: list[Line], *, window_tokens: int, pay_seconds: float = 0.0) -> Errand:
        """Return something for a process to do on the store of this run."""
        store, paid = str(self.folder / "demo.db"), str(payments(self.folder))
        return Errand(store, paid, session, tuple(lines), window_tokens, pay_seconds)

    async def live(self, errand: Errand, kill_at: Moment | None = None) -> Life:
        """Run an errand in a process of its own, and keep count of what it was promised."""
        life = await live(errand, kill_at)
        self.accepted |= {(errand.session, client_id) for client_id in life.accepted}
        return life


def payments(folder: Path) -> Path:
    """Return where the effects of tools are written."""
    return folder / "payments.txt"


@asynccontextmanager
async def a_stage(folder: Path, pace: Pace, out: TextIO) -> AsyncGenerator[Stage, None]:
    """Open the store of one run, with a small simulated model and a tool that pays."""
    simulation = Simulation(demo_limits(SMALL_WINDOW_TOKENS), delta_seconds=pace.delta_seconds)
    tuning = wiring.Tuning(bounds=Bounds(back_off_seconds_min=pace.back_off_seconds), adopts=False)
    tools = [paying(payments(folder))]
    model = demo_model(simulation)
    async with wiring.open(folder / "demo.db", model=model, tools=tools, tuning=tuning) as hold:
        yield Stage(folder, hold, simulation, pace, out)
