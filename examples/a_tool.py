"""A tool with side effects: its start is recorded before it runs, so a crash never makes it run twice.

The answer streams; records report the tool calls. It prints:

    - book started
    - book returned
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
    """Let the model call the tool, and print the events."""
    async with holdfast.open("examples.db", tools=[book]) as client:
        chat = await client.session("harbour")
        async for event in chat.stream('call book {"berth": "17-B", "guest": "Ada"}'):
            match event:
                case holdfast.TextDelta(text=text):
                    print(text, end="", flush=True)
                case holdfast.Logged(record=ToolStarted(name=name)):
                    print(f"- {name} started")
                case holdfast.Logged(record=ToolSettled()):
                    print("- book returned")
                case _:
                    pass
        print()


asyncio.run(main())
