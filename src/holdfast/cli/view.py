"""The command `view`: what the model sees of a session now."""

import asyncio
from collections.abc import Sequence

import click
import msgspec

from holdfast import wiring
from holdfast.cli.models import base_url_option, model_option, open_models
from holdfast.cli.opening import key_argument, known_session, reading, send_logs, store_option, store_to_read
from holdfast.cli.paper import harmless, json_option
from holdfast.ports import Model
from holdfast.runtime.sessions import View
from holdfast.runtime.words import in_words, spending
from holdfast.wiring import Place


@click.command()
@key_argument
@store_option
@model_option
@base_url_option
@json_option
def view(key: str, store: Place | None, models: Sequence[str], base_url: str | None, *, as_json: bool) -> None:
    """Print what the model sees of the session KEY now, and what that comes to."""
    send_logs()
    seen = asyncio.run(_look(store, key, open_models(models, base_url=base_url)))
    if as_json:
        click.echo(msgspec.json.encode(seen))
        return
    for line in _sizes(seen):
        click.echo(line)
    if seen.system:
        click.echo(f"\n--- system\n{harmless(seen.system)}")
    for message in seen.messages:
        click.echo(f"\n--- {message.role.value}\n{harmless(in_words(message.parts))}")


async def _look(place: Place | None, key: str, models: Sequence[Model]) -> View:
    async with reading(place) as store:
        await known_session(store, key)
    tuning = wiring.Tuning(adopts=False, migrates=False)
    async with wiring.open(store_to_read(place), model=models, tuning=tuning) as hold:
        return await (await hold.session(key)).view()


def _sizes(seen: View) -> list[str]:
    window = seen.window_tokens
    of_window = f" of {window:,} ({seen.tokens_estimated / window:.0%})" if window else "; the window is not known"
    boundary = f"message {seen.boundary}; what came before is represented" if seen.boundary else "the beginning"
    generation = [f"generation: {seen.generation}; `holdfast show` has the ones before"] if seen.generation > 1 else []
    return [
        *generation,
        f"messages:  {len(seen.messages):,}",
        f"tokens:    about {seen.tokens_estimated:,}{of_window}",
        f"request:   about {seen.wire_bytes_estimated:,} bytes",
        f"verbatim:  from {boundary}",
        *([f"spent:     {spending(seen.spent, seen.spent_on_notes)}"] if seen.spent.calls else []),
    ]
