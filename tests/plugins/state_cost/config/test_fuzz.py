"""Damaged configurations: an error, the right answer, or an answer that notes its assumptions; never a crash."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proofstream_state_cost.config.conventions import PRESETS
from proofstream_state_cost.config.counted_states import count_states, describe_counting
from proofstream_state_cost.config.families import KNOWN
from proofstream_state_cost.config.keys import ModelConfigError
from proofstream_state_cost.config.model_config import parse_model_config, read_model_config
from proofstream_state_cost.config.recurrent_model import RecurrentModel
from proofstream_state_cost.states.errors import StateError
from proofstream_state_cost.states.programs import price_programs
from proofstream_state_cost.states.state_circuit import Dtype

_GOLDEN: Final = Path(__file__).parents[3] / "data" / "state" / "golden.json"
_WILD: Final[tuple[Any, ...]] = (None, True, 1.5, 4.0, -1, 2**64, "", "wide", [], [None], {}, float("inf"))
_GLM: Final[dict[str, Any]] = {
    "model_type": "glm5_next",
    "text_config": {
        "model_type": "glm5_next_text",
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention"] * 3 + ["deepseek_sparse_attention"],
        "linear_attn_config": {
            "kda_layers": [0, 1, 2],
            "full_attn_layers": [3],
            "num_heads": 64,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    },
}
_SSM: Final[dict[str, Any]] = {
    "d_model": 64,
    "n_layer": 2,
    "ssm_cfg": {"layer": "Mamba2", "d_state": 8, "headdim": 16, "ngroups": 1, "expand": 2, "d_conv": 4},
    "attn_layer_idx": [1],
}

Path_ = tuple[str, ...]


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return all published configurations in the test data, in all their forms."""
    for model in json.loads(_GOLDEN.read_text(encoding="utf-8"))["models"]:
        yield model["name"], {"model_type": model["model_type"], **model["config"]}
        if "config_json_other_published_form" in model:
            yield f"{model['name']} (other form)", model["config_json_other_published_form"]
    yield "GLM", _GLM
    yield "mamba_ssm", _SSM


_DOCUMENTS: Final = dict(_documents())


def _paths(table: dict[str, Any], prefix: Path_ = ()) -> Iterator[Path_]:
    for key, value in table.items():
        yield (*prefix, key)
        if isinstance(value, dict):
            yield from _paths(cast("dict[str, Any]", value), (*prefix, key))


_KEYS: Final = sorted({path[-1] for document in _DOCUMENTS.values() for path in _paths(document)})
_EMPTY_MEANS_SOMETHING: Final = {"attn_layer_indices", "full_attn_idxs", "attn_layer_idx"}
"""Lists of the layers that are not recurrent: an empty one is a model of recurrent layers only."""

each_document = pytest.mark.parametrize("name", list(_DOCUMENTS))


def _changed(name: str, path: Path_, value: Any = None, *, drop: bool = False) -> dict[str, Any]:
    document = copy.deepcopy(_DOCUMENTS[name])
    table = document
    for key in path[:-1]:
        table = table[key]
    if drop:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    return document


def _size(model: RecurrentModel) -> object:
    return model.layers, model.mixer, model.dtype


def _check_message(error: StateError) -> None:
    """Check that a message is one line that every terminal can show."""
    assert str(error).encode("utf-8").decode().isprintable()
    assert error.hint is None or error.hint.isprintable()


def _check_not_silent(name: str, path: Path_, document: dict[str, Any]) -> None:
    """Check for an error, the same answer, or a new note."""
    whole = parse_model_config(_DOCUMENTS[name])
    try:
        found = parse_model_config(document)
    except ModelConfigError as error:
        _check_message(error)
        return
    if _size(found) == _size(whole):
        return
    new = set(found.assumptions) - set(whole.assumptions)
    assert any(path[-1] in sentence for sentence in new), f"{path}: {_size(found)} without a word in {new}"


@each_document
def test_a_dropped_key_is_refused_or_noted(name: str) -> None:
    for path in _paths(_DOCUMENTS[name]):
        _check_not_silent(name, path, _changed(name, path, drop=True))


@each_document
def test_a_wild_value_is_refused_or_noted(name: str) -> None:
    for path in _paths(_DOCUMENTS[name]):
        for value in _WILD:
            if value == [] and path[-1] in _EMPTY_MEANS_SOMETHING:
                continue
            _check_not_silent(name, path, _changed(name, path, value))


