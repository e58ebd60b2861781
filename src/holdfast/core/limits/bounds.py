"""What a model accepts, and the bounds we put on ourselves. Every number here has its reason beside it."""

from typing import Literal

import msgspec

# Sessions whose keys begin so are ours, such as what was learned about models; nobody can open or list them.
RESERVED_KEYS = "holdfast:"
# Sessions whose keys begin so follow what a client of the drop-in endpoints says. Such a one may have a turn open that
# waits for its client, so nobody else goes on with it.
DROPIN_MARK = "dropin:"


def follows_a_client(key: str) -> bool:
    """Return whether a session follows a client of the drop-in endpoints, whichever tenant it belongs to."""
    own = key.partition("/")[2] if key.startswith("@") else key
    return own.startswith(DROPIN_MARK)


class Bounds(msgspec.Struct, frozen=True):
    """The engine's own bounds: everything that could grow without end has one."""

    # Text typed or pasted as a message. Above this it is a document: attach it as a file.
    message_bytes_max: int = 16 * 2**20
    # A single attached file. It streams to a blob, so memory does not grow with it.
    attachment_bytes_max: int = 512 * 2**20
    # Attachments of one message: as many as fit a screen of thumbnails several times over.
    attachments_max: int = 200
    # Width times height of an attached image. No camera takes larger pictures; a file that claims more is a bomb.
    image_pixels_max: int = 200_000_000
    # Text above this goes to a blob, so that records stay small and opening a session stays cheap.
    inline_text_bytes_max: int = 32 * 2**10
    # How much of such a text stays in the record to recognise it by.
    head_chars: int = 400
    # Base64 in a message from this length on is left out of what the model sees, and kept: an image or archive that was
    # pasted as text. What is shorter somebody may want to have read: 16 KiB are some 12,000 tokens.
    message_base64_chars_max: int = 16 * 2**10
    # Inputs admitted and not yet answered, per session. More is a flood or a dead worker: the sender must know.
    inputs_waiting_max: int = 1_000
    # Replies of a model in one turn. Real agents have been seen to need about 300 for one message.
    steps_max: int = 500
    # Processes that may die during one turn before the turn itself is taken for the cause.
    interruptions_max: int = 5
    # Starts of one idempotent tool call, the first included.
    tool_starts_max: int = 3
    # Calls that run side by side; a model that asks for more has them run in turns.
    tool_calls_parallel_max: int = 16
    # One run of a tool. A person waits behind it.
    tool_seconds_max: float = 120.0
    # A tool's output in the record; the rest is kept in a blob. About 8,000 tokens: a tenth of a small window.
    tool_output_bytes_max: int = 32 * 2**10
    # How long the result of a tool that a client runs is awaited, counted from the call. A person may have to approve
    # it, and a client that restarts has time to come back; whoever is silent for an hour is gone.
    client_result_seconds_max: float = 3_600.0
    # Tools that a client may declare for a session: as many as a provider takes in one request ...
    client_tools_max: int = 128
    # ... and what they may say about themselves, together. They are sent with every request: 60,000 tokens at most.
    client_tools_bytes_max: int = 256 * 2**10
    # A provider's failure as it came. The longest real body in our collection has under 8 KiB.
    refusal_body_bytes_max: int = 16 * 2**10
    # A request body where the model's own limit is not known. No provider we know takes more in one request.
    wire_bytes_max: int = 32 * 2**20
    # Parts left out in one go. A message has at most as many attachments.
    parts_replaced_max: int = 200
    # What to do when a part is too large for the provider: leave it out and answer, or leave it out and end the turn.
    on_oversize: Literal["replace", "stop"] = "replace"
    # What to do when the conversation exceeds the window: make room and answer, or end the turn once so that the person
    # can choose. Whoever then sends the next message without having chosen is answered, with room made.
    on_overflow: Literal["compact", "ask"] = "compact"
    # Names that somebody gives: longer than any id in use, short enough for an index.
    session_key_bytes_max: int = 256
    client_id_bytes_max: int = 256
    # A first wait below one second meets the same burst; above a minute a person would rather be told.
    back_off_seconds_min: float = 1.0
    back_off_seconds_max: float = 60.0
    # Output kept free for the answer when the window is small or nothing was asked for.
    output_tokens_reserved: int = 4_096
    # Where asking for less output makes a request fit, an answer must still have this much: a page and a half of text.
    # Where there is less, room is made instead.
    output_tokens_least: int = 1_024
    # The part of the window that the verbatim tail may take after a compaction.
    tail_window_share: float = 0.5
    # The same after a compaction that someone asked for: they want room.
    asked_tail_window_share: float = 0.1
    # Whether room is made in idle moments, and digests are redone by a model, without being asked.
    compacts_ahead: bool = True
    # Masking old tool output is enough only if it leaves this much of the window: less would be full again soon, and
    # every change of the view costs a cold prompt cache.
    mask_window_share: float = 0.7
    # What models may be paid (US dollars), and read and write (tokens), for the notes of one compaction; 0: no bound.
    # Beyond it the next summariser is tried, then a digest. A model whose price is not known is held to tokens alone.
    summary_usd_max: float = 0.0
    summary_tokens_max: int = 0
    # The same for all notes of one session in one day, by UTC; 0: no bound.
    summary_usd_per_day: float = 0.0
    summary_tokens_per_day: int = 0
    # Answers of summarisers that could not be used, in one day without a single one that could, before none is asked
    # unless a person wants it: three ways of three models. Notes that are used set it back, however dear they are.
    summaries_in_vain_max: int = 9
    # Who is asked for notes first: the model that answers, or the one whose price is the lowest.
    summariser: Literal["same", "cheapest"] = "same"
    # Whether the model that answers may be asked for notes right behind the conversation as it was last sent, which its
    # provider then reads from its cache. It is done where that is cheaper, by the model's declared prices and by what
    # its last answers reported of the cache, and surely fits; else, and where the answer is of no use, as usual.
    summary_rides: bool = True
    # Outputs that stay when old ones are masked. Eight cost 39.5 % of the input tokens of real sessions, ten 41.4 %.
    outputs_kept: int = 8


class Deadlines(msgspec.Struct, frozen=True):
    """How long each step of a model call may take."""

    # Reaching the provider: a connection that takes longer will not carry an answer either.
    connect_seconds: float = 10.0
    # Reading a full window of a large model has been seen to take a minute and a half.
    first_token_seconds: float = 120.0
    # Between two pieces of content. Keep-alives are not content. Agents wait 300 s here; nobody should.
    idle_seconds: float = 60.0
    # A whole answer: the longest that a provider keeps a stream open.
    total_seconds: float = 1_800.0


SUMMARY_DEADLINES = Deadlines(first_token_seconds=60.0, idle_seconds=30.0, total_seconds=180.0)
