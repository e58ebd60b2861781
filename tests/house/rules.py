"""Limits and exceptions of the checks in this folder. Every exception has its reason."""

from collections.abc import Collection, Mapping

PACKAGE = "holdfast"

# Lowest floor first; a module belongs to the longest name that it starts with. It may import lower floors, its own
# room, and modules of the same package on its own floor. "" is the package's own __init__.
FLOORS: tuple[tuple[str, ...], ...] = (
    # `types` is everything that is on disk; it imports nothing of ours.
    ("types", "errors"),
    ("core",),
    ("ports",),
    (
        "stores",
        "models",
        "runtime.tools.toolbox",
        "runtime.tools.function_tool",
        "runtime.tools.parameters",
        "runtime.tools.tool_context",
        "runtime.outputs",
        "runtime.sessions.admission",
        "runtime.images",
        "runtime.clock",
    ),
    # Everything else of the runtime is beside the runner.
    ("runtime",),
    ("runtime.maintenance.supervisor",),
    ("runtime.sessions.session", "runtime.sessions.approving"),
    ("runtime.sessions.client",),
    # A sub-agent is a tool that uses the client.
    ("runtime.subagents",),
    ("gateway", "adapters", "rescue"),
    # The proxy records a client's messages as an import does.
    ("gateway.proxy",),
    ("config",),
    ("wiring",),
    ("", "cli", "blocking", "http"),
    # Measures and breaks Holdfast with commands of its own. Only the command line loads it, by name.
    ("lab",),
    ("cli.commands.lab",),
    ("__main__", "cli.__main__"),
)

# Shipped for tests: it may look at everything, and only tests may look at it.
TESTING = "testing"

# All that `core` may import beside itself and `errors`. None of these reads a clock, a disk, a network or chance by
# being imported, and what could (a date's `now`) is in IMPURE_CALLS. `pkgutil` reads data files of the package, which
# are as constant as its code.
CORE_MAY_IMPORT = frozenset(
    {
        "abc",
        "base64",
        "bisect",
        "codecs",
        "collections",
        "collections.abc",
        "dataclasses",
        "datetime",
        "difflib",
        "email.utils",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "html",
        "itertools",
        "json",
        "math",
        "msgspec",
        "msgspec.json",
        "msgspec.structs",
        "operator",
        "pkgutil",
        "re",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
        "zlib",
    }
)

# Calls that would make `core` depend on something else than its arguments, by their last two names at most.
IMPURE_CALLS = frozenset(
    {
        "__import__",
        "breakpoint",
        "datetime.now",
        "datetime.today",
        "datetime.utcnow",
        "date.today",
        "eval",
        "exec",
        "input",
        "open",
        "print",
        "utils.formatdate",
        "utils.localtime",
        "utils.make_msgid",
    }
)

# Limits of a module and a function in lines, and of a function in parameters.
MODULE_LINES_MAX = 450
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 6

# "module.function" -> why it is better long, or with more parameters. Commands of click are not counted: they have a
# parameter per option and are never called.
LONG_FUNCTIONS: Mapping[str, str] = {
    "wiring.library.open": "half of it is the docstring: the reference of its arguments",
}
MANY_PARAMETERS: Mapping[str, str] = {
    "runtime.tools.function_tool.tool": "a decorator: each argument by its name and none needed",
    "runtime.tools.mcp_server.MCPServer.stdio": "a description: each argument by its name and two needed",
    "wiring.library.open": "everything that can be put together differently, each by its name and none needed",
    "runtime.sessions.session.Session.send": "a message and its options, each by its name and none needed",
    "runtime.sessions.session.Session.stream": "those of send",
    "runtime.sessions.session.Session.post": "those of send",
    "runtime.sessions.client.Client.sessions": "the filters of a list, each by its name and none needed",
    "stores.sqlite.batch.Batch.extend": "the records and everything that is kept about them in one transaction",
}

# A function with more decisions than this cannot be tested path by path, nor read in one go.
COMPLEXITY_MAX = 12

# "module.function" -> why it is better not split.
COMPLEX_FUNCTIONS: Mapping[str, str] = {
    "adapters.adk._messages": "one branch per kind of part in the ADK's events",
    "adapters.llama_index._messages": "one branch per role and block of LlamaIndex",
    "adapters.pydantic_ai.HoldfastConversationStore._shown": "the one place that compares a view with a history",
    "core.integrity.reconcile.describe": "an exhaustive match over every repair",
    "runtime.sessions.record_text.describe_record": "an exhaustive match over every record",
}

# Functions still to be split, as in issue F. This table may only shrink, and goes when it is empty.
COMPLEX_FOR_NOW: Collection[str] = ()

