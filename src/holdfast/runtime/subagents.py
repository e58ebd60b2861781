"""Sub-agents: tools that run another session, link it in the log of the caller, and return its answer.

The key of the other session and the id of its message come from the call. A call that is repeated after a crash waits
for the same answer, so the work of a sub-agent is done once.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated

import msgspec

from holdfast.errors import BadInputError
from holdfast.ports import Log
from holdfast.runtime.engine.log import open_state, pages
from holdfast.runtime.sessions.client import Client
from holdfast.types.messages import ToolSpec
from holdfast.types.records import SessionLinked

_MARK = ">"
# Sub-agents of sub-agents: deeper is a loop.
DEPTH_MAX = 3
_ID_CHARS = 16
# Characters of the caller's key that stay readable.
_KEY_CHARS_MAX = 120


class Agent(msgspec.Struct, frozen=True):
    """A sub-agent: a tool whose calls run a session of their own, with their own model and system text.

    Give it to `holdfast.open(agents=[…])`. It has the tools of the process.
    """

    # The name of the tool, and its description for the calling model.
    name: str
    description: str
    # Model and system text of its sessions; None: those of the process.
    model: str | None = None
    system: str | None = None
    # The calling model waits so long. The session of the sub-agent goes on after that.
    seconds_max: float = 120.0


class _Arguments(msgspec.Struct):
    task: Annotated[str, msgspec.Meta(description="The whole task: the agent does not see this conversation.")]


def _parameters() -> str:
    schema = msgspec.json.schema(_Arguments)["$defs"]["_Arguments"]
    return msgspec.json.encode({"type": "object", "properties": schema["properties"], "required": ["task"]}).decode()


class AgentTool:
    """The tool of a sub-agent."""

    # A repeated call finds the message that it has sent before.
    is_idempotent = True

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._client: Client | None = None
        # Calls that run in this process, by session and call id: two calls with the same arguments differ by their ids.
        self._running: set[tuple[str, str]] = set()
        self.spec = ToolSpec(agent.name, agent.description, _parameters())
        self.seconds_max = agent.seconds_max

    def bind(self, client: Client) -> None:
        """Use the sessions of a client."""
        self._client = client

    async def run(self, session: str, arguments: str) -> Sequence[str]:
        """Run the task in a session of its own and return the answer; see `SessionTool.run`."""
        assert self._client is not None, "the tool is bound before the engine runs"
        try:
            task = msgspec.json.decode(arguments, type=_Arguments).task
        except msgspec.DecodeError as error:
            raise BadInputError(f"the arguments are invalid: {error}") from error
        if session.count(_MARK) >= DEPTH_MAX:
            raise BadInputError(f"agents call each other {DEPTH_MAX} levels deep at most; do this task yourself")
        turn, call_id = await self._call(session, arguments)
        self._running.add((session, call_id))
        try:
            return [await self._answer(session, turn, call_id, task)]
        finally:
            self._running.discard((session, call_id))

    async def _call(self, session: str, arguments: str) -> tuple[int, str]:
        """Return the turn and the id of the call that runs: the first with these arguments that no other run has."""
        assert self._client is not None, "the tool is bound before the engine runs"
        state = await open_state(self._client.engine.store, session)
        for one in state.calls_running:
            is_same = one.call.name == self._agent.name and one.call.arguments == arguments
            if is_same and (session, one.call.call_id) not in self._running:
                return state.number, one.call.call_id
        raise BadInputError(f"no call of {self._agent.name} is open in this session")

    async def _answer(self, session: str, turn: int, call_id: str, task: str) -> str:
        assert self._client is not None, "the tool is bound before the engine runs"
        store = self._client.engine.store
        key = child_key(session, self._agent.name, turn, call_id)
        if not await _is_linked(store, session, turn, call_id):
            await store.admit(session, SessionLinked(turn, call_id, key, self._agent.name))
        child = await self._client.session(key, model=self._agent.model, system=self._agent.system)
        posted = await child.post(task, client_id=f"{turn}:{call_id}"[:200])
        return (await child.wait(posted)).text


def child_key(session: str, agent: str, turn: int, call_id: str) -> str:
    """Return the key of the session that a call runs. It begins with the caller's key, and so belongs to its tenant."""
    digest = sha256(f"{session}\0{turn}\0{call_id}".encode()).hexdigest()[:_ID_CHARS]
    depth = _MARK * (session.count(_MARK) + 1)
    return f"{session.partition(_MARK)[0][:_KEY_CHARS_MAX]}{depth}{agent}:{digest}"


async def _is_linked(store: Log, session: str, turn: int, call_id: str) -> bool:
    async for page in pages(store, session, after=turn):
        if any(isinstance(one.record, SessionLinked) and one.record.call_id == call_id for one in page):
            return True
    return False
