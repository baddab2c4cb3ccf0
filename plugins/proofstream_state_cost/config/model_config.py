"""Reads a model's `config.json`, as published on Hugging Face, into a description of its recurrent state."""

from __future__ import annotations

import json
from typing import Final, cast

from proofstream_state_cost.config.families import FAMILIES, KNOWN, NESTED, ORIGINAL, ModelFamily
from proofstream_state_cost.config.keys import ConfigKeys, ModelConfigError, shown
from proofstream_state_cost.config.recurrent_model import RecurrentModel
from proofstream_state_cost.states.state_circuit import Dtype

_DTYPE_KEYS: Final = ("dtype", "torch_dtype")
_DRAFT_KEYS: Final = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
_ORIGINAL_KEYS: Final = ("d_model", "n_layer", "ssm_cfg")
_TEXT: Final = "text_config"


def is_model_config(document: object) -> bool:
    """Return whether a JSON document looks like a model's configuration rather than a state circuit."""
    return isinstance(document, dict) and (
        "model_type" in document or _is_original(cast("dict[str, object]", document))
    )


def read_model_config(text: str, *, source: str = "config.json") -> RecurrentModel:
    """Read a configuration.

    Args:
        text: The file's text. NaN and Infinity are accepted as Python writes them, although JSON has neither.
        source: The file's name in messages.

    Returns:
        The model's recurrent state, which may be that no layer keeps any.

    Raises:
        ModelConfigError: The text is not JSON or of an unknown family, or the size of the state is left open because a
            key is missing or two keys contradict each other. All guesses are listed in `assumptions`.
    """
    return parse_model_config(_load(text, source), source=source)


def parse_model_config(document: object, *, source: str = "config.json") -> RecurrentModel:
    """Read a configuration that has been parsed already.

    Args:
        document: The parsed JSON.
        source: The file's name in messages.

    Returns:
        The model's recurrent state.

    Raises:
        ModelConfigError: As `read_model_config`.
    """
    if not isinstance(document, dict):
        raise ModelConfigError(f"{source}: a model's configuration is a JSON object, and this is not one")
    table = cast("dict[str, object]", document)
    top = ConfigKeys(table, owner=source)
    if "model_type" not in table and _is_original(table):
        return _model("mamba_ssm", ORIGINAL, top, top)
    model_type = top.word("model_type")
    if model_type is None:
        raise top.missing("model_type")
    if model_type in NESTED:
        return _nested(model_type, top, table)
    if model_type not in FAMILIES:
        raise _unknown(model_type, top)
    keys = ConfigKeys(table, owner=f"{source}: model_type {model_type}", notes=top.notes)
    if keys.has(_TEXT):
        raise keys.error(f"{_TEXT} is present, which a configuration of this type does not have")
    return _model(model_type, FAMILIES[model_type], keys, keys)


def _is_original(table: dict[str, object]) -> bool:
    return all(key in table for key in _ORIGINAL_KEYS) and isinstance(table["ssm_cfg"], dict)


def _unknown(model_type: str, top: ConfigKeys) -> ModelConfigError:
    inner = top.get(_TEXT)
    text_type = cast("dict[str, object]", inner).get("model_type") if isinstance(inner, dict) else None
    if isinstance(text_type, str) and text_type in FAMILIES:
        hint = f"its {_TEXT} has the known type {text_type}: put that table into a file of its own"
    else:
        hint = "a model without recurrent layers keeps no such state; a circuit file can describe any other"
    return top.error(f"model_type {shown(model_type)} is not known; known are {', '.join(KNOWN)}", hint=hint)


def _nested(model_type: str, top: ConfigKeys, table: dict[str, object]) -> RecurrentModel:
    """Read a configuration with a table for its language model. Of the keys beside it only the dtype counts."""
    owner = f"{top.owner}: model_type {model_type}"
    inner, expected = table.get(_TEXT), NESTED[model_type]
    if inner is None:
        raise ModelConfigError(
            f"{owner}: {_TEXT} is missing, which has the language model's keys",
            hint=f"a flat file has the model_type {' or '.join(expected)}",
        )
    if not isinstance(inner, dict):
        raise ModelConfigError(f"{owner}: {_TEXT} is {shown(inner)}, not a table")
    keys = ConfigKeys(cast("dict[str, object]", inner), owner=f"{owner}: {_TEXT}", notes=top.notes)
    text_type = keys.word("model_type")
    if text_type is None:
        text_type = expected[0]
        keys.assume(f"{_TEXT}.model_type is missing: {text_type} is assumed")
    if text_type not in expected:
        raise keys.error(f"its model_type is {shown(text_type)}, not {' or '.join(expected)}")
    return _model(model_type, FAMILIES[text_type], keys, top)


def _model(model_type: str, family: ModelFamily, keys: ConfigKeys, top: ConfigKeys) -> RecurrentModel:
    layers = family.layers(keys)
    mixer = family.mixer(keys) if layers.recurrent else None
    dtype = _dtype(keys, top)
    for key in _DRAFT_KEYS:
        drafting = keys.peek(key)
        if drafting is not None and drafting > 0:
            keys.assume(f"{key} {drafting} is left out: layers of drafting heads are taken to keep no recurrent state")
    return RecurrentModel(
        model_type=model_type,
        family=family.name,
        layers=layers,
        mixer=mixer,
        dtype=dtype,
        ssm_cache_dtype=keys.dtype("mamba_ssm_cache_dtype"),
        ssm_dtype=keys.dtype("mamba_ssm_dtype"),
        assumptions=tuple(keys.notes),
    )


def _dtype(keys: ConfigKeys, top: ConfigKeys) -> Dtype:
    """Return the model's dtype, which may stand beside the language model's table, in it, or in both."""
    found: list[tuple[str, Dtype]] = []
    tables = (("", keys),) if keys is top else ((f"{_TEXT}.", keys), ("", top))
    for prefix, table in tables:
        for key in _DTYPE_KEYS:
            dtype = table.dtype(key, auto=True)
            if dtype is not None:
                found.append((f"{prefix}{key}", dtype))
    for name, dtype in found[1:]:
        first, other = found[0]
        if dtype is not other:
            raise top.error(f"{first} is {other.value} and {name} is {dtype.value}: they contradict")
    if found:
        return found[0][1]
    keys.assume("dtype is missing: bfloat16 is assumed")
    return Dtype.BF16


def _load(text: str, source: str) -> object:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        table: dict[str, object] = {}
        for key, value in pairs:
            if key in table and table[key] != value:
                raise ModelConfigError(f"{source}: the key {shown(key)} stands twice, with different values")
            table[key] = value
        return table

    try:
        return cast("object", json.loads(text.removeprefix("\ufeff"), object_pairs_hook=unique))
    except json.JSONDecodeError as error:
        raise ModelConfigError(f"{source}: line {error.lineno}: invalid JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise ModelConfigError(f"{source}: unreadable JSON: a number is too long, or it is nested too deep") from None
