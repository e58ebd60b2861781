"""How large a request would be, and what reported usage teaches."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits.sizing import (
    MediaSize,
    bytes_of_message,
    bytes_of_request,
    calibrate,
    media_of_request,
    tokens_of_message,
    tokens_of_parts,
    tokens_of_request,
    tokens_of_text,
    tokens_of_tools,
    within_window,
)
from holdfast.types.limits import UNCALIBRATED, Calibration
from holdfast.types.messages import (
    BlobRef,
    LargeText,
    Media,
    Message,
    Part,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)

GO = (
    "func isFullyEnabled(ctx context.Context) (bool, error) {\n\tsettings, err := LoadEntireSettings(ctx)\n"
    '\tif err != nil {\n\t\treturn false, fmt.Errorf("load settings: %w", err)\n\t}\n'
    "\treturn settings.Enabled, nil\n}\n"
)


def a_blob(size_bytes: int) -> BlobRef:
    return BlobRef("a" * 64, size_bytes)


def an_image(width: int, height: int, size_bytes: int = 1_000) -> Media:
    return Media(a_blob(size_bytes), "image/png", width_pixels=width, height_pixels=height)


# --- text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fewest", "most"),
    [
        # The fewest and the most tokens that five public vocabularies have for it.
        (
            "Please check the configuration file before Friday and send me the log. The page loads too slowly.",
            19,
            19,
        ),
        (GO, 52, 56),
        (
            '{"file_path": "/srv/shop/work/cmd/server/main.go", "offset": 120, "limit": 40, "replace_all": false}',
            32,
            35,
        ),
        (
            "今天我们讨论了部署计划。数据库的迁移需要在周五之前完成。请检查配置文件。确认所有的环境变量都已经设置正确。",
            25,
            47,
        ),
        ("Сегодня мы обсудили план развертывания. Миграция базы данных должна быть завершена до пятницы.", 25, 40),
        ("1024 33 8675309 404 65536 27 1999 31415 271828 7", 26, 48),
        ("8a6f3c2e-41d7-4b0e-9c55-0f2d7b1e6a90\n1c9d2e77-55aa-4e21-8f3b-90c4de12ab34", 61, 70),
    ],
)
def test_an_estimate_is_within_a_quarter_of_what_real_vocabularies_count(text: str, fewest: int, most: int) -> None:
    assert 0.75 * fewest <= tokens_of_text(text) <= 1.25 * most


def test_only_the_empty_text_has_no_tokens() -> None:
    assert tokens_of_text("") == 0
    assert tokens_of_text(" ") == 1


def test_dense_content_is_not_taken_for_prose() -> None:
    """FM-013: characters by four is far too low for hashes and numbers."""
    dense = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert tokens_of_text(dense) > 2 * len(dense) // 4


def test_half_of_a_character_is_counted_and_does_not_fail() -> None:
    assert tokens_of_text("\ud83d broken") >= 2


def test_a_very_long_text_is_sampled_close_to_its_full_count() -> None:
    # Prose, code and digits in turns of 30 KB, some 900 KB together: one piece is counted in full, the whole sampled.
    piece = "The page loads too slowly. " * 1_000 + GO * 150 + "8675309 " * 3_000
    whole = piece * 11
    assert tokens_of_text(whole) == pytest.approx(11 * tokens_of_text(piece), rel=0.1)


@given(st.text(), st.text())
def test_texts_together_take_about_what_they_take_apart(first: str, second: str) -> None:
    apart = tokens_of_text(first) + tokens_of_text(second)
    # Where two runs meet one may vanish, or become a long one that counts extra.
    assert apart - 4 <= tokens_of_text(first + second) <= apart + 6


# --- parts, messages, tools --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("media", "tokens"),
    [
        (an_image(300, 200), 81),
        (an_image(4_000, 3_000), 1_600),
        # Not known: the most is assumed.
        (an_image(0, 0), 1_600),
        (Media(a_blob(1_000_000), "application/pdf"), 50_000),
        (Media(a_blob(10), "application/pdf"), 3_000),
        (Media(a_blob(10**9), "application/pdf"), 300_000),
        (Media(a_blob(5_000), "audio/mpeg"), 11),
        (Media(a_blob(3_000), "text/csv"), 1_001),
    ],
)
def test_media_are_counted_by_what_providers_charge(media: Media, tokens: int) -> None:
    assert tokens_of_parts([media]) == tokens


def test_text_in_a_blob_is_estimated_from_its_beginning() -> None:
    head = "The page loads too slowly. " * 10
    whole = head * 1_000
    estimate = tokens_of_parts([LargeText(a_blob(len(whole)), head)])
    assert estimate == pytest.approx(tokens_of_text(whole), rel=0.02)


def test_text_in_a_blob_without_a_beginning_is_estimated_by_its_size() -> None:
    assert tokens_of_parts([LargeText(a_blob(3_000), "")]) == 1_001


def test_arguments_count_the_same_with_and_without_escapes() -> None:
    plain = ToolCall("1", "write", '{"content": "' + GO.replace('"', "").replace("\n", " ").replace("\t", " ") + '"}')
    escaped = ToolCall("1", "write", json.dumps({"content": GO}))
    assert tokens_of_parts([escaped]) == pytest.approx(tokens_of_parts([plain]), rel=0.15)


def test_a_call_with_its_result_costs_more_than_their_text() -> None:
    """Reported usage says 74 to 98 tokens more."""
    text = tokens_of_text("read") + tokens_of_text('{"path": "a"}') + tokens_of_text("done")
    pair: list[Part] = [ToolCall("1", "read", '{"path": "a"}'), ToolResult("1", (Text("done"),))]
    assert 74 <= tokens_of_parts(pair) - text <= 98


def test_hidden_thinking_counts_by_its_length() -> None:
    assert tokens_of_parts([Reasoning("", opaque="A" * 400)]) == 100
    assert tokens_of_parts([Reasoning("Let me think.", opaque="A" * 400)]) == tokens_of_text("Let me think.")


def test_a_request_is_the_sum_of_what_it_sends() -> None:
    tool = ToolSpec("read", "Read a file.", '{"type": "object"}')
    message = Message(Role.USER, (Text("Hello there"), an_image(300, 200)))
    request = Request((message, message), system="Be brief.", tools=(tool,))

    raw = tokens_of_request(request)

    assert raw == tokens_of_text("Be brief.") + tokens_of_tools((tool,)) + 2 * tokens_of_message(message)
    assert tokens_of_request(request, Calibration(scale=1.5, overhead=100.0)) == round(100 + 1.5 * raw)


# --- calibration -------------------------------------------------------------------------------------------------


def learned(readings: list[tuple[int, int]]) -> Calibration:
    calibration = UNCALIBRATED
    for estimated, reported in readings:
        calibration = calibrate(calibration, estimated=estimated, reported=reported)
    return calibration


@pytest.mark.parametrize(("scale", "overhead"), [(1.0, 0), (1.3, 0), (0.8, 500), (1.15, 27_000)])
def test_ten_calls_teach_what_a_model_counts(scale: float, overhead: int) -> None:
    readings = [(raw, round(scale * raw + overhead)) for raw in range(2_000, 42_000, 4_000)]
    calibration = learned(readings)
    for raw in (5_000, 60_000, 150_000):
        assert calibration.estimate(raw) == pytest.approx(scale * raw + overhead, rel=0.1)


def test_the_margin_shrinks_as_estimates_prove_right() -> None:
    sure = learned([(raw, round(1.1 * raw)) for raw in range(10_000, 50_000, 1_000)])
    assert UNCALIBRATED.upper(10_000) == 13_000
    assert 11_000 < sure.upper(10_000) < 11_600


def test_the_margin_grows_where_a_model_counts_unevenly() -> None:
    even = learned([(10_000, 11_000)] * 20)
    uneven = learned([(10_000, 9_000), (10_000, 14_000)] * 10)
    assert uneven.error > 3 * even.error


@pytest.mark.parametrize("reported", [0, -5, 4_999, 65_001, 10**9])
def test_usage_that_no_model_could_report_teaches_nothing(reported: int) -> None:
    """FM-012, FM-016: cached tokens left out, summed over a turn, or plainly corrupt."""
    assert calibrate(UNCALIBRATED, estimated=10_000, reported=reported) == UNCALIBRATED


def test_nothing_is_learned_from_an_empty_estimate() -> None:
    assert calibrate(UNCALIBRATED, estimated=0, reported=10) == UNCALIBRATED


def test_a_jump_is_left_out_until_it_proves_lasting() -> None:
    """FM-012: one reading of twice the expected is a slip, five in a row are another model behind the same name."""
    settled = learned([(10_000, 10_000)] * 6)

    after_four = settled
    for _ in range(4):
        after_four = calibrate(after_four, estimated=10_000, reported=22_000)
    after_five = calibrate(after_four, estimated=10_000, reported=22_000)

    assert after_four == msgspec.structs.replace(settled, strange=4)
    assert after_five.readings == 1
    assert after_five.estimate(10_000) > 15_000


def test_a_good_reading_forgives_strange_ones() -> None:
    settled = learned([(10_000, 10_000)] * 6)
    strange = calibrate(settled, estimated=10_000, reported=22_000)
    assert (strange.strange, calibrate(strange, estimated=10_000, reported=10_000).strange) == (1, 0)


@given(st.lists(st.tuples(st.integers(-10, 300_000), st.integers(-10, 1_000_000)), max_size=30))
def test_whatever_is_reported_the_calibration_stays_within_bounds(readings: list[tuple[int, int]]) -> None:
    """FM-013: bounded both ways."""
    calibration = learned(readings)
    assert 0.5 <= calibration.scale <= 2.5
    assert 0.0 <= calibration.overhead <= 40_000.0
    assert 0.01 <= calibration.error <= 1.0
    assert 5_000 <= calibration.estimate(10_000) <= calibration.upper(10_000)


def test_a_calibration_survives_being_written_down() -> None:
    calibration = learned([(10_000, 12_000), (20_000, 23_000)])
    assert msgspec.json.decode(msgspec.json.encode(calibration), type=Calibration) == calibration


# --- bytes and media ---------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_takes_the_bytes_that_json_gives_it(text: str) -> None:
    empty = bytes_of_message(Message(Role.USER, (Text(""),)))
    serialised = len(json.dumps(text, ensure_ascii=False).encode()) - 2
    assert bytes_of_message(Message(Role.USER, (Text(text),))) - empty == serialised


def test_media_take_their_base64() -> None:
    small, large = (bytes_of_message(Message(Role.USER, (an_image(1, 1, size),))) for size in (3, 3_000_000))
    assert large - small == 4_000_000 - 4


def test_a_request_is_estimated_a_little_above_its_bytes() -> None:
    call = ToolCall("call_1", "write", json.dumps({"content": GO}))
    request = Request(
        (
            Message(Role.USER, (Text('Say "hi"\n' * 200), an_image(10, 10, 30_000))),
            Message(Role.ASSISTANT, (Reasoning("hm", opaque="x" * 900), call)),
            Message(Role.TOOL, (ToolResult("call_1", (Text(GO * 20),)),)),
        ),
        system="Be brief.\n" * 30,
        tools=(ToolSpec("write", "Write a file.", '{"type": "object", "properties": {}}'),),
    )
    body = {
        "system": request.system,
        "tools": [
            {"type": "function", "function": {"name": "write", "description": "Write a file.", "parameters": {}}}
        ],
        "messages": [
            {"role": "user", "content": ['Say "hi"\n' * 200, {"type": "image_url", "url": "A" * 40_000}]},
            {"role": "assistant", "content": ["hm", "x" * 900], "tool_calls": [{"arguments": call.arguments}]},
            {"role": "tool", "tool_call_id": "call_1", "content": GO * 20},
        ],
    }
    exact = len(json.dumps(body).encode())
    assert exact <= bytes_of_request(request) <= 1.05 * exact


@pytest.mark.parametrize(
    ("head", "least", "most"),
    # As many escapes as its beginning has: none, or one for every other character. Without a beginning: its size.
    [("plain text", 10_000, 10_200), ('a"' * 20, 15_000, 15_200), ("", 10_000, 10_200)],
)
def test_text_in_a_blob_takes_its_size_and_escapes(head: str, least: int, most: int) -> None:
    message = Message(Role.USER, (LargeText(a_blob(10_000), head),))
    assert least <= bytes_of_message(message) <= most


def test_media_are_measured_wherever_they_stand() -> None:
    request = Request(
        (
            Message(Role.USER, (Text("look"), an_image(640, 480, 1_000))),
            Message(Role.TOOL, (ToolResult("1", (Text("shot"), an_image(100, 2_000, 500))),)),
        )
    )
    assert media_of_request(request) == MediaSize(count=2, bytes_largest=1_000, pixels_largest=2_000, bytes_total=1_500)
    assert media_of_request(Request(())) == MediaSize()


def test_a_compound_name_costs_about_its_words() -> None:
    names = ("toggleThinkingBlock", "renderMessages", "CombinedProviderList")
    assert [tokens_of_text(name) for name in names] == [4, 3, 5]


def test_letters_without_words_cost_more_than_words() -> None:
    words = "the quick brown foxes jump over lazy dogs"
    assert tokens_of_text("qzxjvkwpqhdxzmvbtnlq" * 2) > 1.5 * tokens_of_text(words)
    assert tokens_of_text("QzXjVkWpQhDxZmVbTnLq" * 2) > 1.5 * tokens_of_text(words)


@pytest.mark.parametrize(
    ("overhead", "window", "expected"),
    [(30_000.0, None, 30_000.0), (4_000.0, 16_000, 4_000.0), (4_001.0, 16_000, 4_000.0), (40_000.0, 8_000, 2_000.0)],
)
def test_an_overhead_takes_no_more_than_a_quarter_of_the_window(
    overhead: float, window: int | None, expected: float
) -> None:
    """FM-012: sums over calls that are reported as one leave room for a request."""
    calibration = Calibration(scale=1.2, overhead=overhead, readings=9)
    assert within_window(calibration, window) == msgspec.structs.replace(calibration, overhead=expected)


def test_a_full_cache_of_counts_changes_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"text {number} of the view" for number in range(6)]
    counts = [tokens_of_text(text) for text in texts]
    monkeypatch.setattr("holdfast.core.limits.sizing._COUNTED_MAX", 2)

    assert [tokens_of_text(text) for text in (*texts, *texts, *map(str.upper, texts))][:12] == [*counts, *counts]
