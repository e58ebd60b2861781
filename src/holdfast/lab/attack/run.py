"""`holdfast attack`: probes of a gateway from outside, against one that is started for it or your own."""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.lab.attack.probes import Probe, probes
from holdfast.lab.attack.target import Target, own_gateway, running_gateway

_POSTGRES = "postgres"
# Findings that are printed per probe; `--json` has all.
_SHOWN_MAX = 5


class ProbeResult(msgspec.Struct, frozen=True):
    """The outcome of a probe. It held if there are no findings."""

    name: str
    about: str
    attempts: int
    seconds: float
    findings: list[str]
    # The reason why it could not run here.
    skipped: str = ""
    # What it has measured, in words.
    measured: str = ""


@click.command()
@click.option("--url", default="", help="A gateway on this machine. Default: one that is started for the attack.")
@click.option("--key", "keys", multiple=True, help="A key of that gateway; a second one for another tenant.")
@click.option(
    "--store", default="", help='Store of the started gateway: a path, a URL, or "postgres" for a server of its own.'
)
@click.option("--only", multiple=True, help="Run only the probe with this name; may be repeated.")
@click.option("--long", "is_long", is_flag=True, help="20,000 turns in 2,000 sessions for the probe of memory.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
def attack(*, url: str, keys: tuple[str, ...], store: str, only: tuple[str, ...], is_long: bool, as_json: bool) -> None:
    """Attack a gateway of your own, and report what it did not withstand.

    Sends malformed and ambiguous requests, floods, slow clients, decompression bombs, broken JSON, requests of other
    tenants and origins, hostile text in the page, failing disks, damaged files and clock jumps, and looks for keys in
    logs and files. Exits with 1 if something did not hold.
    """
    chosen = _chosen(only, is_long=is_long)
    with _own_database() if store == _POSTGRES else nullcontext(store) as place:
        results = asyncio.run(_attack(chosen, url, keys, place, shows=not as_json))
    if as_json:
        click.echo(msgspec.json.encode(results).decode())
    broken = sum(1 for result in results if result.findings)
    if not as_json:
        attempts = sum(result.attempts for result in results)
        click.echo(f"{len(results)} probes, {attempts:,} attempts, {broken} did not hold")
    sys.exit(BROKEN if broken else 0)


def _chosen(only: tuple[str, ...], *, is_long: bool) -> list[Probe]:
    known = probes(is_long=is_long)
    chosen = [probe for probe in known if not only or probe.name in only]
    if len(chosen) < len(set(only)):
        raise click.UsageError(f"--only takes one of: {', '.join(probe.name for probe in known)}")
    return chosen


@contextmanager
def _own_database() -> Iterator[str]:
    """Start a PostgreSQL server, and yield the address of a database."""
    from holdfast.lab.benches.postgres import OwnServer  # noqa: PLC0415 - an extra, and slow to load

    server = OwnServer()
    try:
        yield server.url()
    finally:
        server.close()


async def _attack(
    chosen: Sequence[Probe], url: str, keys: tuple[str, ...], store: str, *, shows: bool
) -> list[ProbeResult]:
    results: list[ProbeResult] = []
    async with _target(url, keys, store) as target:
        for probe in chosen:
            if probe.needs_own and not target.is_own:
                continue
            started = time.monotonic()
            outcome = await probe.run(target)
            seconds = round(time.monotonic() - started, 1)
            results.append(
                ProbeResult(
                    probe.name,
                    probe.about,
                    outcome.attempts,
                    seconds,
                    outcome.findings,
                    outcome.skipped,
                    outcome.measured,
                )
            )
            if shows:
                _show(results[-1])
    return results


@asynccontextmanager
async def _target(url: str, keys: tuple[str, ...], store: str) -> AsyncGenerator[Target, None]:
    if url:
        async with running_gateway(url, keys) as target:
            yield target
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-attack-") as folder:
        async with own_gateway(Path(folder), store) as target:
            yield target


def _show(result: ProbeResult) -> None:
    verdict = f"{len(result.findings)} NOT HELD" if result.findings else "not run" if result.skipped else "held"
    click.echo(f"{result.name:<20} {result.attempts:>6,} attempts  {verdict:<12} {result.about}")
    for finding in (*result.findings[:_SHOWN_MAX], *filter(None, [result.skipped, result.measured])):
        click.echo(f"  {finding}")
