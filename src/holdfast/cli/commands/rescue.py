"""`holdfast rescue`: list other agents' sessions of this folder, continue one in Holdfast, or repair it in place."""

import asyncio
import os
import time
from pathlib import Path

import click
import msgspec

from holdfast.cli.options import configure_logging, store_option, store_to_read, store_to_write
from holdfast.cli.output import align_columns, json_option, sanitize
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import RetryLaterError, UsageError
from holdfast.rescue.diagnosis import Diagnosis, Trouble, diagnose
from holdfast.rescue.formats.base import ForeignSession, SessionRef
from holdfast.rescue.importing import Imported, import_session
from holdfast.rescue.leaving import ProxiedState, proxied_state
from holdfast.rescue.sessions import (
    Listed,
    Repaired,
    find_session,
    is_repairable,
    list_sessions,
    read_session,
    rescue_in_place,
)
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.wiring import Place, look_at_store, open_store

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


class RescueOutput(msgspec.Struct, frozen=True):
    """JSON output: the session, what is wrong with it, entries that are no messages, and what was done."""

    agent: str
    id: str
    path: str
    model: str
    messages: int
    tokens: int
    window_tokens: int
    symptoms: list[dict[str, str]]
    foreign: dict[str, int]
    imported: Imported | None = None
    backup: str | None = None
    resume: str = ""


