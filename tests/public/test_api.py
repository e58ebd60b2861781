"""The public API is the one in `api.txt`; its names are exported, documented and say what they do."""

import inspect
import re

import msgspec
import pytest

import holdfast
from tests.public.api import FILE, lines, members_of

# Types in public signatures that are not exported, each with its reason.
INTERNAL = {
    "Engine": "for other interfaces to the same store, as is `Client.engine`",
    "Supervisor": "an argument of `Client`, which `open` makes",
}
_NAME = re.compile(r"\b[A-Z]\w+\b")
CLASSES = [name for name in holdfast.__all__ if inspect.isclass(getattr(holdfast, name))]


def test_the_public_api_is_the_reviewed_one() -> None:
    assert list(lines()) == FILE.read_text("utf-8").splitlines(), "run `python -m tests.public.api`, and review it"


@pytest.mark.parametrize("name", CLASSES)
def test_a_public_name_and_its_members_have_a_docstring(name: str) -> None:
    found = getattr(holdfast, name)

    assert found.__doc__
    missing = [one for one, member in members_of(found).items() if callable(member) and not inspect.getdoc(member)]
    assert missing == []


@pytest.mark.parametrize("name", [one for one in CLASSES if issubclass(getattr(holdfast, one), msgspec.Struct)])
def test_every_field_has_a_sentence(name: str) -> None:
    found = getattr(holdfast, name)
    explained: set[str] = set()
    for base in found.__mro__:
        if base.__module__.startswith("holdfast"):
            explained |= _explained(base)

    assert set(found.__struct_fields__) - explained == set()


def _explained(found: type) -> set[str]:
    """Return the fields below a comment, which may stand above several, and those that the docstring speaks of."""
    doc = (found.__doc__ or "").lower()
    words = set(re.findall(r"\w+", doc)) | {word.rstrip("s") for word in re.findall(r"\w+", doc)}
    explained: set[str] = set()
    is_below_comment = False
    for line in inspect.getsource(found).splitlines():
        text = line.strip()
        if text.startswith("#"):
            is_below_comment = True
        elif field := re.match(r"(\w+): ", text):
            name = field.group(1)
            parts = name.split("_")
            if is_below_comment or any(part in words or part.rstrip("s") in words for part in (name, *parts)):
                explained.add(name)
        else:
            is_below_comment = False
    return explained


def test_signatures_name_only_what_is_exported() -> None:
    known = {*holdfast.__all__, *INTERNAL, "Any", "None", "False", "True", "Ellipsis", "NoneType"}
    known |= {"AsyncGenerator", "AsyncIterator", "Awaitable", "Callable", "Collection", "Coroutine", "Generator"}
    known |= {"Iterable", "Iterator", "Mapping", "Sequence", "Literal", "Path", "AbstractAsyncContextManager", "Self"}
    # Ports of a store, a model or a tool: documented in `holdfast.ports`.
    known |= {"Archive", "Blobs", "Feed", "Log", "Model", "Tool", "Delta"}
    for line in FILE.read_text("utf-8").splitlines():
        signature = line.partition("(")[2] if "(" in line else line.partition(": ")[2]
        signature = re.sub(r"<\w+\.\w+: [^>]*>|'[^']*'", "", signature)
        if line.startswith(("  holdfast.Client", "  holdfast.Session.")):
            assert set(_NAME.findall(signature)) <= known, line


def test_public_names_say_what_they_do() -> None:
    riddles = re.compile(r"\b\w*(?:sights|standing|owing|heed)\w*\b")

    assert [line for line in lines() if riddles.search(line.partition("(")[0])] == []


def test_the_version_is_that_of_the_package() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", holdfast.__version__)
