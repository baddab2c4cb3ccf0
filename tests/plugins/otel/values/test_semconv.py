"""The page on semantic conventions matches the code, and the code exports nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.values import semconv
from proofstream_otel.values.safe import DIGITS

PAGE = Path(__file__).parents[4] / "docs" / "semantic-conventions.md"
TYPES = {"string", "bool", "int", "double", "int[]", "double[]", "string[]"}
PYTHON_TYPES = {
    "string": str,
    "bool": bool,
    "int": int,
    "double": float,
    "int[]": list,
    "double[]": list,
    "string[]": list,
}


def names(owner: type) -> set[str]:
    """The names that a class of constants holds."""
    return {value for key, value in vars(owner).items() if key.isupper()}


def table(title: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def first_column(title: str) -> list[str]:
    """The names of a table's rows."""
    return [row[0].strip("`") for row in table(title)]


@pytest.mark.parametrize(
    ("title", "owner"),
    [("Spans", semconv.SpanName), ("Span events", semconv.EventName), ("Attributes", semconv.Attr)],
)
def test_the_page_has_every_name_once(title: str, owner: type) -> None:
    assert sorted(first_column(title)) == sorted(names(owner))


def test_every_attribute_has_a_type_and_a_provenance() -> None:
    for name, _, kind, _, provenance, meaning in table("Attributes"):
        assert kind in TYPES, name
        assert re.match(r"(measured|reported|derived|ours)\b", provenance), name
        assert meaning, name


def test_the_page_has_every_metric_as_the_code_makes_it() -> None:
    rows = [
        (
            name.strip("`"),
            unit,
            instrument,
            tuple(key.strip("`") for key in keys.split(", ") if key),
            meaning[-1:] == "*",
        )
        for name, unit, instrument, keys, _, meaning in table("Metrics")
    ]
    metrics = [(m.name, m.unit, m.instrument.value, m.attributes, m.is_live) for m in semconv.METRICS]
    assert rows == metrics


def test_every_metric_has_a_provenance_and_a_meaning() -> None:
    for name, _, _, _, provenance, meaning in table("Metrics"):
        assert provenance in {"measured", "reported", "derived"}, name
        assert meaning.strip(" *"), name


def test_the_page_has_every_attribute_of_metrics_once() -> None:
    assert sorted(first_column("Metric attributes")) == sorted(names(semconv.Label))
    used = {key for metric in semconv.METRICS for key in metric.attributes}
    assert used == names(semconv.Label)


def test_log_records_have_names_of_span_events() -> None:
    assert set(first_column("Log records")) == {semconv.EventName.LOG, semconv.EventName.ROUND}


def phases(kit: Any) -> list[ps.ProofEvent]:
    """A proof with a long phase around short ones, and one that dies in a layer, far behind the next."""
    short = [ps.PhaseStart(name="hash"), ps.PhaseEnd(name="hash")]
    progress = [ps.PhaseProgress(name="commit", done=1, total=2), ps.PhaseProgress(name="unknown", done=1)]
    commit = [ps.PhaseStart(name="commit", phase=1, layer_idx=0), *short, *progress]
    walk = [kit.proof_start(), kit.layer_start(), kit.layer_end()]
    died = [*walk, *walk, kit.proof_complete(), ps.ProofAborted(reason="gone")]
    return [*walk, *commit, kit.proof_complete(), ps.PhaseEnd(name="commit", phase=1, duration_ns=5), *died]


def test_exported_names_and_types_are_those_of_the_page(kit: Any, tmp_path: Path) -> None:
    types = {row[0].strip("`"): PYTHON_TYPES[row[2]] for row in table("Attributes")}
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    for part, stream in enumerate(["serde-all-variants", "aborted-then-next", "endless-and-holes"]):
        host.feed(kit.stream(stream, session_id=str(part)))
    host.feed(envelopes([], session_id="empty"))
    host.feed(envelopes(phases(kit), session_id="phases", step_ns=800_000))
    host.close()
    seen: set[str] = set()
    for span in kit.read_file(tmp_path / "traces.jsonl"):
        assert span.name.partition(" ")[0] in names(semconv.SpanName)
        holders = [span.attributes, *(event.attributes for event in span.events)]
        assert {event.name for event in span.events} <= names(semconv.EventName)
        for attributes in holders:
            seen |= set(attributes)
            for key, value in attributes.items():
                if key.endswith(DIGITS):
                    assert (types[key.removesuffix(DIGITS)], type(value)) in {(int, str), (list, list)}, key
                else:
                    assert isinstance(value, types[key]), key
    assert len(seen) > 80
