"""Any FILE and any command line: an answer with whole numbers, or one line that names the mistake."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proofstream import ProofstreamError, ToolCall
from proofstream_state_cost.config.conventions import PRESETS
from proofstream_state_cost.tool.command import run_state_cost

DATA = Path(__file__).parents[3] / "data" / "state"
CIRCUIT = (DATA / "qwen3.8-27b.toml").read_bytes()
MODELS: list[Any] = json.loads((DATA / "golden.json").read_text("utf-8"))["models"]
FORMATS = {"ssm_h_storage": "f32", "kv_cache_dtype": "bf16"}


def answer(content: bytes, table: dict[str, Any]) -> str | None:
    """Return the output, or None after an error of one line."""
    written: list[str] = []
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_bytes(content)
        as_json = bool(table.pop("json", False))
        call = ToolCall(argument=str(path), settings=table, as_json=as_json, write=written.append, note=said.append)
        error: ProofstreamError | None = None
        try:
            assert run_state_cost(call) == 0
        except ProofstreamError as caught:
            error = caught
    if error is not None:
        assert written == []
        assert 0 < len(str(error)) < 2000
        assert "\n" not in str(error)
        return None
    (text,) = written
    if as_json:
        document = json.loads(text)
        assert all(isinstance(program["bytes"], int) for program in document["programs"].values())
        assert document["bytes_per_sequence"] == sum(s["bytes"] for s in document["states"] if s["moved"])
    else:
        assert "nan" not in text
        assert "None" not in text
    return text


WORDS = st.sampled_from(["0", "-1", "1", "4", "18446744073709551615", "18446744073709551616", "1e9", "", "x", "f16"])
TABLES = st.fixed_dictionaries(
    {"json": st.booleans()},
    optional={
        "convention": st.sampled_from([*PRESETS, "other", ""]),
        "conv_columns": st.sampled_from(["K", "K-1", "kernel", "3"]),
        "conv_dtype": st.sampled_from(["f16", "{c}", "f64"]),
        "h_dtype": st.sampled_from(["f16", "{h}", "f64"]),
        "speculative_tokens": WORDS,
        "snapshots": st.booleans(),
        "formats": st.one_of(
            st.just(FORMATS), st.lists(st.sampled_from(["h=f16", "c=fp8", "ssm_h_storage=f16", "h", "=", "a=b"]))
        ),
        "slots": WORDS,
        "verify_steps": WORDS,
        "kv_blocks": WORDS,
        "kv_block_size": WORDS,
        "rate": st.one_of(WORDS, st.decimals().map(str)),
    },
)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes(content: bytes) -> None:
    answer(content, {})


@settings(max_examples=60)
@given(st.data(), TABLES)
def test_a_circuit_with_a_piece_replaced(data: st.DataObject, table: dict[str, Any]) -> None:
    start = data.draw(st.integers(0, len(CIRCUIT)))
    end = data.draw(st.integers(start, min(len(CIRCUIT), start + 40)))
    piece = data.draw(st.one_of(st.binary(max_size=8), WORDS.map(str.encode), st.just(b" x ")))
    answer(CIRCUIT[:start] + piece + CIRCUIT[end:], {"formats": FORMATS, **table})


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 2**65), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=4,
)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(MODELS), TABLES)
def test_a_config_with_keys_replaced(data: st.DataObject, model: Any, table: dict[str, Any]) -> None:
    config = {"model_type": model["model_type"], **model["config"]}
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=2)):
        config[key] = data.draw(ANYTHING)
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=1)):
        del config[key]
    answer(json.dumps(config).encode(), table)


@settings(max_examples=40)
@given(TABLES)
def test_any_options_with_a_correct_file(table: dict[str, Any]) -> None:
    for content in (CIRCUIT, json.dumps({"model_type": "mamba", **MODELS[0]["config"]}).encode()):
        answer(content, dict(table))


def test_the_checks_see_an_answer() -> None:
    config = json.dumps({"model_type": "mamba", **MODELS[0]["config"]}).encode()
    check: Callable[[dict[str, Any]], str | None] = partial(answer, config)
    shown = check({"convention": "vllm", "json": True})
    assert shown is not None
    assert json.loads(shown)["bytes_per_sequence"] == 1400832
    assert check({"json": True}) is None
    assert check({}) is not None
