"""Everything a runner works with, in one place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.integrity.segments import USUAL_SEALING, Sealing
from holdfast.core.limits.bounds import SUMMARY_DEADLINES, Bounds, Deadlines
from holdfast.ports import Archive, Blobs, Clock, Images, Log, Model
from holdfast.runtime.engine.learning import Known, Learning
from holdfast.runtime.engine.live import Live
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.types.messages import ToolSpec
from holdfast.types.records import Logged

# A past that fills one window takes more pieces than this for a model whose window is smaller than that share of it.
# Notes on so many pieces must be merged, and that costs what the price saves.
_PIECES_FEW = 8


def unobserved(_session: str, _logged: Logged) -> None:
    """No-op observer."""


@dataclass(frozen=True)
class Engine:
    """What the wiring put together. All runners of a process share one."""

    store: Log
    blobs: Blobs
    clock: Clock
    toolbox: Toolbox
    # The models to try, best first, given what the session asked for.
    models: Callable[[str | None], Sequence[Model]]
    # The system text, read from its source for every request.
    system: Callable[[], str]
    # What all sessions have learned about the models.
    learning: Learning
    live: Live
    bounds: Bounds
    deadlines: Deadlines
    # Summaries have deadlines of their own: a person waits behind them.
    summary_deadlines: Deadlines = SUMMARY_DEADLINES
    # Where old records go, and when. None, either: they stay. The store must read from the archive too.
    archive: Archive | None = None
    sealing: Sealing | None = USUAL_SEALING
    # Sessions that nobody has touched for so many days are removed; None: they stay.
    retention_days: float | None = None
    # What makes images smaller; None: they are shown by a line each where they are too large.
    images: Images | None = None
    # Called with every work record that this process has written, for metrics and traces. It must not fail.
    observe: Callable[[str, Logged], None] = unobserved
    # Turns belong to a client of the proxy: it runs its own tools and sends its own system text.
    is_proxied: bool = False
    # The tools of such a client; None: those of the toolbox and of the session.
    client_tools: tuple[ToolSpec, ...] | None = None
    # Such a client sends a reasoning setting of its own.
    has_client_effort: bool = False

    def tools_for(self, turn: Turn) -> tuple[ToolSpec, ...]:
        """Return the tools of a request, in order of name: ours, and the client's whose names are not taken."""
        if self.client_tools is not None:
            return self.client_tools
        ours = self.toolbox.specs
        taken = {spec.name for spec in ours}
        theirs = (spec for spec in turn.tools if spec.name not in taken)
        return tuple(sorted((*ours, *theirs), key=lambda spec: spec.name))

    def model_for(self, turn: Turn) -> Model:
        """Return the model whose turn it is: the best that was not given up, else the last there is.

        A process may have fewer models than the one that gave some up.
        """
        models = self.models(turn.model)
        return models[min(turn.models_passed, len(models) - 1)]

    async def known(self, model: Model, turn: Turn) -> Known:
        """Return what to go by for a model where a session stands.

        What a turn's model is suspected to have read of the last request is taken for its window until it has answered
        a smaller one: a request that is cut in silence twice would lose what stands for the past.
        """
        known = await self.learning.known(model)
        limit = turn.suspected.limit if turn.suspected is not None else None
        if limit is None or model is not self.model_for(turn):
            return known
        window = min(limit, known.limits.window_tokens or limit)
        return replace(known, limits=replace(known.limits, window_tokens=window))

    def summariser_for(self, turn: Turn) -> Model:
        """Return the model to ask for a summary, in the same way."""
        models = self.summarisers_for(turn)
        return models[min(turn.summarisers_passed, len(models) - 1)]

    def summarisers_for(self, turn: Turn) -> Sequence[Model]:
        """Return the models to ask for a summary, first those that should be asked first.

        Where the cheapest is wanted: by price, but those last whose window is so small that the past would have to be
        read in many pieces. Only what is declared counts, so that the order is the same whenever one asks.
        """
        models = self.models(turn.model)
        if self.bounds.summariser == "same":
            return models
        small = (models[0].limits.window_tokens or 0) / _PIECES_FEW
        return sorted(models, key=lambda model: ((model.limits.window_tokens or small) < small, model.prices.dearness))
