"""Reads FILE: a state circuit or a model's `config.json`, told apart by its content."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from proofstream import ConfigError, UsageError, parse_toml, read_small_file, safe_text
from proofstream_state_cost.circuit.file import FileFormat, parse_circuit
from proofstream_state_cost.config.conventions import PRESETS, Convention, choose_convention
from proofstream_state_cost.config.counted_states import count_states, describe_counting
from proofstream_state_cost.config.model_config import is_model_config, read_model_config
from proofstream_state_cost.config.recurrent_model import RecurrentModel
from proofstream_state_cost.settings import Settings
from proofstream_state_cost.states.costing import DECLARED, CircuitCosts, cost_circuit
from proofstream_state_cost.states.errors import MissingFormat, StateError
from proofstream_state_cost.tool.priced_circuit import CountedCircuit

MAX_BYTES: Final = 4 * 2**20
"""A longer file is neither. The limit bounds memory: FILE may be a pipe or a checkpoint of gigabytes."""

_CIRCUIT_KEYS: Final = frozenset({"block", "dims", "layer_kinds", "layers", "prologue", "epilogue", "draft"})
_CONVENTION_KEYS: Final = ("convention", "conv_columns", "conv_dtype", "h_dtype", "speculative_tokens")
_DECLARED_COUNTS: Final = "the states as the circuit declares them; one sequence, TP=1"
_EITHER: Final = (
    "a state circuit has `name`, `block` and `layers` (docs/state-circuits.md), a config.json has `model_type` "
    "(docs/state-models.md)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFile:
    """The states of FILE.

    Attributes:
        path: Its path as messages show it.
        counted: Its states under the chosen convention, or else under each convention that applies.
        chosen: Whether a convention was chosen; a state circuit leaves no choice.
        left_out: Why other conventions do not apply, a sentence each.
    """

    path: str
    counted: tuple[CountedCircuit, ...]
    chosen: bool = True
    left_out: tuple[str, ...] = ()


def read_state_file(path: str, settings: Settings) -> StateFile:
    """Read FILE and count its states.

    A text that begins with a brace is JSON, any other is TOML. JSON with the keys of a model's configuration is one; a
    document with keys of a state circuit is a state circuit.

    Raises:
        ProofstreamError: FILE cannot be read, is neither, or contradicts the settings; one line.
    """
    text = _read(path)
    path = _shown(path)
    form: FileFormat = "json" if text.lstrip().startswith("{") else "toml"
    document = _parse(text, form)
    if document is None and path.lower().endswith(".json"):
        form = "json"  # its name says JSON, so a message about TOML would not help
    if is_model_config(document):
        return _of_model(text, path, settings)
    # A document that cannot be parsed goes on: parse_circuit names the line of the error.
    if document is not None and not _CIRCUIT_KEYS & document.keys():
        raise UsageError(f"{path}: this is neither a state circuit nor a model's config.json", hint=_EITHER)
    circuit = parse_circuit(text, format=form, name=path)
    _refuse_convention(path, settings)
    counted = CountedCircuit(circuit=circuit, convention=DECLARED, counts=_DECLARED_COUNTS, formats={})
    return StateFile(path=path, counted=(counted,))


def costs_of_file(settings: Settings) -> CircuitCosts:
    """Return the costs of the file that the settings name, which price everything in a run.

    Raises:
        ConfigError: The file cannot be used, or a convention must be chosen; one line.
    """
    assert settings.file is not None
    try:
        found = read_state_file(settings.file, settings)
        if not found.chosen:
            raise _no_convention(found)
        (only,) = found.counted
        return cost_circuit(only.circuit, {**only.formats, **settings.formats}, convention=only.convention)
    except MissingFormat as error:
        hint = f"give one, as in --set state-cost.formats={error.key}=bf16"
        raise ConfigError(f"state-cost.file: {_shown(settings.file)}: {error}", hint=hint) from None
    except (StateError, UsageError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"state-cost.file: {error}", hint=error.hint) from None


def _no_convention(found: StateFile) -> ConfigError:
    names = ", ".join(each.convention for each in found.counted)
    return ConfigError(
        f"state-cost.convention: {found.path} is a model's config.json, which leaves open how states are counted",
        hint=f"choose one of {names}, as in --set state-cost.convention={found.counted[0].convention}",
    )


def _of_model(text: str, path: str, settings: Settings) -> StateFile:
    model = read_model_config(text, source=path)
    if any(getattr(settings, key) is not None for key in _CONVENTION_KEYS):
        convention = choose_convention(
            settings.convention,
            conv_columns=settings.conv_columns,
            conv_dtype=settings.conv_dtype,
            h_dtype=settings.h_dtype,
            speculative_tokens=settings.speculative_tokens or 0,
        )
        return StateFile(path=path, counted=(_counted(model, convention, settings),))
    refusals = {name: preset.why_not(model) for name, preset in PRESETS.items()}
    applicable = [preset for name, preset in PRESETS.items() if refusals[name] is None]
    return StateFile(
        path=path,
        counted=tuple(_counted(model, preset, settings) for preset in applicable),
        chosen=False,
        left_out=tuple(reason for reason in refusals.values() if reason is not None),
    )


def _counted(model: RecurrentModel, convention: Convention, settings: Settings) -> CountedCircuit:
    return CountedCircuit(
        circuit=count_states(model, convention, snapshots=settings.snapshots),
        convention=convention.name,
        counts=describe_counting(model, convention),
        formats=convention.formats,
    )


def _read(path: str) -> str:
    shown = _shown(path)
    try:
        content = read_small_file(Path(path), MAX_BYTES)
    except OSError as error:
        limit = ", the limit for a state circuit or a config.json" if error.errno == errno.EFBIG else ""
        hint = "standard input is /dev/stdin" if path == "-" else None
        raise UsageError(f"{shown}: {error.strerror or error}{limit}", hint=hint) from None
    except ValueError as error:  # a path with a NUL in it
        raise UsageError(f"{shown}: {error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown}: byte {error.start} is not UTF-8") from None


def _shown(path: str) -> str:
    """Return a path as a message shows it: in one line, and never cut, so that the user can find the file."""
    return safe_text(path, limit=len(path)) or "''"


def _parse(text: str, form: FileFormat) -> Mapping[str, object] | None:
    """Return the document, or None if the text is not one table."""
    try:
        document: object = json.loads(text) if form == "json" else parse_toml(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", document) if isinstance(document, dict) else None


def _refuse_convention(path: str, settings: Settings) -> None:
    given = [key for key in (*_CONVENTION_KEYS, "snapshots") if getattr(settings, key) not in (None, False)]
    if given:
        option = f"{given[0]} (--{given[0].replace('_', '-')})"
        raise UsageError(f"{option} is for a model's config.json; {path} is a state circuit, which declares its states")
