"""Stores of agent frameworks, each as its documentation recommends for durable sessions, behind one interface.

Every store writes the same conversation: one text per message, and a turn of a question, three tool calls with their
results, and an answer. `load` reads what the next turn of the framework reads. Imported where a framework is installed.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import holdfast
from holdfast.types.messages import Message, Role, Text, ToolCall, ToolResult

TEXT = "Sounding {0} of the day found sand and shells at low water, and the lead came up clean. " * 5
TOOL_CALLS = 3
# Messages of a turn: the question, three calls in one message, three results, the answer.
TURN_MESSAGES = 2 + 1 + TOOL_CALLS


# Names of the session in LangGraph and in ADK.
_THREAD: Any = {"configurable": {"thread_id": "s"}}
_SESSION: Any = {"app_name": "a", "user_id": "u", "session_id": "s"}


class PeerStore(Protocol):
    """A session of one store."""

    async def append(self, numbers: Sequence[int]) -> None:
        """Write messages of a user, together if the store can. When this returns, they are stored."""
        ...

    async def turn(self, number: int) -> None:
        """Write what one turn with three tool calls writes, in as many writes as the framework makes."""
        ...

    async def load(self) -> int:
        """Read what the next turn needs, and return the number of messages."""
        ...

    async def count(self) -> int:
        """Return the number of stored messages."""
        ...

    async def close(self) -> None:
        """Release the files."""
        ...


class _LoadsAll:
    """A store whose next turn reads every message."""

    async def load(self) -> int:
        raise NotImplementedError

    async def count(self) -> int:
        return await self.load()


class Plain(_LoadsAll):
    """The reference: one row and one commit per message with Python's sqlite3, WAL, synchronous FULL."""

    def __init__(self, folder: Path) -> None:
        self._base = sqlite3.connect(folder / "plain.db", isolation_level=None)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=FULL")
        self._base.execute("CREATE TABLE IF NOT EXISTS messages (seq INTEGER PRIMARY KEY, session TEXT, body TEXT)")

    async def append(self, numbers: Sequence[int]) -> None:
        self._base.execute("BEGIN IMMEDIATE")
        rows = [("s", TEXT.format(number)) for number in numbers]
        self._base.executemany("INSERT INTO messages (session, body) VALUES (?, ?)", rows)
        self._base.execute("COMMIT")

    async def turn(self, number: int) -> None:
        for _ in range(TURN_MESSAGES):
            await self.append([number])

    async def load(self) -> int:
        return len(self._base.execute("SELECT body FROM messages WHERE session = 's' ORDER BY seq").fetchall())

    async def close(self) -> None:
        self._base.close()


class Holdfast:
    """A session of Holdfast, with the simulated model. What does not fit into its window is compacted, as always."""

    def __init__(self, folder: Path) -> None:
        self._opening = holdfast.open(folder / "ours.db")
        self._client: Any = None
        self._session: Any = None

    async def _opened(self) -> Any:
        if self._session is None:
            self._client = await self._opening.__aenter__()
            self._session = await self._client.session("s")
        return self._session

    async def append(self, numbers: Sequence[int]) -> None:
        session = await self._opened()
        await session.append([_user(number) for number in numbers])

    async def turn(self, number: int) -> None:
        session = await self._opened()
        calls = tuple(ToolCall(f"c{number}-{one}", "read", "{}") for one in range(TOOL_CALLS))
        await session.append([_user(number), Message(Role.ASSISTANT, calls)])
        results = [ToolResult(call.call_id, (Text(TEXT.format(number)),)) for call in calls]
        await session.append([Message(Role.TOOL, (result,)) for result in results])
        await session.append([Message(Role.ASSISTANT, (Text(TEXT.format(number)),))])

    async def prepare(self) -> None:
        """Compact, as the next turn would: the window is full long before the last message."""
        await (await self._opened()).compact()

    async def load(self) -> int:
        context = await (await self._opened()).context()
        return len(context.messages)

    async def count(self) -> int:
        return len(await (await self._opened()).stored())

    async def close(self) -> None:
        if self._client is not None:
            await self._opening.__aexit__(None, None, None)


