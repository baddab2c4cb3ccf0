"""Reads circuit files, in TOML or JSON, into state circuits."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import ValidationError

from proofstream import parse_toml, safe_text
from proofstream_state_cost.circuit.build import KeyPathError, build_circuit
from proofstream_state_cost.circuit.file_tables import CircuitTable
from proofstream_state_cost.circuit.mistakes import describe_path, first_mistake
from proofstream_state_cost.circuit.toml_lines import TomlLines
from proofstream_state_cost.states.errors import CircuitFileError, StateError
from proofstream_state_cost.states.state_circuit import StateCircuit

FileFormat: TypeAlias = Literal["toml", "json"]

_BEYOND: Final = "a number is too long, or it is nested too deep"
"""Why Python's readers refuse correct syntax. Their own messages are meant for programmers."""


def parse_circuit(text: str, *, format: FileFormat, name: str) -> StateCircuit:  # noqa: A002 - by its name only
    """Read the text of a circuit file.

    Args:
        text: The text.
        format: The format of the text.
        name: The file's name in messages: its path.

    Raises:
        CircuitFileError: The text does not describe a state circuit; one line says where and why.
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
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        where = f"{name}:{place[1]}" if place else name
        reason = _TOML_PLACE.sub(lambda match: f" (column {match[2]})", str(error))
        raise CircuitFileError(f"{where}: invalid TOML: {reason}") from error
    except ValueError as error:
        raise CircuitFileError(f"{name}: unreadable TOML: {error}") from error


class _Refused(ValueError):
    """JSON that Python reads and circuit files must not contain."""


def _parse_json(text: str, name: str) -> dict[str, Any]:
    try:
        tables: Any = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise CircuitFileError(f"{name}:{error.lineno}: invalid JSON: {error.msg} (column {error.colno})") from error
    except _Refused as error:
        raise CircuitFileError(f"{name}: unreadable JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CircuitFileError(f"{name}: unreadable JSON: {_BEYOND}") from error
    if not isinstance(tables, dict):
        raise CircuitFileError(f"{name}: a circuit file must hold one JSON object")
    return cast("dict[str, Any]", tables)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise _Refused(f"the key '{safe_text(key)}' stands twice in one object")
        table[key] = value
    return table


def _refuse_constant(word: str) -> None:
    raise _Refused(f"{word} is not a JSON number")
