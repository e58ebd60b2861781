"""A bot with a conversation per chat, as for Telegram: tools, a reply that is edited while it grows, no update twice.

Messengers deliver an update again if the bot was too slow or died. The update's id is the client id, so a repeated one
is the same message. Replace `Messenger` by the real API.

It prints:

    chat 42: … -> I will remember that berth = 17.
    chat 7: … -> The tool tide returned: high water at 14:20 in Kiel
    chat 42: … -> berth = 17.
    updates: 4, messages: 3
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import holdfast
from holdfast.types.records import InputAdmitted


@dataclass(frozen=True)
class Update:
    """A message to the bot."""

    update_id: int
    chat: int
    text: str


class Messenger:
    """The API of a messenger: updates in, messages out, edits of messages."""

    async def updates(self) -> AsyncIterator[Update]:
        """Yield updates; the second one comes twice."""
        yield Update(1, 42, "remember berth = 17")
        yield Update(2, 7, 'call tide {"place": "Kiel"}')
        yield Update(2, 7, 'call tide {"place": "Kiel"}')
        yield Update(3, 42, "what is berth?")

    def show(self, chat: int, text: str) -> None:
        """Send a message, or edit it to its final text."""
        print(f"chat {chat}: … -> {text}")


@dataclass
class Tables:
    """What the tools of the bot need."""

    high_water: dict[str, str]


@holdfast.tool
def tide(place: Annotated[str, "The name of the harbour."], context: holdfast.ToolContext[Tables]) -> str:
    """Return the time of the next high water."""
    context.progress(f"looking up {place}")
    return f"high water at {context.deps.high_water[place]} in {place}"


async def reply(client: holdfast.Client, messenger: Messenger, update: Update) -> None:
    """Answer one update. A failed turn has a sentence for the user."""
    chat = await client.session(f"telegram:{update.chat}")
    shown = ""
    try:
        async for event in chat.stream(update.text, client_id=f"update-{update.update_id}"):
            if isinstance(event, holdfast.TextDelta):
                shown += event.text
    except holdfast.TurnFailedError as failed:
        shown = failed.sentence
    messenger.show(update.chat, shown)


async def main() -> None:
    """Answer all updates, each once."""
    messenger, seen = Messenger(), set[int]()
    count = 0
    async with holdfast.open("bot.db", tools=[tide], deps=Tables({"Kiel": "14:20"})) as client:
        async for update in messenger.updates():
            count += 1
            if update.update_id not in seen:
                # A set is enough while the process lives; after a restart the client id does the same.
                seen.add(update.update_id)
                await reply(client, messenger, update)
        infos = await client.sessions()
        inputs = 0
        for info in infos:
            records = await (await client.session(info.key)).history()
            inputs += sum(isinstance(one.record, InputAdmitted) for one in records)
    print(f"updates: {count}, messages: {inputs}")


asyncio.run(main())
