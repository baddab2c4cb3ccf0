"""Circuit files: the states of a model as a person declares them, in TOML or JSON."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import ValidationError

from proofstream_state_cost.circuit.build import KeyPathError, build_circuit
from proofstream_state_cost.circuit.file_tables import CircuitTable
from proofstream_state_cost.circuit.mistakes import describe_path, first_mistake
from proofstream_state_cost.circuit.toml_lines import TomlLines
from proofstream_state_cost.states.errors import CircuitFileError, StateError
from proofstream_state_cost.states.state_circuit import StateCircuit

FileFormat: TypeAlias = Literal["toml", "json"]

_SHOWN: Final = 100
"""Characters of a key that a message repeats."""

_BEYOND: Final = "a number is too long, or it is nested too deep"
"""What Python's readers refuse beside mistakes of syntax; their own words are for programmers."""


def parse_circuit(text: str, *, format: FileFormat, name: str) -> StateCircuit:  # noqa: A002 - by its name only
    """Read the text of a circuit file.

    Args:
        text: The text.
        format: What it is written in.
        name: What messages call it: the file's path.

    Raises:
        CircuitFileError: It does not describe a state circuit; one line says where and why.
    """
    tables = _parse_toml(text, name) if format == "toml" else _parse_json(text, name)
    try:
        return build_circuit(CircuitTable.model_validate(tables))
    except ValidationError as error:
        path, reason = first_mistake(error)
    except KeyPathError as error:
        path, reason = error.path, str(error)
    except StateError as error:
        path, reason = (), str(error)
    line = TomlLines(text).find(path) if format == "toml" else None
    where = name if line is None else f"{name}:{line}"
    raise CircuitFileError(": ".join(part for part in (where, describe_path(path, tables), reason) if part))


_TOML_PLACE: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")


def _parse_toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        where = f"{name}:{place[1]}" if place else name
        reason = _TOML_PLACE.sub(lambda match: f" (column {match[2]})", str(error))
        raise CircuitFileError(f"{where}: no TOML: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise CircuitFileError(f"{name}: no TOML that can be read: {_BEYOND}") from error


class _Refused(ValueError):
    """What JSON allows, or Python reads, and a circuit file does not hold."""


def _parse_json(text: str, name: str) -> dict[str, Any]:
    try:
        tables: Any = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise CircuitFileError(f"{name}:{error.lineno}: no JSON: {error.msg} (column {error.colno})") from error
    except _Refused as error:
        raise CircuitFileError(f"{name}: no JSON that can be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CircuitFileError(f"{name}: no JSON that can be read: {_BEYOND}") from error
    if not isinstance(tables, dict):
        raise CircuitFileError(f"{name}: a circuit file holds one JSON object")
    return cast("dict[str, Any]", tables)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise _Refused(f"the key {key[:_SHOWN]!r} stands twice in one object")
        table[key] = value
    return table


def _refuse_constant(word: str) -> None:
    raise _Refused(f"{word} is no number of JSON")
