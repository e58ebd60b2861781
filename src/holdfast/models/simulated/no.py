"""A refusal of the simulated model, ready for the wire."""

import msgspec

_HTML_502 = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>"


class No(msgspec.Struct, frozen=True):
    """A refusal: its status, body and headers."""

    status: int
    body: bytes
    headers: dict[str, str] = {}
    content_type: str = "application/json"


def in_front(word: str) -> No | None:
    """Return what stands in front of every provider: a gateway that speaks HTML, or says nothing at all."""
    match word:
        case "502":
            return No(502, _HTML_502, content_type="text/html")
        case "bare-400":
            return No(400, b"")
        case _:
            return None
