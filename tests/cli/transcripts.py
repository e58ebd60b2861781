"""Small transcripts in the neutral format, for tests of commands."""

import gzip
import json
from pathlib import Path


def a_message(session_id: str, seq: int, role: str, *parts: object, **fields: object) -> dict[str, object]:
    found = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"session_id": session_id, "seq": seq, "role": role, "parts": found, **fields}


def a_call(name: str, **arguments: object) -> dict[str, object]:
    return {"type": "tool_call", "id": "1", "name": name, "args": arguments}


def a_result(text: str) -> dict[str, object]:
    return {"type": "tool_result", "id": "1", "text": text}


def write_transcript(path: Path, *messages: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "".join(json.dumps(message) + "\n" for message in messages).encode()
    path.write_bytes(gzip.compress(body) if path.suffix == ".gz" else body)
    return path
