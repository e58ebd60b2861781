"""Everything a runner works with, in one place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.core.fold import Turn
from holdfast.core.limits import SUMMARY_DEADLINES, Bounds, Deadlines
from holdfast.core.messages import ToolSpec
from holdfast.core.records import Logged
from holdfast.ports import Blobs, Clock, Model, Store
from holdfast.runtime.learning import Learning
from holdfast.runtime.live import Live
from holdfast.runtime.toolbox import Toolbox


def unobserved(_session: str, _logged: Logged) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Engine:
    """What the wiring put together. All runners of a process share one."""

    store: Store
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
    # Told of every work record that this process has written: for counters and traces. It must not fail.
    observe: Callable[[str, Logged], None] = unobserved

    def tools_for(self, turn: Turn) -> tuple[ToolSpec, ...]:
        """Return what a model is told about tools, in order of name: the client's too, unless ours has its name."""
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

    def summariser_for(self, turn: Turn) -> Model:
        """Return the model to ask for a summary, in the same way."""
        models = self.models(turn.model)
        return models[min(turn.summarisers_passed, len(models) - 1)]