def _user(number: int) -> Message:
    return Message(Role.USER, (Text(TEXT.format(number)),))


class OpenAIAgents(_LoadsAll):
    """`SQLiteSession` of the OpenAI Agents SDK."""

    def __init__(self, folder: Path) -> None:
        from agents.memory import SQLiteSession  # noqa: PLC0415 - installed in one environment only; so below

        self._session: Any = SQLiteSession("s", folder / "peer.db")

    async def append(self, numbers: Sequence[int]) -> None:
        await self._session.add_items([{"role": "user", "content": TEXT.format(number)} for number in numbers])

    async def turn(self, number: int) -> None:
        text = TEXT.format(number)
        names = [f"c{number}-{one}" for one in range(TOOL_CALLS)]
        await self._session.add_items([{"role": "user", "content": text}])
        calls = [{"type": "function_call", "call_id": name, "name": "read", "arguments": "{}"} for name in names]
        outputs = [{"type": "function_call_output", "call_id": name, "output": text} for name in names]
        await self._session.add_items([*calls, *outputs])
        await self._session.add_items([{"role": "assistant", "content": text}])

    async def load(self) -> int:
        return len(await self._session.get_items())

    async def close(self) -> None:
        self._session.close()


class LangGraph(_LoadsAll):
    """`AsyncSqliteSaver` of LangGraph, under a graph of one node with the messages as its state."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "peer.db"
        self._graph: Any = None
        self._manager: Any = None

    async def _opened(self) -> Any:
        if self._graph is None:
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415
            from langgraph.graph import END, START, MessagesState, StateGraph  # noqa: PLC0415

            self._manager = AsyncSqliteSaver.from_conn_string(str(self._path))
            saver = await self._manager.__aenter__()
            builder = StateGraph(MessagesState)
            builder.add_node("keep", lambda _state: {"messages": []})
            builder.add_edge(START, "keep")
            builder.add_edge("keep", END)
            self._graph = builder.compile(checkpointer=saver)
        return self._graph

    async def append(self, numbers: Sequence[int]) -> None:
        graph = await self._opened()
        await graph.aupdate_state(_THREAD, {"messages": [("user", TEXT.format(one)) for one in numbers]})

    async def turn(self, number: int) -> None:
        graph, text = await self._opened(), TEXT.format(number)
        names = [f"c{number}-{one}" for one in range(TOOL_CALLS)]
        calls = [{"id": name, "name": "read", "args": {}} for name in names]
        await graph.aupdate_state(_THREAD, {"messages": [("user", text)]})
        await graph.aupdate_state(_THREAD, {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]})
        results = [{"role": "tool", "content": text, "tool_call_id": name} for name in names]
        await graph.aupdate_state(_THREAD, {"messages": results})
        await graph.aupdate_state(_THREAD, {"messages": [("assistant", text)]})

    async def load(self) -> int:
        state = await (await self._opened()).aget_state(_THREAD)
        return len(state.values["messages"])

    async def close(self) -> None:
        if self._manager is not None:
            await self._manager.__aexit__(None, None, None)


class Strands(_LoadsAll):
    """`FileSessionManager` of Strands Agents."""

    def __init__(self, folder: Path) -> None:
        from strands.session.file_session_manager import FileSessionManager  # noqa: PLC0415
        from strands.types.session import SessionAgent, SessionMessage  # noqa: PLC0415

        self._manager: Any = FileSessionManager("s", storage_dir=str(folder / "peer"))
        self._message, self._count = SessionMessage, 0
        if self._manager.read_agent("s", "a") is None:
            self._manager.create_agent("s", SessionAgent("a", {}, {}))
        else:
            self._count = len(self._manager.list_messages("s", "a"))

    async def append(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._write("user", [{"text": TEXT.format(number)}])

    def _write(self, role: str, content: list[Any]) -> None:
        message: Any = {"role": role, "content": content}
        self._manager.create_message("s", "a", self._message(message, self._count))
        self._count += 1

    async def turn(self, number: int) -> None:
        text = TEXT.format(number)
        names = [f"c{number}-{one}" for one in range(TOOL_CALLS)]
        self._write("user", [{"text": text}])
        self._write("assistant", [{"toolUse": {"toolUseId": name, "name": "read", "input": {}}} for name in names])
        results = [{"toolUseId": name, "status": "success", "content": [{"text": text}]} for name in names]
        self._write("user", [{"toolResult": result} for result in results])
        self._write("assistant", [{"text": text}])

    async def load(self) -> int:
        return len(self._manager.list_messages("s", "a"))

    async def close(self) -> None:
        pass


class Adk(_LoadsAll):
    """`SqliteSessionService` of Google ADK."""

    def __init__(self, folder: Path) -> None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService  # noqa: PLC0415

        self._service: Any = SqliteSessionService(str(folder / "peer.db"))
        self._session: Any = None

    async def _opened(self) -> Any:
        if self._session is None:
            self._session = await self._service.get_session(**_SESSION)
            self._session = self._session or await self._service.create_session(**_SESSION)
        return self._session

    async def append(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            await self._write("user", TEXT.format(number))

    async def _write(self, author: str, text: str, *, parts: Sequence[Any] = ()) -> None:
        from google.adk.events.event import Event  # noqa: PLC0415
        from google.genai import types  # noqa: PLC0415

        content = types.Content(role="user", parts=list(parts) or [types.Part(text=text)])
        await self._service.append_event(await self._opened(), Event(author=author, content=content))

    async def turn(self, number: int) -> None:
        from google.genai import types  # noqa: PLC0415

        text = TEXT.format(number)
        names = [f"c{number}-{one}" for one in range(TOOL_CALLS)]
        calls = [types.Part(function_call=types.FunctionCall(id=name, name="read", args={})) for name in names]
        answers = [types.FunctionResponse(id=name, name="read", response={"text": text}) for name in names]
        await self._write("user", text)
        await self._write("a", "", parts=calls)
        await self._write("a", "", parts=[types.Part(function_response=one) for one in answers])
        await self._write("a", text)

    async def load(self) -> int:
        return len((await self._service.get_session(**_SESSION)).events)

    async def close(self) -> None:
        pass


class LlamaIndex(_LoadsAll):
    """`SQLAlchemyChatStore` of LlamaIndex on SQLite."""

    def __init__(self, folder: Path) -> None:
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore  # noqa: PLC0415

        uri = f"sqlite+aiosqlite:///{folder / 'peer.db'}"
        self._store: Any = SQLAlchemyChatStore("messages", async_database_uri=uri)

    async def append(self, numbers: Sequence[int]) -> None:
        await self._store.add_messages("s", [self._message("user", TEXT.format(number)) for number in numbers])

    def _message(self, role: str, text: str, **kwargs: Any) -> Any:
        from llama_index.core.base.llms.types import ChatMessage  # noqa: PLC0415

        return ChatMessage(role=role, content=text, additional_kwargs=kwargs)

    async def turn(self, number: int) -> None:
        text = TEXT.format(number)
        names = [f"c{number}-{one}" for one in range(TOOL_CALLS)]
        calls = [{"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}} for name in names]
        await self._store.add_message("s", self._message("user", text))
        results = [self._message("tool", text, tool_call_id=name) for name in names]
        await self._store.add_messages("s", [self._message("assistant", "", tool_calls=calls), *results])
        await self._store.add_message("s", self._message("assistant", text))

    async def load(self) -> int:
        return len(await self._store.get_messages("s"))

    async def close(self) -> None:
        pass


class AgentFramework(_LoadsAll):
    """`FileHistoryProvider` of Microsoft's Agent Framework."""

    def __init__(self, folder: Path) -> None:
        from agent_framework import FileHistoryProvider  # noqa: PLC0415

        self._provider: Any = FileHistoryProvider(folder / "peer")

    def _message(self, role: str, content: Any) -> Any:
        from agent_framework import Message  # noqa: PLC0415

        return Message(role, content if isinstance(content, list) else [content])

    async def append(self, numbers: Sequence[int]) -> None:
        await self._provider.save_messages("s", [self._message("user", TEXT.format(number)) for number in numbers])

    async def turn(self, number: int) -> None:
        from agent_framework import Content  # noqa: PLC0415

        text = TEXT.format(number)
        names = [f"c{number}-{one}" for one in range(TOOL_CALLS)]
        calls = [Content.from_function_call(name, "read", arguments="{}") for name in names]
        results = [Content.from_function_result(name, result=text) for name in names]
        messages = [("user", text), ("assistant", calls), ("tool", results), ("assistant", text)]
        # Its agents save a turn in one call, when it has ended.
        await self._provider.save_messages("s", [self._message(role, content) for role, content in messages])

    async def load(self) -> int:
        return len(await self._provider.get_messages("s"))

    async def close(self) -> None:
        pass


