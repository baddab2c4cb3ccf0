"""The configuration table ``[otel]``, and what the OpenTelemetry environment variables say about it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pydantic

from proofstream import ConfigError
from proofstream_otel import environment

MAX_NOTES = 512
"""Span events that are not rounds, at most, per span."""

_NO_LIMIT = 2**31
_SCHEMES = ("http://", "https://", "grpc://")
_EVENT_LIMIT_VARIABLE = "OTEL_SPAN_EVENT_COUNT_LIMIT"


class Rounds(enum.Enum):
    """How sumcheck rounds are exported."""

    SPAN_EVENTS = "span_events"
    """One span event each, on the layer's span."""
    AGGREGATE = "aggregate"
    """As counts on the layer's span."""
    OFF = "off"
    """As the count alone."""


class NoteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many events one span may have: rounds, others, and both together."""

    rounds: Rounds
    max_rounds: int
    max_notes: int
    max_events: int


def _known_mode(value: object) -> object:
    if value in ("logs", "both"):
        raise ValueError(f"{value!r} is not supported: rounds go to traces only")
    return value


def _known_scheme(value: str | None) -> str | None:
    if value and not value.startswith(_SCHEMES):
        raise ValueError(f"{value!r} does not start with http://, https:// or grpc://")
    return value


class Settings(pydantic.BaseModel):
    """What a person can configure.

    Attributes:
        endpoint: Base URL of an OTLP receiver; empty for OTEL_EXPORTER_OTLP_ENDPOINT, or else the standard one.
        file: Folder for OTLP JSON lines.
        headers: Sent with every request, beside those of OTEL_EXPORTER_OTLP_HEADERS.
        rounds: How sumcheck rounds are exported.
        max_round_events: How many rounds of one span are exported; OTEL_SPAN_EVENT_COUNT_LIMIT wins if it is lower.
        max_file_bytes: When a file is set aside as ``traces-<n>.jsonl``.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    endpoint: Annotated[str | None, pydantic.AfterValidator(_known_scheme)] = None
    file: Path | None = None
    headers: dict[str, str] = {}
    rounds: Annotated[Rounds, pydantic.BeforeValidator(_known_mode)] = Rounds.SPAN_EVENTS
    max_round_events: Annotated[int, pydantic.Field(ge=0, le=100_000)] = 512
    max_file_bytes: Annotated[int, pydantic.Field(ge=2**20)] = 64 * 2**20

    @property
    def note_limits(self) -> NoteLimits:
        """The limits on a span's events."""
        said = environment.whole_number(_EVENT_LIMIT_VARIABLE)
        limit = _NO_LIMIT if said is None else said
        return NoteLimits(
            rounds=self.rounds,
            max_rounds=min(self.max_round_events, limit) if self.rounds is Rounds.SPAN_EVENTS else 0,
            max_notes=min(MAX_NOTES, limit),
            max_events=limit,
        )


def read(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown or a value is wrong.
    """
    try:
        return Settings.model_validate(dict(table))
    except pydantic.ValidationError as error:
        raise ConfigError("; ".join(_line(detail) for detail in error.errors())) from None


def _line(detail: Any) -> str:
    where = ".".join(["otel", *(str(part) for part in detail["loc"])])
    if detail["type"] == "extra_forbidden":
        return f"{where}: there is no such key; known are {', '.join(sorted(Settings.model_fields))}"
    return f"{where}: {detail['msg'].removeprefix('Value error, ')}"
