"""The turn that is killed: two inputs, the first of which makes the model call three tools in two steps."""

from collections.abc import Callable

from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.tools.function_tool import tool
from holdfast.testing.builders import a_tool_call
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.messages import Reply, Request, Role, text_of

SESSION = "crash:1"
INPUTS = ("do it", "and then?")
# Client ids let a sender that died before it was told "accepted" send again without doubling anything.
CLIENT_IDS = ("first", "second")
BOUNDS = Bounds(interruptions_max=50)


def respond(request: Request) -> Reply:
    """Answer from what the request shows, so that a repeated attempt gets the same answer."""
    newest = request.messages[-1]
    steps = 0
    for message in reversed(request.messages):
        if message.role is Role.USER:
            break
        steps += message.role is Role.TOOL
    if newest.role is Role.USER and text_of(newest.parts) == INPUTS[0]:
        return says("", a_tool_call("pay", call_id="pay-1"), a_tool_call("look_up", call_id="look-1"))
    if newest.role is Role.TOOL and steps == 1:
        return says("one more", a_tool_call("pay", call_id="pay-2"))
    return says("done")


def a_model() -> FunctionModel:
    return FunctionModel(respond)


def tools(effect: Callable[[str], None]) -> list[Callable[..., object]]:
    """One tool that must never run twice for one call, one that may."""

    @tool
    async def pay() -> str:
        """Have an effect on the world."""
        effect("pay")
        return "paid"

    @tool(idempotent=True)
    async def look_up() -> str:
        """Look something up."""
        effect("look_up")
        return "found"

    return [pay, look_up]
