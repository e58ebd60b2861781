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
import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, get_origin, get_type_hints, overload

import msgspec

from holdfast.errors import BadInputError, RetryLaterError, UsageError
from holdfast.ports import Attachment
from holdfast.runtime.tools.parameters import (
    decode_hook,
    described,
    docstring_parameters,
    encode_hook,
    is_field,
    parameters_schema,
    schema_hook,
)
from holdfast.runtime.tools.tool_context import AnyContext, ToolContext
from holdfast.types.messages import ToolSpec

P = ParamSpec("P")
R = TypeVar("R")

# Threads of one tool that run past their deadline. At this number the tool is not started until one returns.
STUCK_THREADS_MAX = 16
# Runs of one call that a tool may ask for. A failure that repeats as often is not a passing one.
RETRIES_MAX = 10

# Whether a call needs an approval: always, never, or by its arguments.
Approve: TypeAlias = bool | Callable[[dict[str, Any]], bool]


class ToolOptions(msgspec.Struct, frozen=True):
    """How the runs of a tool are treated."""

    idempotent: bool = False
    # Infinite: the maximum of the toolbox applies.
    seconds_max: float = math.inf
    # Further runs after a failure.
    retries: int = 0
    approve: Approve = False


class FunctionTool(Generic[P, R]):
    """A function that a model can call. A call from Python runs the function itself."""

    def __init__(
        self,
        function: Callable[P, R],
        spec: ToolSpec,
        arguments: type[msgspec.Struct],
        options: ToolOptions,
    ) -> None:
        self.spec = spec
        self.is_idempotent = options.idempotent
        self.seconds_max = options.seconds_max
        self.retries = options.retries
        self.approve = options.approve
        self._function = function
        self._context_name = _context_parameter(function)
        self._decoder = msgspec.json.Decoder(arguments, dec_hook=decode_hook)
        self._is_async = inspect.iscoroutinefunction(function)
        self._stuck_threads = 0
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self._function(*args, **kwargs)

    async def run(self, arguments: str, context: AnyContext | None = None) -> Sequence[str | Attachment]:
        """Run with the JSON arguments of the model. Invalid ones raise `BadInputError` before anything runs."""
        given = self._decode(arguments)
        if self._context_name:
            given[self._context_name] = context
        call: Callable[[], object] = partial(self._function, **given)
        value = call() if self._is_async else await self._in_thread(call)
        if inspect.isawaitable(value):
            value = await value
        return await _output(value)

    def needs_approval(self, arguments: str) -> bool:
        """Return whether a call waits for an approval. One with invalid arguments does not run at all."""
        if not callable(self.approve):
            return self.approve
        try:
            given = json.loads(arguments or "{}")
        except ValueError:
            return False
        return isinstance(given, dict) and bool(self.approve(given))

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
    retries: int = 0,
    approve: Approve = False,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds_max: float = math.inf,
    retries: int = 0,
    approve: Approve = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(  # noqa: PLR0913 - a decorator: every argument has a name and a default
    function: Callable[P, R] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    seconds_max: float = math.inf,
    retries: int = 0,
    approve: Approve = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a typed function a tool; use it as a decorator, with or without arguments.

    The description is the first paragraph of the docstring. Descriptions of parameters come from `Annotated[str, "…"]`,
    `msgspec.Meta`, pydantic's `Field`, or the docstring. A parameter of type `ToolContext` gets the context of the
    call. An `idempotent` tool may run again after a crash, and `retries` allows further runs after it has raised.
    Without `seconds_max` the maximum of the toolbox applies. With `approve`, or if `approve(arguments)` is true, a call
    waits until a person approves it. Raises `UsageError` for a function that cannot be a tool.
    """
    options = ToolOptions(idempotent, seconds_max, retries, approve)
    if function is None:

        def declare(decorated: Callable[P, R]) -> FunctionTool[P, R]:
            return _declared(decorated, name, description, options)

        return declare
    return _declared(function, name, description, options)


def _declared(
    function: Callable[P, R], name: str | None, description: str | None, options: ToolOptions
) -> FunctionTool[P, R]:
    # Raises UsageError for anything that is not a plain function or method.
    called = _function_name(function)
    if not options.seconds_max > 0:
        raise UsageError(f"tool {called}: seconds_max is {options.seconds_max}; give a positive number of seconds")
    if not 0 <= options.retries <= RETRIES_MAX:
        raise UsageError(f"tool {called}: retries is {options.retries}; give a number from 0 to {RETRIES_MAX}")
    arguments = _arguments_struct(function, called)
    spec = ToolSpec(
        name=name or called,
        description=_first_paragraph(function) if description is None else description,
        parameters=json.dumps(parameters_schema(arguments), ensure_ascii=False),
    )
    if not spec.description:
        sentence = f"tool {spec.name} has no description, so a model must guess what it does; write a docstring"
        # Two frames up: the line that declares the tool.
        warnings.warn(sentence, UserWarning, stacklevel=3)
    return FunctionTool(function, spec, arguments, options)


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
    told = docstring_parameters(function)
    fields = [
        _field(called, parameter, hints, told.get(parameter.name, ""))
        for parameter in inspect.signature(function).parameters.values()
        if not _is_context(hints.get(parameter.name))
    ]
    return msgspec.defstruct(f"{called}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _is_context(hint: object) -> bool:
    return hint is ToolContext or get_origin(hint) is ToolContext


def _context_parameter(function: Callable[..., object]) -> str:
    """Return the name of the parameter that takes the context; "" if there is none."""
    hints = get_type_hints(function, include_extras=True)
    return next((name for name, hint in hints.items() if name != "return" and _is_context(hint)), "")


def _field(called: str, parameter: inspect.Parameter, hints: Mapping[str, Any], told: str) -> tuple[str, Any, Any]:
    where = f"tool {called}, parameter {parameter.name!r}"
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        raise UsageError(f"{where}: variable arguments have no schema; name each argument, or use a list or a dict")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise UsageError(f"{where}: it is positional-only, and a model passes names; remove the '/'")
    if parameter.name not in hints:
        raise UsageError(
            f"{where}: it has no type; annotate it, as in `{parameter.name}: str`. Pass a method bound to its object"
        )
    default = parameter.default
    if is_field(default):
        told = default.description or told
        default = parameter.empty if default.is_required() else default.get_default(call_default_factory=True)
    hint = described(hints[parameter.name], told)
    try:
        msgspec.json.schema(hint, schema_hook=schema_hook)
        msgspec.json.Decoder(hint, dec_hook=decode_hook)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise UsageError(
            f"{where}: its type {hint} cannot be described in JSON; use str, int, float, bool, list, dict, Literal, "
            "an enum, a dataclass, a msgspec.Struct or a pydantic model"
        ) from error
    if default is parameter.empty:
        return parameter.name, hint, msgspec.NODEFAULT
    return parameter.name, hint, _default(default)


def _default(default: object) -> object:
    # A struct requires a factory for a mutable default; the factory returns the same object as a Python call would get.
    # The schema then has no default, and none that JSON cannot represent.
    if default is None or isinstance(default, str | int | Enum):
        return default
    if isinstance(default, float) and math.isfinite(default):
        return default
    return msgspec.field(default_factory=lambda: default)


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


async def _output(value: object) -> Sequence[str | Attachment]:
    if value is None:
        return ["done"]
    kinds = str | bytes | Attachment | Path
    if isinstance(value, list | tuple) and value and all(isinstance(each, kinds) for each in value):
        return [await _piece(each) for each in value]
    return [await _piece(value)]


async def _piece(value: object) -> str | Attachment:
    if isinstance(value, str | Attachment):
        return value
    if isinstance(value, bytes):
        return Attachment(data=value)
    if isinstance(value, Path):
        # A file that the tool made: its content is the result.
        return Attachment(data=await asyncio.to_thread(value.read_bytes), name=value.name)
    try:
        return msgspec.json.encode(value, enc_hook=encode_hook).decode()
    except UnicodeEncodeError:
        # A lone surrogate; `json` escapes it.
        return json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=encode_hook))
    except (TypeError, ValueError, RecursionError, NotImplementedError) as error:
        raise TypeError(
            f"the tool ran, but its result of type {type(value).__name__} cannot be encoded as JSON ({error})"
        ) from error
