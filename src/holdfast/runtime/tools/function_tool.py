"""Tools from typed Python functions: the type hints give the JSON Schema for the model and validate its arguments.

A function that cannot be a tool is rejected at its declaration, not at its first call. A synchronous function runs in a
thread of its own, because it may block; such a thread cannot be stopped, only abandoned.
"""

import asyncio
import contextvars
import inspect
import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec

from holdfast.errors import BadInputError, RetryLaterError, UsageError
from holdfast.ports import Attachment
from holdfast.types.messages import ToolSpec

P = ParamSpec("P")
R = TypeVar("R")

# Threads of one tool that run past their deadline. At this number the tool is not started until one returns.
STUCK_THREADS_MAX = 16


class FunctionTool(Generic[P, R]):
    """A function that a model can call. A call from Python runs the function itself."""

    def __init__(
        self,
        function: Callable[P, R],
        spec: ToolSpec,
        arguments: type[msgspec.Struct],
        *,
        idempotent: bool,
        seconds: float,
    ) -> None:
        self.spec = spec
        self.is_idempotent = idempotent
        # Infinite: the maximum of the toolbox applies.
        self.seconds_max = seconds
        self._function = function
        self._decoder = msgspec.json.Decoder(arguments)
        self._is_async = inspect.iscoroutinefunction(function)
        self._stuck_threads = 0
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self._function(*args, **kwargs)

    async def run(self, arguments: str) -> Sequence[str | Attachment]:
        """Run with the JSON arguments of the model. Invalid ones raise `BadInputError` before anything runs."""
        call: Callable[[], object] = partial(self._function, **self._decode(arguments))
        value = call() if self._is_async else await self._in_thread(call)
        if inspect.isawaitable(value):
            value = await value
        return _output(value)

    def _decode(self, arguments: str) -> dict[str, Any]:
        """Return the arguments by name. Some models write an empty string for no arguments."""
        try:
            decoded = self._decoder.decode(arguments.encode() if arguments.strip() else b"{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInputError(
                f"the tool {self.spec.name} did not run: {error}. "
                f"Write one JSON object with these arguments: {_signature(self.spec)}"
            ) from error
        return {name: getattr(decoded, name) for name in decoded.__struct_fields__}

    async def _in_thread(self, call: Callable[[], object]) -> object:
        """Run a call in a thread of its own: calls that never return would exhaust a pool."""
        if self._stuck_threads >= STUCK_THREADS_MAX:
            raise RetryLaterError(
                f"the tool {self.spec.name} did not run: {self._stuck_threads} earlier runs passed their deadline and "
                "have not returned"
            )
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[object] = loop.create_future()
        result = _ThreadResult(loop, settled)
        work = partial(contextvars.copy_context().run, result.deliver, call)
        # A daemon thread, so that a call that never returns does not keep the process alive.
        threading.Thread(target=work, name=f"tool {self.spec.name}", daemon=True).start()
        try:
            return await asyncio.shield(settled)
        except asyncio.CancelledError:
            if not settled.done():
                self._stuck_threads += 1
                settled.add_done_callback(self._unstuck)
            raise

    def _unstuck(self, settled: asyncio.Future[object]) -> None:
        self._stuck_threads -= 1
        # Retrieve the exception so that asyncio does not log it.
        settled.exception()


class _ThreadResult:
    """Delivers the result of a call from its thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settled: asyncio.Future[object]) -> None:
        self._loop = loop
        self._settled = settled

    def deliver(self, call: Callable[[], object]) -> None:
        settle: Callable[[], None]
        try:
            settle = partial(self._settled.set_result, call())
        except StopIteration as error:
            # A future cannot hold a StopIteration.
            settle = partial(self._settled.set_exception, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - around a tool; it is raised again where the call is awaited
            settle = partial(self._settled.set_exception, error)
        try:
            self._loop.call_soon_threadsafe(settle)
        except RuntimeError:
            # The loop is closed, and no task waits for the result.
            return


@overload
def tool(
    function: Callable[P, R],
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds_max: float = math.inf,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds_max: float = math.inf,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds_max: float = math.inf,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a typed function a tool; use it as a decorator, with or without arguments.

    The description is the first paragraph of the docstring. An `idempotent` tool may run again after a crash. Without
    `seconds_max` the maximum of the toolbox applies. Raises `UsageError` for a function that cannot be a tool.
    """
    if function is None:

        def declare(decorated: Callable[P, R]) -> FunctionTool[P, R]:
            return tool(decorated, name=name, description=description, idempotent=idempotent, seconds_max=seconds_max)

        return declare
    # Raises UsageError for anything that is not a plain function or method.
    called = _function_name(function)
    if not seconds_max > 0:
        raise UsageError(f"tool {called}: seconds_max is {seconds_max}; give a positive number of seconds")
    arguments = _arguments_struct(function, called)
    spec = ToolSpec(
        name=name or called,
        description=_first_paragraph(function) if description is None else description,
        parameters=_parameters_schema(arguments),
    )
    return FunctionTool(function, spec, arguments, idempotent=idempotent, seconds=seconds_max)


