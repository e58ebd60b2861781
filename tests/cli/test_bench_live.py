"""`holdfast bench live` and `bench reading` run in a tiny form and report all their figures."""

from pathlib import Path

from holdfast.lab import bench_live, bench_reading

LIVE = bench_live.Effort(words=200, rounds=1, watchers=(0, 2), stored=5, sessions=3, streams=2, seconds=0.1)
READING = bench_reading.Effort(records=500, sessions=400, requests=1)


async def test_streams_watchers_starts_and_many_sessions_are_measured(tmp_path: Path) -> None:
    figures = await bench_live.measure(tmp_path, LIVE)

    assert [figure.name for figure in figures] == [
        "1,000 deltas, proxied",
        "1,000 deltas, native, one watcher",
        "1,000 deltas, native, streamed to its sender",
        "9,000 words, 0 watchers",
        "9,000 words, 2 watchers",
        "idle stream, of 2",
        "idle session, of 3",
        "serve ready, 5 sessions",
        "3 sessions, 2 streams",
    ]
    assert all(figure.value > 0 and figure.reference > 0 for figure in figures)


async def test_reading_a_session_and_the_first_search_are_measured(tmp_path: Path) -> None:
    figures = await bench_reading.measure(tmp_path, READING)

    assert [figure.name for figure in figures] == [
        "GET session, 500 records",
        "GET session/view, 500 records",
        "GET session/past, 500 records",
        "first search, 400 sessions",
        "the rare word is found first",
    ]
    assert figures[-1].ratio == 1.0
