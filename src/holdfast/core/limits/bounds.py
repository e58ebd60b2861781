"""The engine's own bounds and deadlines. Every number has its reason beside it."""

from typing import Literal

import msgspec

# Key prefix of internal sessions, such as learned limits; users cannot open or list them.
RESERVED_KEYS = "holdfast:"
# Key prefix of proxy sessions. Such a session may have an open turn that waits for its client, so no other worker
# resumes it.
DROPIN_MARK = "dropin:"


def is_proxy_session(key: str) -> bool:
    """Return whether a session belongs to a proxy client, for any tenant."""
    own = key.partition("/")[2] if key.startswith("@") else key
    return own.startswith(DROPIN_MARK)


class Bounds(msgspec.Struct, frozen=True):
    """The engine's own bounds: everything that could grow without limit has one."""

    # Text of a message. Larger texts must be attached as a file.
    message_bytes_max: int = 16 * 2**20
    # A single attached file. It is streamed to a blob, so memory use does not grow with it.
    attachment_bytes_max: int = 512 * 2**20
    # Attachments of one message: several screens of thumbnails.
    attachments_max: int = 200
    # Width times height of an attached image. No camera takes larger pictures; more is a decompression bomb.
    image_pixels_max: int = 200_000_000
    # Larger texts are stored as blobs, so that records stay small and opening a session stays cheap.
    inline_text_bytes_max: int = 32 * 2**10
    # Characters of such a text that stay in the record as a preview.
    head_chars: int = 400
    # Longer base64 in a message, such as an image pasted as text, is stored and left out of the view. Shorter base64
    # may be meant for the model: 16 KiB are some 12,000 tokens.
    message_base64_chars_max: int = 16 * 2**10
    # Pending inputs per session. More is a flood or a dead worker, which the sender must know.
    inputs_waiting_max: int = 1_000
    # Model replies in one turn. Real agents needed up to about 300 for one message.
    steps_max: int = 500
    # Process deaths during one turn before the turn itself counts as the cause.
    interruptions_max: int = 5
    # Starts of one idempotent tool call, the first included.
    tool_starts_max: int = 3
    # Tool calls that run concurrently; further calls are queued.
    tool_calls_parallel_max: int = 16
    # Timeout of one tool run, during which the user waits.
    tool_seconds_max: float = 120.0
    # Tool output in the record; the full output is stored as a blob. About 8,000 tokens: a tenth of a small window.
    tool_output_bytes_max: int = 32 * 2**10
    # Timeout for the result of a client tool, counted from the call. Leaves time for an approval by a person and for a
    # restart of the client.
    client_result_seconds_max: float = 3_600.0
    # Tools that a client may declare for a session: as many as providers accept in one request ...
    client_tools_max: int = 128
    # ... and the total size of their definitions. They are part of every request: 60,000 tokens at most.
    client_tools_bytes_max: int = 256 * 2**10
    # Wait for the approval of a tool call: a person may be away for a week. Then the call counts as denied.
    approval_seconds_max: float = 7 * 86_400.0
    # Answers that may be repaired if they are not of the requested type. Models that fail three times fail again.
    output_repairs_max: int = 2
    # JSON Schema of a requested output: part of every request of its turn.
    output_schema_bytes_max: int = 64 * 2**10
    # Body of a provider's error response. The longest in our collection has under 8 KiB.
    refusal_body_bytes_max: int = 16 * 2**10
    # Request body where the model's own limit is unknown. No known provider accepts more in one request.
    wire_bytes_max: int = 32 * 2**20
    # Parts replaced in one step. A message has at most as many attachments.
    parts_replaced_max: int = 200
    # If a part is too large for the provider: replace it and answer, or replace it and end the turn.
    on_oversize: Literal["replace", "stop"] = "replace"
    # If the conversation exceeds the window: compact and answer, or end the turn once so that the user can choose. If
    # the next message arrives without a choice, the session compacts and answers it.
    on_overflow: Literal["compact", "ask"] = "compact"
    # Keys and ids given by callers: longer than any id in use, short enough for an index.
    session_key_bytes_max: int = 256
    client_id_bytes_max: int = 256
    # Backoff delay: below one second the same burst continues; above a minute an error is more useful to the user.
    back_off_seconds_min: float = 1.0
    back_off_seconds_max: float = 60.0
    # Tokens reserved for the output when the window is small or no output limit was requested.
    output_tokens_reserved: int = 4_096
    # Smallest output limit to retry with when less output makes a request fit: a page and a half of text. Below it the
    # session compacts instead.
    output_tokens_least: int = 1_024
    # Share of the window for the verbatim tail after a compaction.
    tail_window_share: float = 0.5
    # The same after a requested compaction, which should free more.
    asked_tail_window_share: float = 0.1
    # Compact proactively while idle, and replace digests by summaries.
    compacts_ahead: bool = True
    # After a rescue the proxy offers the tool `recall` to the client's model, and runs it itself, in at most so many
    # rounds for one request of the client; 0: never.
    proxy_recall_rounds_max: int = 8
    # Masking old tool output is enough only if the view then takes at most this share of the window: otherwise it is
    # full again soon, and every change of the view costs a cold prompt cache.
    mask_window_share: float = 0.7
    # Spend limit for the summaries of one compaction, in US dollars and in tokens; 0: no limit. Beyond it the next
    # summariser is tried, then a digest. A model without a known price is held to tokens alone.
    summary_usd_max: float = 0.0
    summary_tokens_max: int = 0
    # The same for all summaries of one session in one day (UTC); 0: no limit.
    summary_usd_per_day: float = 0.0
    summary_tokens_per_day: int = 0
    # Unusable summaries of one compaction, of all its portions and models together: then the digest stands, and a model
    # tries again some turns later.
    summaries_refused_max: int = 4
    # Unusable summaries in one day, less the usable ones, before no model is called for more, unless the user requests
    # it. A model that is mostly useful never reaches it; one that is mostly useless costs no more than this.
    summaries_in_vain_max: int = 9
    # First choice of summariser: the session's model, or the cheapest one.
    summariser: Literal["same", "cheapest"] = "same"
    # Allow cached summaries: the request extends the conversation as last sent, so that the provider reads it from its
    # prompt cache. Used if it is cheaper, by declared prices and the cache use of the last replies, and surely fits. If
    # not, or if the summary is unusable, a regular summary request follows.
    summary_rides: bool = True
    # Newest tool outputs that masking keeps. Eight cost 39.5 % of the input tokens of real sessions, ten 41.4 %.
    outputs_kept: int = 8


class Deadlines(msgspec.Struct, frozen=True):
    """Timeouts of the phases of a model call."""

    # Connecting: a connection that takes longer rarely delivers an answer.
    connect_seconds: float = 10.0
    # First token: reading a full window took large models up to a minute and a half.
    first_token_seconds: float = 120.0
    # Between two chunks of content. Keep-alives do not count as content. Agents wait 300 s here, which is too long.
    idle_seconds: float = 60.0
    # The complete reply: the longest that a provider keeps a stream open.
    total_seconds: float = 1_800.0


SUMMARY_DEADLINES = Deadlines(first_token_seconds=60.0, idle_seconds=30.0, total_seconds=180.0)