# A folder that one can survey; package files (`__init__`) are not counted.
FOLDER_MODULES_MAX = 16
# Rooms that the engine and its faces never import: a reader of those can pass over them, and each may grow by itself.
ASIDE = ("adapters", "lab", "rescue.formats", TESTING)
# Modules in the tree, package files and rooms aside not counted.
MODULES_MAX = 330

# Room -> the largest number of our modules that one module in it may import.
IMPORTS_MAX: Mapping[str, int] = {
    # The proxy is a face of the engine: a module that needs more than this decides something that the engine should.
    "gateway.proxy": 15,
}
# Modules above it until the engine decides for the proxy, as in issue F.
MANY_IMPORTS_FOR_NOW: Collection[str] = ()

# Rooms whose values do not count as set by production code: they measure the rest or are shipped for tests.
MEASURING_ROOMS = ("testing", "lab", "cli.commands.analyse")

# "module.Class.field" -> why it has a default although no code sets it.
UNSET_FIELDS: Mapping[str, str] = {
    "lab.benches.harness.Effort.short_records": "the size of a benchmark, which its tests make smaller",
}

# Fields that only tests set, so the code that reads them never acts: set them or remove them, as in issue F.
UNSET_FOR_NOW: Collection[str] = ()

# Words that say nothing: as a whole name, or as the last word of one.
EMPTY_WORDS = frozenset(
    {"data", "info", "item", "obj", "manager", "helper", "helpers", "util", "utils", "handle", "process", "impl", "v2"}
)
# Words that say nothing at the beginning of a function's name.
EMPTY_VERBS = frozenset({"do", "handle", "process", "new"})

# The glossary's "not" column: what a class or a function may not be called, and the word to use instead. Words that
# have an everyday meaning in code as well ("run", "file", "cut") are left to the reader.
SYNONYMS: Mapping[str, str] = {
    "thread": "session",
    "chat": "session",
    "entry": "record",
    "item": "record",
    "block": "part",
    "offset": "boundary",
    "job": "turn",
    "fallback": "rung",
    "strategy": "rung",
    "summarisation": "compaction",
    "summarization": "compaction",
    "commit": "compaction",
    "lock": "lease",
    "prompt": "view",
}

# (module or room, name) -> why this name stands although a rule is against it.
NAMES_ALLOWED: Mapping[tuple[str, str], str] = {
    ("ports", "SessionInfo"): "the store port's answer to `info`; a contract that every store and face knows",
    ("ports", "info"): "the store port's own method",
    ("stores", "info"): "implements the port's method",
    ("stores", "_SELECT_INFO"): "the statement behind the port's method",
    ("testing", "info"): "implements the port's method",
    ("testing", "die_in_process"): "a process of the operating system",
    ("ports", "data"): "Attachment.data: bytes of which nothing is known but their length",
    ("models", "data"): "a field of the providers' wire formats",
    ("models", "file_data"): "a field of the providers' wire formats",
    ("models", "inline_data"): "a field of the providers' wire formats",
    ("models", "item"): "a field of the providers' wire formats",
    ("cli", "chat"): "the command of that name",
    ("adapters", "data"): "the argument of a storage of Strands",
    ("adapters", "pop_item"): "the method of a session of the Agents SDK",
    ("http", "handle_request"): "the method of a transport of httpx",
    ("http", "handle_async_request"): "the method of a transport of httpx",
    ("runtime.tools.mcp_http", "handle_async_request"): "the method of a transport of httpx",
}

# Rooms that speak other people's languages: there a "block" is what the provider calls a block.
FOREIGN_ROOMS = ("models", "gateway", "adapters", "rescue")

# "module.function" -> why it may catch everything. A handler that ends in a bare `raise` catches nothing.
BROAD_HANDLERS: Mapping[str, str] = {
    "models.http.HttpModel.stream": "around the user's function for a key: the next model may have one",
    "runtime.tools.toolbox.Toolbox.needs_approval": "around the user's rule: a call that should wait must not run",
    "runtime.tools.toolbox.Toolbox._run_once": "around a tool: its failure is for the model to read",
    "runtime.tools.function_tool._ThreadResult.deliver": "the same tool in its thread: re-raised where awaited",
    "runtime.images._shrunk": "around a decoder of foreign bytes: an error leaves the image unchanged",
    "runtime.maintenance.supervisor.Supervisor._work": "around a runner: a failure must not stop the others",
    "gateway.http.app.Gateway._respond": "around a request: its failure must not stop the others, and is answered",
    "http._Call._serve": "around a request: its failure is answered, or ends the response",
    "lab.crashlab.children._run_child": "around a forked child, which must not continue as its parent",
    "wiring.library._run_apart.run": "swallows nothing: carries it over to the calling thread, where it is raised",
}
