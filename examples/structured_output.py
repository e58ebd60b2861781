"""Extract typed values from text.

The type is a dataclass here; msgspec structs, TypedDicts and pydantic models work alike. The answer is checked, and a
wrong one is repaired by the model. The simulated model answers, so no key is needed.

It prints:

    Port(harbour='Kiel', depth=12, berths=['north', 'south'])
    12 fathoms at most: True
"""

import asyncio
from dataclasses import dataclass, field

import holdfast


@dataclass
class Port:
    """A port, as it is described in a message."""

    harbour: str
    depth: int
    berths: list[str] = field(default_factory=list)


async def main() -> None:
    """Ask for a port, and use its fields."""
    async with holdfast.open(":memory:") as client:
        chat = await client.session("extraction")
        answer = await chat.send("The pilot writes: harbour = Kiel, depth = 12, berths = north/south", output=Port)
        print(answer.output)
        print("12 fathoms at most:", answer.output.depth <= 12)


asyncio.run(main())
