"""What the demo says and sends: facts, pages of a logbook and a large image, all of them made from a seed."""

import random
import struct
import zlib
from collections.abc import Mapping
from types import MappingProxyType

# What a person would miss, in six kinds: a name, a number, a path, a moment, a phrase, an id.
_HARBOURS = ("Kiel", "Malmö", "Riga", "Turku", "Visby", "Gdynia", "Tallinn", "Rostock")
_HINTS = ("the blue door", "two lanterns", "a broken oar", "the seventh step", "salt and tar")

# Words from which pages are made: a sentence takes one of each, so pages differ and yet read like a logbook.
_WHEN = ("At dawn", "Before noon", "In the dog watch", "After the squall", "At dusk", "During the night watch", "Later")
_WHO = ("the captain", "our cook", "a sailor", "the carpenter", "the pilot")
_DID = ("mended", "inspected", "painted", "took down", "complained about", "praised", "lost", "found again", "sketched")
_WHAT = ("the main sail", "a lamp", "the rudder", "some rope", "the pump", "a chart", "the bell", "an anchor chain")
_WHY = ("as the wind fell", "while it rained", "without a word", "to pass the time", "in good cheer")

# Colours at random do not compress, so this many pixels are 30 MB of image.
IMAGE_BYTES = 30_000_000
_IMAGE_WIDTH = 4_000
_RGB_BYTES = 3


class Made:
    """Everything that one seed makes."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.facts: Mapping[str, str] = MappingProxyType(_facts(random.Random(f"facts {seed}")))  # noqa: S311 - no secret

    def page(self, number: int, sentences: int) -> str:
        """Return a page of the logbook; the same number gives the same page."""
        chosen = random.Random(f"page {self._seed} {number}")  # noqa: S311 - no secret
        return " ".join(
            f"{chosen.choice(_WHEN)} {chosen.choice(_WHO)} {chosen.choice(_DID)} {chosen.choice(_WHAT)} "
            f"{chosen.choice(_WHY)}."
            for _ in range(sentences)
        )

    def image(self, size_bytes: int = IMAGE_BYTES) -> bytes:
        """Return a PNG of noise with at least so many bytes."""
        height = -(-size_bytes // (_IMAGE_WIDTH * _RGB_BYTES))
        noise = random.Random(f"image {self._seed}").randbytes(height * _IMAGE_WIDTH * _RGB_BYTES)  # noqa: S311 - no secret
        row = _IMAGE_WIDTH * _RGB_BYTES
        # Each row begins with the number of its filter: none.
        rows = b"".join(b"\x00" + noise[at : at + row] for at in range(0, len(noise), row))
        head = struct.pack(">IIBBBBB", _IMAGE_WIDTH, height, 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)

    def chance(self, purpose: str) -> random.Random:
        """Return chance for a purpose, the same for the same seed."""
        return random.Random(f"{purpose} {self._seed}")  # noqa: S311 - no secret


def _facts(chosen: random.Random) -> dict[str, str]:
    return {
        "harbour": chosen.choice(_HARBOURS),
        "berth": f"{chosen.randrange(10, 99)}-{chosen.choice('ABCDEF')}",
        "chart": f"/charts/baltic/{chosen.randrange(2020, 2040)}.pdf",
        "departure": f"20{chosen.randrange(26, 40)}-0{chosen.randrange(1, 10)}-1{chosen.randrange(10)} 06:40",
        "password-hint": chosen.choice(_HINTS),
        "voucher": f"HF-{chosen.getrandbits(32):08x}",
    }


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(name)))