@each_document
def test_the_lists_that_may_be_empty_are_few(name: str) -> None:
    whole = parse_model_config(_DOCUMENTS[name])
    for path in _paths(_DOCUMENTS[name]):
        try:
            found = parse_model_config(_changed(name, path, []))
        except ModelConfigError as error:
            _check_message(error)
            continue
        assert _size(found) == _size(whole) or path[-1] in _EMPTY_MEANS_SOMETHING


def _bytes(document: dict[str, Any]) -> int:
    circuit = count_states(parse_model_config(document), PRESETS["metrale"])
    return price_programs(circuit, {"ssm_h_storage": Dtype.F32})[0].bytes


def _numbers(table: dict[str, Any], prefix: Path_ = ()) -> Iterator[tuple[Path_, int]]:
    for key, value in table.items():
        if isinstance(value, int):
            yield (*prefix, key), value
        elif isinstance(value, dict):
            yield from _numbers(cast("dict[str, Any]", value), (*prefix, key))


@each_document
def test_more_of_anything_is_never_less_state(name: str) -> None:
    before = _bytes(_DOCUMENTS[name])
    for path, value in _numbers(_DOCUMENTS[name]):
        for more in (value + 1, 2 * value, 2**40):
            try:
                found = _bytes(_changed(name, path, more))
            except StateError as error:
                _check_message(error)
                continue
            assert found >= before, path


_SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 16, 2**32, 2**63, 2**64]),
    st.floats(),
    st.sampled_from(
        ["", "auto", "mamba", "linear_attention", "full_attention", "M*-E", "float32", "bfloat16", "\ud800\n"]
    ),
)
_LISTS: Final = st.lists(_SCALARS, max_size=4) | st.lists(
    st.sampled_from(["mamba", "attention", "linear_attention", "full_attention", "conv", "hybrid"]), max_size=4
)
_VALUES: Final = _SCALARS | _LISTS | st.dictionaries(st.sampled_from(_KEYS), _SCALARS | _LISTS, max_size=8)
_TABLES: Final = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=24)


def _answer(document: object) -> None:
    """Do everything with a document; only our own errors may be raised."""
    try:
        model = parse_model_config(document)
    except ModelConfigError as error:
        _check_message(error)
        return
    for preset in PRESETS.values():
        try:
            circuit = count_states(model, preset, snapshots=True)
            said = describe_counting(model, preset)
            programs = price_programs(circuit, preset.formats)
        except StateError as error:
            _check_message(error)
            continue
        assert all(sentence.isprintable() for sentence in (said, *circuit.assumptions))
        assert circuit.recurrent_layer_ids == model.recurrent_layer_ids
        assert all(program.bytes >= 0 for program in programs)


@given(
    model_type=st.sampled_from([*KNOWN, "mamba9", "", None]),
    table=_TABLES,
    text=st.none() | _TABLES,
    inner=st.none() | _TABLES,
)
def test_no_document_makes_it_crash(model_type: Any, table: Any, text: Any, inner: Any) -> None:
    document = {**table, "model_type": model_type}
    if text is not None:
        document["text_config"] = {**text, "model_type": f"{model_type}_text"}
    if inner is not None:
        document["linear_attn_config"] = inner
        document["ssm_cfg"] = inner
    _answer(document)


@given(
    name=st.sampled_from(sorted(_DOCUMENTS)),
    changes=st.lists(st.tuples(st.integers(min_value=0), _VALUES), min_size=1, max_size=4),
)
def test_no_damage_to_a_published_file_makes_it_crash(name: str, changes: list[tuple[int, Any]]) -> None:
    document = copy.deepcopy(_DOCUMENTS[name])
    for number, value in changes:
        paths = list(_paths(document))
        if not paths:
            break
        path = paths[number % len(paths)]
        table = document
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value
    _answer(document)


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda data: data.decode("latin-1")))
@example('{"model_type": "mamba", "model_type": "mamba2"}')
@example('{"model_type": 1e999}')
def test_no_text_makes_it_crash(text: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        read_model_config(text)
    assert str(caught.value).isprintable()


@given(
    heads=st.integers(1, 64), groups=st.integers(1, 4), width=st.integers(1, 64), state=st.integers(1, 64),
    kernel=st.integers(1, 8), layers=st.integers(1, 6),
)  # fmt: skip
def test_sizes_are_the_products_of_their_dimensions(
    heads: int, groups: int, width: int, state: int, kernel: int, layers: int
) -> None:
    document = {
        "model_type": "mamba2",
        "num_hidden_layers": layers,
        "num_heads": heads * groups,
        "head_dim": width,
        "state_size": state,
        "n_groups": groups,
        "conv_kernel": kernel,
    }
    inner = heads * groups * width
    assert _bytes(document) == 4 * layers * (inner * state + (inner + 2 * groups * state) * kernel)
