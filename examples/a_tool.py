"""A tool that costs something: its intent is on disk before it runs, and it runs once, whatever dies.

The answer streams; records tell what happens beside it. It prints:

    - book is about to run
    - book has returned
    The tool book returned: berth 17-B is booked for Ada
"""

import asyncio

import holdfast
from holdfast.types.records import ToolSettled, ToolStarted


@holdfast.tool
def book(berth: str, guest: str) -> str:
    """Book a berth for a guest."""
    return f"berth {berth} is booked for {guest}"


async def main() -> None:
    """Have the model call the tool, and show what happens."""
    async with holdfast.open("examples.db", tools=[book]) as client:
        chat = await client.session("harbour")
        async for event in chat.stream('call book {"berth": "17-B", "guest": "Ada"}'):
            match event:
                case holdfast.TextDelta(text=text):
                    print(text, end="", flush=True)
                case holdfast.Logged(record=ToolStarted(name=name)):
                    print(f"- {name} is about to run")
                case holdfast.Logged(record=ToolSettled()):
                    print("- book has returned")
                case _:
                    pass
        print()


asyncio.run(main())
