"""Where real transcripts are for measurements, and what it takes to measure on them.

The transcripts are not part of the project: a folder with `transcripts/neutral/*.jsonl.gz` is named by --corpus or by
the environment variable HOLDFAST_CORPUS.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click

from holdfast.errors import UsageError
from holdfast.rescue.neutral import NeutralMessage, read_neutral

corpus_option = click.option(
    "--corpus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="HOLDFAST_CORPUS",
    help="The folder with real transcripts. Default: the environment variable HOLDFAST_CORPUS.",
)


def sessions_of(corpus: Path | None, *, only: str = "*.jsonl.gz") -> Iterator[list[NeutralMessage]]:
    """Yield every session of the transcripts, one at a time; `only` names the files to look at."""
    if corpus is None:
        raise UsageError("real transcripts are needed: name their folder with --corpus or HOLDFAST_CORPUS")
    files = sorted((corpus / "transcripts" / "neutral").glob(only))
    if not files:
        raise UsageError(f"{corpus} has no transcripts/neutral/{only}; name another folder with --corpus")
    for path in files:
        session: list[NeutralMessage] = []
        for message in read_neutral(path):
            if session and message.session_id != session[0].session_id:
                yield session
                session = []
            session.append(message)
        if session:
            yield session


def is_held_out(session_id: str) -> bool:
    """Tell whether a session was kept apart when weights were fitted; half of all are, by a hash of their id."""
    return sha256(session_id.encode()).digest()[0] % 2 == 1
