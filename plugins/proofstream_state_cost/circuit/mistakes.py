"""Describes a circuit file's mistakes: where they are, and why a value is refused."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ValidationError

from proofstream import safe_text
from proofstream_state_cost.circuit.file_tables import BlockTable, CircuitTable, LayersTable, StateTable
from proofstream_state_cost.circuit.toml_lines import KeyPath

_MODELS: Final[dict[tuple[str, int], type[BaseModel]]] = {
    ("block", 2): BlockTable,
    ("block", 4): StateTable,
    ("layers", 2): LayersTable,
}
"""The table at a path, by the path's first key and its length."""

_REASONS: Final = {
    "missing": "it is missing",
    "string_type": "it is not a string",
    "string_pattern_mismatch": "a name consists of letters, digits, _ and -",
    "int_type": "it is not a whole number",
    "list_type": "it is not a list",
    "dict_type": "it is not a table",
    "model_type": "it is not a table",
}
"""Why a value is refused, by pydantic's name for the error."""

_LONGEST: Final = 500
"""Characters of a reason, or of one part of a path, in a message: pydantic may repeat a whole value."""


def first_mistake(error: ValidationError) -> tuple[KeyPath, str]:
    """Return where and why a file's tables are wrong first.

    A misspelt key also makes the right one missing, so unknown keys come before all else.
    """
    errors = error.errors(include_url=False, include_context=False)
    first = min(errors, key=lambda each: each["type"] != "extra_forbidden")
    path: KeyPath = tuple(part for part in first["loc"] if part != "[key]")
    if first["type"] == "extra_forbidden":
        model = _MODELS.get((str(path[0]), len(path) - 1), CircuitTable)
        return path, f"unknown key; known are {', '.join(sorted(model.model_fields))}"
    message = _REASONS.get(first["type"]) or safe_text(first["msg"].removeprefix("Value error, "), _LONGEST)
    return path, f"{message[:1].lower()}{message[1:]}"


def describe_path(path: KeyPath, tables: dict[str, Any]) -> str:
    """Return a path in words: `block mamba, state conv, shape`; empty for the whole file.

    Args:
        path: The path.
        tables: The parsed file.
    """
    match path:
        case ("block", name, "state", int(index), *rest):
            parts = [f"block {name}", f"state {_state_id(tables, str(name), index)}", *rest]
        case (key, int(index), *rest):
            parts = [f"{key}, entry {index + 1}", *rest]
        case (("block" | "layer_kinds") as key, name, *rest):
            parts = [f"{key.replace('_kinds', ' kind')} {name}", *rest]
        case _:
            parts = list(path)
    return ", ".join(safe_text(str(part), _LONGEST) for part in parts)


def _state_id(tables: dict[str, Any], block: str, index: int) -> str:
    """Return the id of a block's state, or its number if it has no usable id."""
    state: Any = tables["block"][block]["state"][index]
    name: Any = state.get("id") if hasattr(state, "get") else None
    return name if isinstance(name, str) else f"number {index + 1}"
