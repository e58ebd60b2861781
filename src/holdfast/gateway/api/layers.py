"""Handler for the view as layers: instructions, state, story, facts and tail, of the next request or of an earlier one.

The view is a function of the log, so what the model saw at an earlier request is built again from the records before
it. System text and tools that the process gives, not the session, are those of now.
"""

import re
from typing import Annotated, Literal

import msgspec

from holdfast.core.compaction.layers import LABELS, LINE
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text, tokens_of_tools
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.schemas import RequestSchema
from holdfast.gateway.http.problems import NotFoundError
from holdfast.runtime.sessions.view import View
from holdfast.types.messages import Message, Role, Text, text_of

LayerName = Literal["instructions", "state", "story", "facts", "tail"]
# Lines of a digest that are no state of the work; every other label is.
_OTHERS: dict[str, LayerName] = {
    "rule": "instructions",
    "user": "story",
    "assistant": "story",
    "ran": "story",
    "called": "story",
    "edit": "story",
    "solved": "story",
    "value": "facts",
    "names": "facts",
}
_LABEL = re.compile(rf"({LABELS}) \[#")


class LayersQuery(RequestSchema, frozen=True):
    """The view before the record `at`, such as the start of a request; 0: the next request.

    Of a long view, the part that is made of at most `limit` records, the last.
    """

    at: Annotated[int, msgspec.Meta(ge=0, le=2**53, description="A record's number in its session, from 1.")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000, description="Maximum number of records.")] = 500


class Layer(msgspec.Struct, frozen=True):
    """A layer: its estimated tokens, and its text if it is a part of the summary."""

    name: LayerName
    tokens: int
    text: str = ""


class SeenMessage(msgspec.Struct, frozen=True):
    """A message of the view: the layer it belongs to, and the record that holds it, 0 for the summary."""

    layer: LayerName | Literal["summary"]
    seq: int
    tokens: int
    message: Message


class LayeredView(msgspec.Struct, frozen=True):
    """The view at a point of the log. `first`: the first record of a part; `compaction`: the record of the summary."""

    at: int
    system: str
    tools: list[str]
    layers: list[Layer]
    messages: list[SeenMessage]
    tokens_estimated: int
    window_tokens: int | None
    boundary: int
    compaction: int
    first: int
    is_whole: bool


async def show_layers(context: RequestContext) -> LayeredView:
    """Return the view as layers."""
    query, statuses = context.query(LayersQuery), context.state.statuses
    session, known = await context.session()
    if query.at > known.last_seq:
        raise NotFoundError(f"the session has {known.last_seq:,} records; name one of them, or 0 for the next request")
    state = await (statuses.turn_at(known, query.at - 1) if query.at else statuses.turn(known))
    limit = min(query.limit, context.state.bounds.page_max)
    view = await session.view(records_max=limit, state=state)
    summary = state.compaction.summary if state.compaction is not None else ""
    # Calibrated as the whole is.
    scale = view.tokens_estimated / max(view.sizes.tokens, 1)
    messages = _messages(view, summary, scale)
    return LayeredView(
        at=query.at,
        system=view.system,
        tools=[spec.name for spec in view.tools],
        layers=_layers(view, summary, messages, scale),
        messages=messages,
        tokens_estimated=view.tokens_estimated,
        window_tokens=view.window_tokens,
        boundary=view.boundary,
        compaction=state.compaction_seq,
        first=view.first,
        is_whole=view.is_whole,
    )


def _messages(view: View, summary: str, scale: float) -> list[SeenMessage]:
    """Return the messages with their layers: before the summary are pins and a client's instructions."""
    places = [place for place, one in enumerate(view.messages) if summary and text_of(one.parts) == summary]
    at = places[0] if places else -1
    return [
        SeenMessage(
            "summary" if place == at else "instructions" if place < at else "tail",
            seq,
            round(scale * tokens_of_message(message)),
            message,
        )
        for place, (seq, message) in enumerate(zip(view.origins, view.messages, strict=True))
    ]


def _layers(view: View, summary: str, messages: list[SeenMessage], scale: float) -> list[Layer]:
    parts = split_summary(summary)
    fixed = round(scale * (tokens_of_text(view.system) + tokens_of_tools(view.tools)))
    sizes = {name: round(scale * tokens_of_message(_as_message(text))) if text else 0 for name, text in parts.items()}
    sizes["instructions"] += fixed + sum(one.tokens for one in messages if one.layer == "instructions")
    # The rest is the tail, also the part of it that is not shown.
    sizes["tail"] = max(view.tokens_estimated - sum(sizes.values()), 0)
    return [Layer(name, sizes[name], parts[name]) for name in parts]


def _as_message(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def split_summary(summary: str) -> dict[LayerName, str]:
    """Return the text of a summary by layer. Lines without a label are the story; the frame around them is nothing."""
    lines: dict[LayerName, list[str]] = {"instructions": [], "state": [], "story": [], "facts": [], "tail": []}
    for line in summary.splitlines():
        found = _LABEL.match(line) if LINE.match(line) else None
        name = _OTHERS.get(found[1], "state") if found is not None else "story"
        lines[name].append(line)
    return {name: "\n".join(found) for name, found in lines.items()}
