"""A requested output as a tool, for APIs and models without an output of a given JSON Schema.

The tool exists on the wire only: its call comes back as text, so that the log has the same answer from every model.
"""

import msgspec

from holdfast.core.limits.settings import OUTPUT_FIELDS
from holdfast.ports import Delta, TextDelta, ToolCallDelta
from holdfast.types.messages import Effort, Reasoning, Reply, Request, StopReason, Text, ToolCall, ToolSpec

OUTPUT_TOOL = "final_answer"
_DESCRIPTION = "Give the final answer. Call this once, instead of writing text, when all other work is done."


class OutputTool:
    """The tool of one request; without a name it changes nothing."""

    def __init__(self, request: Request, dialect: str) -> None:
        field = OUTPUT_FIELDS.get(dialect)
        self.name = ""
        self._request = request
        self._indexes: set[int] = set()
        if request.output is not None and (field is None or field in request.omitted):
            taken = {spec.name for spec in request.tools}
            self.name = next(name for number in range(len(taken) + 1) if (name := _numbered(number)) not in taken)

    @property
    def request(self) -> Request:
        """The request, with the tool in place of the output.

        A call is required, so that no text comes instead, unless the model reasons: APIs refuse both together.
        """
        given = self._request
        if not self.name or given.output is None:
            return given
        spec = ToolSpec(self.name, _DESCRIPTION, given.output.schema)
        settings = given.settings
        if settings.tool_choice is None and given.effort in (None, Effort.NONE):
            settings = msgspec.structs.replace(settings, tool_choice="required")
        return msgspec.structs.replace(given, tools=(*given.tools, spec), settings=settings, output=None)

    def read_deltas(self, deltas: list[Delta]) -> list[Delta]:
        """Return deltas with the arguments of the tool as text."""
        return [shown for delta in deltas if (shown := self._read_delta(delta))] if self.name else deltas

    def _read_delta(self, delta: Delta) -> Delta | None:
        if not isinstance(delta, ToolCallDelta):
            return delta
        if delta.name == self.name:
            self._indexes.add(delta.index)
        if delta.index not in self._indexes:
            return delta
        return TextDelta(delta.arguments) if delta.arguments else None

    def read_reply(self, reply: Reply) -> Reply:
        """Return a reply with the tool's arguments as its text. Beside other calls the answer came too early."""
        calls = [part for part in reply.parts if isinstance(part, ToolCall)]
        answers = [call for call in calls if self.name and call.name == self.name]
        if not answers:
            return reply
        if len(answers) < len(calls):
            kept = tuple(part for part in reply.parts if part not in answers)
            return msgspec.structs.replace(reply, parts=kept)
        reasoning = tuple(part for part in reply.parts if isinstance(part, Reasoning))
        parts = (*reasoning, Text(answers[-1].arguments))
        return msgspec.structs.replace(reply, parts=parts, stop_reason=StopReason.END)


def _numbered(number: int) -> str:
    return f"{OUTPUT_TOOL}_{number}" if number else OUTPUT_TOOL
