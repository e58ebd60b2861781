"""A refusal of the simulated model, ready for the wire."""

import msgspec

HTML_502 = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>"


class No(msgspec.Struct, frozen=True):
    """A refusal: its status, body and headers."""

    status: int
    body: bytes
    headers: dict[str, str] = {}
    content_type: str = "application/json"
