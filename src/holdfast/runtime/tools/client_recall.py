"""The recall tool for clients of the proxy: the gateway offers it to their models and runs it."""

from dataclasses import replace

import msgspec

from holdfast.core.proxy.recall import NO_RECALL, RESULT_BYTES_MAX, RecallOffer
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.tools.recall import Recall
from holdfast.runtime.tools.toolbox import Toolbox


def with_recall(engine: Engine, *, is_allowed: bool) -> Engine:
    """Return an engine whose only tool is recall, and which offers it where the request and the settings allow it."""
    bytes_max = min(engine.bounds.tool_output_bytes_max, RESULT_BYTES_MAX)
    bounds = msgspec.structs.replace(engine.bounds, tool_output_bytes_max=bytes_max)
    recall = Recall(engine.store, engine.blobs, bounds)
    # A call in the log is run also where the tool is not offered any more.
    toolbox = Toolbox((), blobs=engine.blobs, bounds=bounds, for_sessions=(recall,))
    rounds_max = engine.bounds.proxy_recall_rounds_max
    offer = RecallOffer(recall.spec, rounds_max) if is_allowed and rounds_max > 0 else NO_RECALL
    return replace(engine, toolbox=toolbox, offer=offer)
