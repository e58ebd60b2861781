"""Where the golden files are, and how they are read and written."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "files"


def without_comments(sql: str) -> str:
    """Return SQL as one line without comments, which mean nothing to a database."""
    return " ".join(re.sub(r"--[^\n]*", "", sql).split())


def read_lines(name: str, folder: Path = FOLDER) -> list[bytes]:
    """Return the lines of a golden file, without their ends."""
    return (folder / name).read_bytes().removesuffix(b"\n").split(b"\n")


def read_json(name: str, folder: Path = FOLDER) -> Any:
    """Return the content of a golden JSON file."""
    return json.loads((folder / name).read_bytes())


def lines_text(lines: Iterable[bytes]) -> bytes:
    """Return lines as the content of a file."""
    return b"".join(line + b"\n" for line in lines)


def json_line(value: Any) -> bytes:
    """Return a value as one line of JSON."""
    return json.dumps(value, ensure_ascii=False).encode()


def json_text(value: Any) -> bytes:
    """Return a value as a JSON file with one fact per line."""
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"
