"""docs/events.md names every kind, field and word that there is, and its examples can be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proofstream import events as ev
from proofstream.catalog import Catalog
from proofstream.wire import LineDecoder

TEXT = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
PARTS: tuple[type[msgspec.Struct], ...] = (
    ev.SecureField,
    ev.RoundPoly,
    ev.RoundPolyDeg3,
    ev.CircuitNode,
    ev.GpuSnapshot,
    ev.GpuReading,
    ev.StateDeclaration,
    ev.StateBytes,
    ev.ActivationStats,
)


def chapter(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def sections(title: str) -> dict[str, str]:
    """The sections of a chapter by their heading."""
    found = re.split(r"^### (.+)$", chapter(title), flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def fields_in(section: str) -> list[tuple[str, str]]:
    """Name and type of each row of a section's table."""
    return re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("title", "types"),
    [
        ("Events of the producer", ev.PRODUCER_EVENTS),
        ("Events of proofstream", ev.HOST_EVENTS),
        ("Parts of events", PARTS),
    ],
)
def test_kinds_and_fields_are_those_of_the_structs(title: str, types: tuple[type[msgspec.Struct], ...]) -> None:
    documented = {kind: [name for name, _ in fields_in(text)] for kind, text in sections(title).items()}
    documented.pop("Words", None)

    assert documented == {t.__name__: list(t.__struct_fields__) for t in types}


@pytest.mark.parametrize(
    "event_type", [*ev.PRODUCER_EVENTS, *ev.HOST_EVENTS, *PARTS], ids=lambda event_type: event_type.__name__
)
def test_a_question_mark_says_what_may_be_null(event_type: type[msgspec.Struct]) -> None:
    every = {**sections("Events of the producer"), **sections("Events of proofstream"), **sections("Parts of events")}
    documented = {name for name, kind in fields_in(every[event_type.__name__]) if kind.endswith("?")}

    assert documented == {f.name for f in msgspec.structs.fields(event_type) if type(None) in _options(f.type)}


def _options(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__args__", ())


@pytest.mark.parametrize("enum", [ev.LayerKind, ev.LayerProofKind, ev.LogLevel])
def test_words_are_those_of_the_enums(enum: Any) -> None:
    (line,) = re.findall(rf"^- {enum.__name__}: ((?:`\w+`,?\s+)*`\w+`)", TEXT, flags=re.MULTILINE)

    assert re.findall(r"`(\w+)`", line) == [member.value for member in enum]


def test_examples_can_be_read() -> None:
    decoder = LineDecoder(Catalog())
    lines = [line for block in re.findall(r"```json\n(.*?)```", TEXT, flags=re.DOTALL) for line in block.splitlines()]
    decoded = [decoder.decode(line.encode()) for line in lines]

    assert len(decoded) == 4
    assert not any(isinstance(one.event, ev.UnknownEvent) for one in decoded)
    assert [one.job_id for one in decoded] == [None, "9f2c", None, "9f2c"]
    assert decoded[2].origin == "host"


def test_the_envelopes_fields_are_those_that_are_written() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", chapter("On the wire"), flags=re.MULTILINE))

    optional = {"origin", "job_id", "parent_job_id", "time_source", "traceparent", "model_name"}
    assert documented == {"v", "seq", "time_unix_nano", "session_id", "event", *optional}