# --- Arguments ---


def _function_name(function: Callable[..., object]) -> str:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise UsageError(f"{function!r} is not a function; write a function that calls it and make that a tool")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"tool {function.__name__}: it yields; return a list instead")
    return function.__name__


def _first_paragraph(function: Callable[..., object]) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _arguments_struct(function: Callable[..., object], called: str) -> type[msgspec.Struct]:
    """Return a struct with a field per parameter, which decodes the model's arguments and rejects unknown ones."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UsageError(
            f"tool {called}: its type hints cannot be read ({error}); define its types at the top of the module"
        ) from error
    fields = [_field(called, parameter, hints) for parameter in inspect.signature(function).parameters.values()]
    return msgspec.defstruct(f"{called}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _field(called: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> tuple[str, Any, Any]:
    where = f"tool {called}, parameter {parameter.name!r}"
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        raise UsageError(f"{where}: variable arguments have no schema; name each argument, or use a list or a dict")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise UsageError(f"{where}: it is positional-only, and a model passes names; remove the '/'")
    if parameter.name not in hints:
        raise UsageError(
            f"{where}: it has no type; annotate it, as in `{parameter.name}: str`. Pass a method bound to its object"
        )
    hint = hints[parameter.name]
    try:
        msgspec.json.schema(hint)
        msgspec.json.Decoder(hint)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{where}: its type {hint} cannot be described in JSON; use str, int, float, bool, list, dict, Literal, "
            "an enum, a dataclass or a msgspec.Struct"
        ) from error
    if parameter.default is parameter.empty:
        return parameter.name, hint, msgspec.NODEFAULT
    return parameter.name, hint, _default(parameter.default)


def _default(default: object) -> object:
    # A struct requires a factory for a mutable default; the factory returns the same object as a Python call would get.
    # The schema then has no default, and none that JSON cannot represent.
    if default is None or isinstance(default, str | int | Enum):
        return default
    if isinstance(default, float) and math.isfinite(default):
        return default
    return msgspec.field(default_factory=lambda: default)


def _parameters_schema(arguments: type[msgspec.Struct]) -> str:
    """Return the JSON Schema in the form that providers accept: an object at the top, referenced types in $defs."""
    (reference,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema = components.pop(reference["$ref"].removeprefix("#/$defs/"))
    del schema["title"]
    if components:
        schema["$defs"] = components
    return json.dumps(schema, ensure_ascii=False)


def _signature(spec: ToolSpec) -> str:
    """Return the arguments on one line for a model, as in "path (string, required), depth (integer)"."""
    schema = json.loads(spec.parameters)
    required = schema.get("required", [])
    named = [
        f"{name} ({_kind(shape)}{', required' if name in required else ''})"
        for name, shape in schema["properties"].items()
    ]
    return ", ".join(named) or "none"


def _kind(shape: Mapping[str, Any]) -> str:
    if "enum" in shape:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in shape["enum"])
    if "anyOf" in shape:
        return " or ".join(_kind(choice) for choice in shape["anyOf"])
    return str(shape.get("type", "see its schema"))


# --- Output ---


def _output(value: object) -> Sequence[str | Attachment]:
    if value is None:
        return ["done"]
    if isinstance(value, list | tuple) and value and all(isinstance(each, str | bytes | Attachment) for each in value):
        return [_piece(each) for each in value]
    return [_piece(value)]


def _piece(value: object) -> str | Attachment:
    if isinstance(value, str | Attachment):
        return value
    if isinstance(value, bytes):
        return Attachment(data=value)
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # A lone surrogate; `json` escapes it.
        return json.dumps(msgspec.to_builtins(value, str_keys=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"the tool ran, but its result of type {type(value).__name__} cannot be encoded as JSON ({error})"
        ) from error
