"""Derives spans of the stages of a proof that no event of their own delimits: before and after its layers."""

from __future__ import annotations

from collections.abc import Iterator

from proofstream import Proof, Stage
from proofstream_otel.traces import describe, ids, new_spans
from proofstream_otel.traces.places import Place
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Attr, SpanName
from proofstream_otel.values.spans import SpanValues

LONGEST_IDLE_NS = 1_000_000
"""A stage has a span if it took longer. One without any work takes microseconds."""

_NAMES = (SpanName.BEFORE_LAYERS, SpanName.AFTER_LAYERS)


def stage_spans(proof: Proof, above: Place) -> Iterator[SpanValues]:
    """Yield the spans of the stages of a proof that has ended. Its layers show the stage between the two."""
    for stage in proof.stages:
        if stage.name in _NAMES and _is_worth_it(stage):
            span = new_spans.span_below(
                above,
                name=stage.name,
                span_id=ids.stage_span_id(proof, stage.name),
                start_unix_nano=stage.start_unix_nano,
                attributes={Attr.DERIVED: True, **describe.worth_of(stage.duration_source)},
            )
            span.end_unix_nano = max(span.start_unix_nano, safe.timestamp(stage.end_unix_nano or 0))
            yield span


def _is_worth_it(stage: Stage) -> bool:
    return stage.duration_source not in (None, "unknown") and (stage.duration_ns or 0) > LONGEST_IDLE_NS
