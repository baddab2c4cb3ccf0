"""Places in a circuit file, in words."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ValidationError

from proofstream_state_cost.circuit.file_tables import BlockTable, CircuitTable, LayersTable, StateTable
from proofstream_state_cost.circuit.toml_lines import KeyPath
from proofstream_state_cost.states.errors import one_line

_MODELS: Final[dict[tuple[str, int], type[BaseModel]]] = {
    ("block", 2): BlockTable,
    ("block", 4): StateTable,
    ("layers", 2): LayersTable,
}
"""The table at a place, by the place's first key and its length."""

_REASONS: Final = {
    "missing": "it is missing",
    "string_type": "it is no text",
    "string_pattern_mismatch": "a name is written in letters, digits, _ and -",
    "int_type": "it is no whole number",
    "list_type": "it is no list",
    "dict_type": "it is no table",
    "model_type": "it is no table",
}
"""Why a value is refused, by what pydantic calls it."""

_LONGEST_REASON: Final = 500


def first_mistake(error: ValidationError) -> tuple[KeyPath, str]:
    """Where a file's tables are wrong first, and why. A misspelt key comes before the key that is missing for it."""
    errors = error.errors(include_url=False, include_context=False)
    first = min(errors, key=lambda each: each["type"] != "extra_forbidden")
    path: KeyPath = tuple(part for part in first["loc"] if part != "[key]")
    if first["type"] == "extra_forbidden":
        model = _MODELS.get((str(path[0]), len(path) - 1), CircuitTable)
        return path, f"there is no such key; known are {', '.join(sorted(model.model_fields))}"
    message = _REASONS.get(first["type"]) or first["msg"].removeprefix("Value error, ")[:_LONGEST_REASON]
    return path, f"{message[:1].lower()}{message[1:]}"


def describe_path(path: KeyPath, tables: dict[str, Any]) -> str:
    """A place for people: `block mamba, state conv, shape`; empty for the whole file.

    Args:
        path: The place.
        tables: The file, as it was read.
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
    return ", ".join(one_line(str(part))[:_LONGEST_REASON] for part in parts)


def _state_id(tables: dict[str, Any], block: str, index: int) -> str:
    """What a block's state is called; its number where it has no name that could be told."""
    state: Any = tables["block"][block]["state"][index]
    name: Any = state.get("id") if hasattr(state, "get") else None
    return name if isinstance(name, str) else f"number {index + 1}"