class PydanticAI(_LoadsAll):
    """Pydantic AI, which has no store: the history as JSON in a file, as its documentation shows, flushed."""

    def __init__(self, folder: Path) -> None:
        from pydantic_ai.messages import ModelMessagesTypeAdapter  # noqa: PLC0415

        self._path, self._adapter = folder / "peer.json", ModelMessagesTypeAdapter
        self._messages: list[Any] = []
        if self._path.exists():
            self._messages = self._adapter.validate_json(self._path.read_bytes())

    async def append(self, numbers: Sequence[int]) -> None:
        from pydantic_ai.messages import ModelRequest, UserPromptPart  # noqa: PLC0415

        self._messages += [ModelRequest([UserPromptPart(TEXT.format(number))]) for number in numbers]
        self._save()

    def _save(self) -> None:
        import os  # noqa: PLC0415

        beside = self._path.with_suffix(".new")
        with beside.open("wb") as file:
            file.write(self._adapter.dump_json(self._messages))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

    async def turn(self, number: int) -> None:
        from pydantic_ai.messages import (  # noqa: PLC0415
            ModelRequest,
            ModelResponse,
            TextPart,
            ToolCallPart,
            ToolReturnPart,
            UserPromptPart,
        )

        text = TEXT.format(number)
        names = [f"c{number}-{one}" for one in range(TOOL_CALLS)]
        self._messages += [
            ModelRequest([UserPromptPart(text)]),
            ModelResponse([ToolCallPart("read", {}, tool_call_id=name) for name in names]),
            ModelRequest([ToolReturnPart("read", text, tool_call_id=name) for name in names]),
            ModelResponse([TextPart(text)]),
        ]
        # A run returns its messages when it has ended.
        self._save()

    async def load(self) -> int:
        return len(self._adapter.validate_json(self._path.read_bytes()))

    async def close(self) -> None:
        pass


Maker = Callable[[Path], PeerStore]
# Name -> the distribution whose version is reported, what is measured, and its class.
PEERS: dict[str, tuple[str, str, Maker]] = {
    "plain": ("", "sqlite3, one commit per message", Plain),
    "holdfast": ("holdfast", "Holdfast", Holdfast),
    "openai-agents": ("openai-agents", "OpenAI Agents SDK, SQLiteSession", OpenAIAgents),
    "langgraph": ("langgraph", "LangGraph, AsyncSqliteSaver", LangGraph),
    "strands": ("strands-agents", "Strands, FileSessionManager", Strands),
    "adk": ("google-adk", "Google ADK, SqliteSessionService", Adk),
    "llama-index": ("llama-index-core", "LlamaIndex, SQLAlchemyChatStore", LlamaIndex),
    "agent-framework": ("agent-framework-core", "Agent Framework, FileHistoryProvider", AgentFramework),
    "pydantic-ai": ("pydantic-ai-slim", "Pydantic AI, JSON file", PydanticAI),
}