@click.command()
@click.argument("session", required=False, metavar="[PATH|ID]")
@click.option("--in-place", is_flag=True, help="Repair the agent's own file, with a copy beside it.")
@click.option("--leave", is_flag=True, help="Write what a gateway holds of every session here into the agents' files.")
@click.option("--from", "source", metavar="KEY", help="With --in-place: the gateway's session, if it is not found.")
@click.option("--dry-run", is_flag=True, help="Only say what is wrong and what would change.")
@click.option("--window", type=click.IntRange(min=1_000), help="Context window of the model, if it is not known.")
@click.option("--key", "--as", "key", help="Key of the imported session. Default: AGENT:ID.")
@store_option
@json_option
def rescue(  # noqa: PLR0913 - a parameter per option
    session: str | None,
    window: int | None,
    key: str | None,
    source: str | None,
    store: Place | None,
    *,
    in_place: bool,
    leave: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bring a dead session of another agent back. Without PATH or ID, list the sessions of this folder.

    A session is imported, to be continued with `holdfast chat --session KEY`; importing again adds only new messages.
    With --in-place its own file is repaired instead: calls get a result, oversized images become a line, torn lines go,
    and a conversation that is too long gets a compaction in the agent's own form, made without a model. If a gateway
    compacted the session, its state is written instead, so that the agent continues without the gateway.
    """
    configure_logging()
    _check_options(session, source, in_place=in_place, leave=leave)
    home, cwd = Path.home(), str(Path.cwd())
    if leave:
        _leave(list_sessions(home, os.environ, cwd), store, window, dry_run=dry_run, as_json=as_json)
        return
    if session is None:
        _print_list(list_sessions(home, os.environ, cwd), as_json=as_json)
        return
    ref = find_session(session, home, os.environ, cwd)
    if in_place:
        _rescue_in_place(ref, window, store, source, dry_run=dry_run, as_json=as_json)
    else:
        _rescue_into_store(ref, window, store, key, dry_run=dry_run, as_json=as_json)


def _check_options(session: str | None, source: str | None, *, in_place: bool, leave: bool) -> None:
    if leave and (session is not None or in_place):
        raise click.UsageError("--leave takes every session of this folder; for one give its ID with --in-place")
    if source is not None and not (in_place and session):
        raise click.UsageError("--from needs an ID and --in-place")


def _rescue_in_place(
    ref: SessionRef, window: int | None, store: Place | None, source: str | None, *, dry_run: bool, as_json: bool
) -> None:
    found = read_session(ref)
    proxied = asyncio.run(_proxied(found, store, source))
    diagnosis = diagnose(found, window)
    if proxied is not None:
        diagnosis = diagnosis.followed_by(proxied.symptom)
    output = _output(found, diagnosis)
    if not dry_run:
        _print_repaired(rescue_in_place(ref, window, proxied), output, as_json=as_json)
        return
    _print_diagnosis(output, as_json=as_json)
    if not as_json:
        click.echo(_would(diagnosis))


def _rescue_into_store(
    ref: SessionRef, window: int | None, store: Place | None, key: str | None, *, dry_run: bool, as_json: bool
) -> None:
    found = read_session(ref)
    output = _output(found, diagnose(found, window))
    if dry_run:
        _print_diagnosis(output, as_json=as_json)
        if not as_json:
            click.echo("it would be imported; its own file stays as it is")
        return
    named = key or f"{ref.agent}:{found.ref.id}"
    check_session_key(named)
    imported = asyncio.run(_import(found, named, store_to_write(store)))
    _print_diagnosis(msgspec.structs.replace(output, imported=imported), as_json=as_json)
    if not as_json:
        known = f", {imported.already_there:,} were already there" if imported.already_there else ""
        click.echo(f"{imported.messages:,} messages imported as {sanitize(named)}{known}")
        click.echo(f"continue it: holdfast chat --session {sanitize(named)}")


async def _proxied(found: ForeignSession, store: Place | None, source: str | None = None) -> ProxiedState | None:
    """Return what a gateway holds of a session; None without a store."""
    try:
        place = store_to_read(store)
    except UsageError:
        if source is not None:
            raise
        return None
    records, blobs = look_at_store(place, Bounds())
    try:
        return await proxied_state(found, records, blobs, source)
    finally:
        await records.close()


def _leave(listed: list[Listed], store: Place | None, window: int | None, *, dry_run: bool, as_json: bool) -> None:
    """Write the state of proxied sessions into the agents' own files; one that is in use does not stop the others."""
    store_to_read(store)
    held, failures = 0, 0
    for one in listed:
        if one.fault or not is_repairable(one.ref):
            continue
        found = read_session(one.ref)
        proxied = asyncio.run(_proxied(found, store))
        if proxied is None:
            continue
        held += 1
        output = _output(found, diagnose(found, window).followed_by(proxied.symptom))
        if dry_run:
            _print_diagnosis(output, as_json=as_json)
            continue
        try:
            _print_repaired(rescue_in_place(one.ref, window, proxied), output, as_json=as_json)
        except RetryLaterError as error:
            failures += 1
            click.echo(f"{one.ref.agent} session {sanitize(one.ref.id)}: {error}", err=True)
    if not held and not as_json:
        click.echo("no gateway holds the state of a session here; the agents' own files have everything")
    if failures:
        raise RetryLaterError(f"{failures} of {held} sessions were not written; end their agents, then run it again")


async def _import(found: ForeignSession, key: str, place: Place) -> Imported:
    bounds = Bounds()
    records, blobs = open_store(place, bounds)
    try:
        return await import_session(found.messages, key, store=records, blobs=blobs, bounds=bounds)
    finally:
        await records.close()


def _output(found: ForeignSession, diagnosis: Diagnosis) -> RescueOutput:
    symptoms = [{"trouble": one.trouble.value, "says": one.says} for one in diagnosis.symptoms]
    ref = found.ref
    return RescueOutput(
        ref.agent,
        ref.id,
        str(ref.path),
        found.model,
        len(found.messages),
        diagnosis.tokens,
        diagnosis.window_tokens,
        symptoms,
        found.foreign,
    )


def _print_diagnosis(output: RescueOutput, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(output))
        return
    click.echo(f"{output.agent} session {sanitize(output.id)}: {output.messages:,} messages, {output.tokens:,} tokens")
    for symptom in output.symptoms:
        click.echo(f"  wrong: {sanitize(symptom['says'])}")
    if not output.symptoms:
        click.echo("  nothing is wrong with it")
    if output.foreign:
        kinds = ", ".join(f"{count:,} {sanitize(kind)}" for kind, count in sorted(output.foreign.items()))
        click.echo(f"  entries that are no messages, left in its file: {kinds}")


def _would(diagnosis: Diagnosis) -> str:
    if not diagnosis.symptoms:
        return "nothing would change"
    is_proxied = any(one.trouble is Trouble.PROXIED for one in diagnosis.symptoms)
    return (
        "its file would be copied, and the conversation compacted"
        if diagnosis.needs_summary or is_proxied
        else "its file would be copied, and the entries above repaired"
    )


def _print_repaired(repaired: Repaired, output: RescueOutput, *, as_json: bool) -> None:
    backup = str(repaired.backup) if repaired.backup else None
    output = msgspec.structs.replace(output, backup=backup, resume=repaired.resume)
    _print_diagnosis(output, as_json=as_json)
    if as_json:
        return
    if backup is None:
        click.echo(f"nothing was changed; resume it: {repaired.resume}")
        return
    click.echo(f"repaired: {repaired.after.tokens:,} tokens now; the file as it was: {backup}")
    for symptom in repaired.after.symptoms:
        click.echo(f"  still: {sanitize(symptom.says)}")
    click.echo(f"resume it: {repaired.resume}")


def _print_list(found: list[Listed], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            click.echo(msgspec.json.encode(one, enc_hook=str))
        return
    if not found:
        click.echo(f"no session of a known agent for {Path.cwd()}")
        return
    rows = [_row(one) for one in found]
    for line in align_columns([("agent", "id", "age", "size", "messages", "tokens", "wrong"), *rows]):
        click.echo(line)


def _row(one: Listed) -> tuple[str, ...]:
    diagnosis = one.diagnosis
    wrong = one.fault if diagnosis is None else "; ".join(symptom.says for symptom in diagnosis.symptoms)
    tokens = f"{diagnosis.tokens:,}" if diagnosis is not None else "-"
    size = f"{one.ref.size_bytes / 1_000:,.0f} kB"
    return one.ref.agent, _short(one.ref), _age(one.ref), size, f"{one.messages:,}", tokens, sanitize(wrong) or "-"


def _short(ref: SessionRef) -> str:
    return sanitize(ref.id)


def _age(ref: SessionRef) -> str:
    seconds = max(time.time() - ref.updated_at, 0)
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < _DAY else f"{seconds / _DAY:.0f} d"
