"""The coefficients of the classifier: a data file that a script writes, and that is read soon."""

import time
from pathlib import Path

import msgspec
from click.testing import CliRunner

from holdfast.core.faults import model
from holdfast.lab import fault_fitting
from holdfast.types.faults import FaultKind


def test_the_data_file_has_a_coefficient_of_every_kind_for_each_feature() -> None:
    found = model.coefficients()

    assert found.kinds == tuple(FaultKind)
    assert {len(row) for row in found.features.values()} == {len(found.kinds)}


def test_the_coefficients_are_read_in_under_30_ms() -> None:
    seconds = []
    for _ in range(3):
        model.coefficients.cache_clear()
        began = time.process_time()
        model.coefficients()
        seconds.append(time.process_time() - began)

    assert min(seconds) < 0.03


def test_without_a_known_feature_every_kind_has_the_same_share() -> None:
    assert set(model.shares(["no such feature"]).values()) == {1 / len(FaultKind)}


def test_a_fit_separates_the_kinds_of_its_rows_and_is_written_as_it_is_read(tmp_path: Path) -> None:
    """Every provider name falls into the same part each time, so both runs fit the same rows."""
    sentences = {
        "token_overflow": "the prompt of {n} tokens exceeds the context window of 8192 tokens",
        "auth": "the api key number {n} is not valid",
    }
    rows = [
        {"id": f"{kind}-{n}", "provider": f"provider{n}", "status": 400, "body": said.format(n=n), "kind": kind}
        for kind, said in sentences.items()
        for n in range(9_000, 9_030)
    ]
    file, out = tmp_path / "rows.jsonl", tmp_path / "coefficients.json"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    before = model.coefficients

    try:
        texts = []
        for _ in range(2):
            ran = CliRunner().invoke(fault_fitting.main, [str(file), "--out", str(out)], catch_exceptions=False)
            assert ran.exit_code == 0
            texts.append(out.read_text("utf-8"))
        found = msgspec.json.decode(texts[0], type=model.Coefficients)
        kinds = {kind: max(shares, key=shares.__getitem__) for kind, shares in _shares(sentences)}
    finally:
        vars(model)["coefficients"] = before

    assert texts[0] == texts[1]
    assert fault_fitting.text_of(found) == texts[0]
    assert kinds == {"token_overflow": FaultKind.TOKEN_OVERFLOW, "auth": FaultKind.AUTH}


def _shares(sentences: dict[str, str]) -> list[tuple[str, dict[FaultKind, float]]]:
    """Return the shares of each sentence, by the coefficients that the classifier of this process uses now."""
    return [(kind, model.shares([word[:7] for word in said.split()])) for kind, said in sentences.items()]
