"""Limits of the gateway: sizes, timeouts and counts, each with its reason."""

from typing import Annotated

import msgspec

_Positive = Annotated[int, msgspec.Meta(gt=0)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class GatewayBounds(msgspec.Struct, frozen=True):
    """The gateway's own limits, per request, per connection, per key and in total."""

    # Bytes of a JSON request body: a message of 16 MiB with every character escaped, or inline attachments.
    body_bytes_max: _Positive = 64 * 2**20
    # Bytes of one uploaded attachment. It streams to a file, so memory use is constant.
    upload_bytes_max: _Positive = 512 * 2**20
    # Bytes of pending uploads per key.
    uploads_bytes_max: _Positive = 2 * 2**30
    # Lifetime of a pending upload.
    upload_seconds_max: _Seconds = 3_600.0
    # Bytes of one imported session: a million records of the usual size, or a thousand with an image each.
    import_bytes_max: _Positive = 2**30
    # Time that a delete request waits for the session to become idle; finishing an answered turn takes less.
    rest_seconds_max: _Seconds = 5.0
    # Bytes of the request line and headers. Browsers send under 8 KiB; cookies of other services add some.
    header_bytes_max: _Positive = 32 * 2**10
    # Time from the first byte of a connection or request to the end of its headers. Only an attack takes longer.
    header_seconds_max: _Seconds = 10.0
    # Timeout between two chunks of a body.
    body_idle_seconds_max: _Seconds = 15.0
    # Timeout of a complete JSON body.
    body_seconds_max: _Seconds = 120.0
    # Idle time of a keep-alive connection between two requests.
    keep_alive_seconds: _Seconds = 30.0
    # Connections in total. Each costs about 10 KiB and a file descriptor; 1,024 descriptors are a common limit, so
    # raise both together.
    connections_max: _Positive = 4_096
    # Event streams per key. A person has a few windows open, a service one stream per active session.
    streams_max: _Positive = 2_500
    # Concurrent requests per key without streams; most of them wait for a model.
    requests_max: _Positive = 1_000
    # Time that a request waits for an answer before it returns 202. Proxies time out after 60 to 600 seconds.
    wait_seconds_max: _Seconds = 300.0
    # Interval of heartbeat comments on an idle event stream: below the 30 seconds after which strict proxies time out.
    heartbeat_seconds: _Seconds = 15.0
    # Timeout of a reader that accepts no data. It is disconnected, resumes from its cursor and misses nothing.
    stall_seconds_max: _Seconds = 30.0
    # Records that an event stream replays. A reader that missed more gets `resync` and reads the records instead.
    replay_records_max: _Positive = 10_000
    # Records or sessions in one page.
    page_max: _Positive = 1_000
    # Timeout of a search over all sessions of a key. The response says if it is incomplete.
    search_seconds_max: _Seconds = 2.0
    # Sessions per key that a watch polls and a search covers, at about 200 bytes each. A watch also reports records
    # that this process writes to other sessions.
    sessions_watched_max: _Positive = 100_000
    # Characters of a search query.
    query_chars_max: _Positive = 2_000
    # Characters of a compaction focus.
    focus_chars_max: _Positive = 4_000
    # Characters of a system text.
    system_chars_max: _Positive = 200_000
    # Time for requests in flight to finish when the gateway stops.
    shutdown_seconds: _Seconds = 10.0
