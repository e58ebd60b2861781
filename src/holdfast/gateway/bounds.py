"""How much anybody may ask of a gateway. Every number here has its reason beside it."""

from typing import Annotated

import msgspec

_Positive = Annotated[int, msgspec.Meta(gt=0)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class GatewayBounds(msgspec.Struct, frozen=True):
    """The gateway's own bounds, per request, per connection, per key and in all."""

    # Bytes of a request's JSON: a message of 16 MiB with every character escaped, or attachments inline.
    body_bytes_max: _Positive = 64 * 2**20
    # Bytes of one uploaded attachment. It streams to a file, so memory does not grow with it.
    upload_bytes_max: _Positive = 512 * 2**20
    # Bytes of uploads that one key may have waiting to be sent, and how long they wait.
    uploads_bytes_max: _Positive = 2 * 2**30
    upload_seconds_max: _Seconds = 3_600.0
    # Bytes of one session that is imported: a million records of the usual size, or a thousand with a picture each.
    import_bytes_max: _Positive = 2**30
    # How long a request waits for a session to come to rest that is to be deleted: a turn that has just been answered
    # is put away in less.
    rest_seconds_max: _Seconds = 5.0
    # Bytes of a request's line and headers. Browsers send under 8 KiB; cookies of other services add some.
    header_bytes_max: _Positive = 32 * 2**10
    # From the first byte of a connection or request to the end of its headers. Only an attack takes longer.
    header_seconds_max: _Seconds = 10.0
    # Between two pieces of a body, and for a whole JSON body.
    body_idle_seconds_max: _Seconds = 15.0
    body_seconds_max: _Seconds = 120.0
    # A connection that asks for nothing between two requests.
    keep_alive_seconds: _Seconds = 30.0
    # Connections in all. Each costs some 10 KiB and a file descriptor; 1,024 descriptors are a usual bound, so raise
    # both together.
    connections_max: _Positive = 4_096
    # Event streams of one key. A person has a few windows open, a service one stream per active session.
    streams_max: _Positive = 2_500
    # Requests of one key that are being worked on at once, streams not counted; most of them wait for a model.
    requests_max: _Positive = 1_000
    # How long a request waits for an answer before it is told to come back for it. Proxies cut at 60 to 600 seconds.
    wait_seconds_max: _Seconds = 300.0
    # A comment is sent on a quiet event stream so often: below the 30 seconds after which strict proxies cut.
    heartbeat_seconds: _Seconds = 15.0
    # A reader that takes nothing for so long is cut off. It comes back with its cursor and has missed nothing.
    stall_seconds_max: _Seconds = 30.0
    # A reader that comes back further behind than this is told to read the history instead.
    replay_records_max: _Positive = 10_000
    # Records or sessions in one page.
    page_max: _Positive = 1_000
    # How long a search over all sessions of a key takes at most; what it has not come to by then it says.
    search_seconds_max: _Seconds = 2.0
    # Sessions of one key that are watched, and searched, together: at some 200 bytes each. What this process does in
    # others is told all the same.
    sessions_watched_max: _Positive = 100_000
    # Characters of a search, a compaction's focus and of a system text.
    query_chars_max: _Positive = 2_000
    focus_chars_max: _Positive = 4_000
    system_chars_max: _Positive = 200_000
    # How long requests that are under way may take to end when the gateway stops.
    shutdown_seconds: _Seconds = 10.0
