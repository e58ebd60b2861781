"""Dependencies and settings of the runners, and the append of work records after the last record seen.

Input of other writers may arrive before an append. Then the log catches up and the append is repeated; records that
depend on the state are built again from the new one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from holdfast import ports
from holdfast.core.fold.session_state import Turn
from holdfast.core.integrity.segments import USUAL_SEALING, Sealing
from holdfast.core.limits.bounds import SUMMARY_DEADLINES, Bounds, Deadlines
from holdfast.core.proxy.instructions import NO_INSTRUCTIONS, ClientInstructions
from holdfast.core.proxy.recall import NO_RECALL, RecallOffer
from holdfast.errors import SeqMovedError
from holdfast.models.reference import Model as ModelReference
from holdfast.ports import Archive, Blobs, Clock, Images, Lease, Model
from holdfast.runtime.engine.learning import Known, Learning
from holdfast.runtime.engine.live import Live
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.log_events import MessageLimit
from holdfast.runtime.outputs import OutputChecks
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.types.messages import ToolSpec
from holdfast.types.records import LeasedRecord, Logged
from holdfast.types.settings import NO_SETTINGS, Settings

# A summariser whose window is smaller than the model's by this factor needs more pieces than this. Merging so many
# pieces costs more than its lower price saves.
_PIECES_FEW = 8


def unobserved(_session: str, _logged: Logged) -> None:
    """No-op observer."""


def no_settings(_model: Model) -> Settings:
    """Return no settings."""
    return NO_SETTINGS


@dataclass(frozen=True)
class Engine:
    """Dependencies and settings, shared by all runners of a process."""

    store: ports.Log
    blobs: Blobs
    clock: Clock
    toolbox: Toolbox
    # The models to try, best first, for the model that the session names.
    models: Callable[[str | ModelReference | None], Sequence[Model]]
    # The system text, read from its source for every request.
    system: Callable[[], str]
    # Learned limits of the models, shared by all sessions.
    learning: Learning
    live: Live
    bounds: Bounds
    deadlines: Deadlines
    # Settings of the requests to a model, below those of a session.
    settings: Callable[[Model], Settings] = no_settings
    # Summaries have their own deadlines: the answer waits for them.
    summary_deadlines: Deadlines = SUMMARY_DEADLINES
    # The archive for old records, and the policy for moving them. If either is None, they stay. The store must read
    # from the archive too.
    archive: Archive | None = None
    sealing: Sealing | None = USUAL_SEALING
    # Sessions without activity for so many days are removed; None: they stay.
    retention_days: float | None = None
    # Image resizing; None: images that are too large are replaced by a line.
    images: Images | None = None
    # Called with every work record that this process has written, for metrics and traces. It must not fail.
    observe: Callable[[str, Logged], None] = unobserved
    # Checks of answers with a requested type.
    outputs: OutputChecks = field(default_factory=OutputChecks)
    message_limit: MessageLimit = field(default_factory=MessageLimit)
    # Turns belong to a client of the proxy: it runs its own tools and sends its own system text.
    is_proxied: bool = False
    # The tools of such a client; None: those of the toolbox and of the session.
    client_tools: tuple[ToolSpec, ...] | None = None
    # Instructions in the first message of such a client, which no compaction represents.
    instructions: ClientInstructions = NO_INSTRUCTIONS
    # The tool with which such a client's model reads what has left its view.
    offer: RecallOffer = NO_RECALL
    # Such a client sends a reasoning setting of its own.
    has_client_effort: bool = False
    # Parameters of such a client's request that it can do without; None: those of native requests.
    client_parameters: frozenset[str] | None = None

    def tools_for(self, turn: Turn) -> tuple[ToolSpec, ...]:
        """Return the tools of a request, in order of name: ours, and the client's whose names are not taken."""
        if self.client_tools is not None:
            return (*self.client_tools, *self.offer.tools(turn))
        ours = self.toolbox.specs_for(turn.tool_names)
        taken = {spec.name for spec in ours}
        theirs = (spec for spec in turn.tools if spec.name not in taken)
        return tuple(sorted((*ours, *theirs), key=lambda spec: spec.name))

    def model_for(self, turn: Turn) -> Model:
        """Return the current model: the first that was not given up, else the last.

        The process that gave some up may have had more models.
        """
        models = self.models(turn.model)
        return models[min(turn.models_passed, len(models) - 1)]

    async def known(self, model: Model, turn: Turn) -> Known:
        """Return the limits of a model for a session in this state.

        If the model is suspected of having truncated the last request, the suspected size counts as its window until it
        has answered a smaller request: a second silent truncation would remove the summary of the past.
        """
        known = await self.learning.known(model)
        if model is not self.model_for(turn):
            return known
        answered = turn.answered
        limit = answered.suspected if answered.model == model.name else 0
        if turn.suspected is not None and turn.suspected.limit is not None:
            limit = turn.suspected.limit
        if not limit:
            return known
        # A suspicion halves a declared window at most.
        limit = max(limit, (model.limits.window_tokens or 0) // 2)
        window = min(limit, known.limits.window_tokens or limit)
        return replace(known, limits=replace(known.limits, window_tokens=window))

    def summariser_for(self, turn: Turn) -> Model:
        """Return the current model for summaries, in the same way."""
        models = self.summarisers_for(turn)
        return models[min(turn.summarisers_passed, len(models) - 1)]

    def summarisers_for(self, turn: Turn) -> Sequence[Model]:
        """Return the models for summaries, in the order to try them.

        With the setting "cheapest" they are sorted by price, with those last whose window is so small that the past
        would be read in many pieces. Only declared limits count, so the order never changes.
        """
        models = self.models(turn.model)
        if self.bounds.summariser == "same":
            return models
        small = (models[0].limits.window_tokens or 0) / _PIECES_FEW
        return sorted(models, key=lambda model: ((model.limits.window_tokens or small) < small, model.prices.dearness))


async def append_after(
    engine: Engine, lease: Lease, log: Log, build: Callable[[Turn], Sequence[LeasedRecord]]
) -> Sequence[Logged]:
    """Append the records that `build` returns for the current state, and return them with their seqs."""
    # Only inbox records can come in between, and a session accepts a bounded number of them.
    for _ in range(engine.bounds.inputs_waiting_max + 1):
        records = build(log.turn)
        if not records:
            return ()
        try:
            last = await engine.store.append(lease, records, after=log.turn.seq)
        except SeqMovedError:
            await log.catch_up(engine.store)
        else:
            break
    else:
        raise SeqMovedError(lease.session, log.turn.seq, log.turn.seq + 1)
    at, first = engine.clock.now(), last - len(records) + 1
    logged = [Logged(first + place, at, record) for place, record in enumerate(records)]
    log.extend(logged)
    for one in logged:
        engine.observe(lease.session, one)
    return logged
