"""The sentences of logs and documents. Third-party text in them is made safe to show."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from proofstream import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    EventsLost,
    Interval,
    LayerEnd,
    LayerProofKind,
    LayerStart,
    Phase,
    PluginHealth,
    Proof,
    ProofComplete,
    ProofStart,
    Stage,
    StarkProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
    reported_duration_ms,
    safe_text,
)
from proofstream_rerun.picture.field import M31_PRIME, coefficients, limbs, sum_over_bits, written

MAX_TEXT = 600
MAX_KINDS = 16
"""The most kinds that a line names: producers choose the names of kinds, and how many there are."""
LEGEND = (
    "A box is a layer, in its kind's colour; its size goes with the logarithm of its cost. The bars behind it are its "
    "sumcheck rounds; a bar is as high as there are variables still to be bound. The green trail lies below proved "
    "layers. Claims are field elements and have no magnitude: a plot shows their first limb over 2³¹ - 1. In tensors, "
    "black means that there is no value."
)
_MARKUP = str.maketrans({character: "\\" + character for character in "\\`*_{}[]<>()#+-.!|~"})
_ENDINGS = {LayerProofKind.Skipped: "skipped", LayerProofKind.Deferred: "deferred"}
_NS_PER_MS = 1e6
_LONGEST_PATH = 8
_LONG_SILENCE_NS = 1_000_000_000
_SAID = frozenset({"model", "layers"})
"""The facts that a document says in other words."""
_POWERS = ("", " x", " x²", " x³")


def in_markdown(text: str, limit: int = MAX_TEXT) -> str:
    """Return third-party text made safe to show, with Markdown's own characters escaped."""
    return safe_text(text, limit).translate(_MARKUP)


def number(value: float | None) -> str:
    """Format a figure; an absent one becomes a question mark."""
    return "?" if value is None else f"{value:.6f}"


def shape(sides: tuple[int, int]) -> str:
    """Format a matrix's rows and columns."""
    rows, columns = sides
    return f"{rows}\N{MULTIPLICATION SIGN}{columns}"


def milliseconds(nanoseconds: int | None) -> str:
    """Format a duration in milliseconds; an absent one becomes a question mark."""
    if nanoseconds is None:
        return "?"
    digits = 1 if nanoseconds >= _NS_PER_MS or not nanoseconds else 3
    return f"{nanoseconds / _NS_PER_MS:,.{digits}f} ms"


def how_long(part: Interval | Stage) -> str | None:
    """Say how long something took, and the worth of that figure; None if that is not known."""
    match part.duration_source:
        case "measured" | "reported" as source:
            return f"{milliseconds(part.duration_ns)} ({source})"
        case "derived" if isinstance(part, Stage):
            return f"{milliseconds(part.duration_ns)} (laid out)"
        case "derived":
            return f"at most {milliseconds(part.duration_ns)}"
        case "at_least":
            return f"at least {milliseconds(part.duration_ns)}"
        case _:
            return None


def proof_time(proof: Proof) -> str:
    """Say how long a proof took, or at least its layers, and the worth of that figure."""
    whole = how_long(proof)
    if whole is not None:
        return whole
    layers = [how_long(stage) for stage in proof.stages if stage.name == "layers"]
    of_layers = layers[0] if layers else None
    return "not known" if of_layers is None else f"layers {of_layers}; the whole is not known"


def recording_name(proof: Proof) -> str:
    """Return the name of a proof's recording."""
    number = f"proof {proof.proof_ordinal}"
    if proof.backend is None:
        return f"{number}, joined after its start"
    model = f"{safe_text(proof.model_name, 80)} on " if proof.model_name else ""
    return f"{model}{safe_text(proof.backend, 80)}, {number}"


def proof_started(event: ProofStart, model_name: str | None) -> str:
    """Say that a proof began."""
    model = f", model {safe_text(model_name, 80)}" if model_name else ""
    return (
        f"proof started on {safe_text(event.backend, 80)}: {event.num_layers} layers, "
        f"{shape(event.input_shape)} in, {shape(event.output_shape)} out{model}"
    )


def proof_completed(proof: Proof, event: ProofComplete) -> str:
    """Say that a proof is complete."""
    mode = safe_text(event.weight_binding_mode, 80)
    duration_ms = reported_duration_ms(proof)
    is_new = duration_ms is not None and proof.duration_source != "reported"
    reported = f"; reported: {duration_ms} ms" if is_new else ""
    known = how_long(proof)
    took = f"({proof_time(proof)})" if known is None else f"in {known}"
    return (
        f"proof complete {took}{reported}, "
        f"{event.num_layer_proofs} layer proofs, {event.num_weight_openings} weight openings, weights bound: {mode}"
    )


def proof_aborted(proof: Proof) -> str:
    """Say that a proof was aborted."""
    return f"proof aborted {last_place(proof)}: {safe_text(proof.aborted_reason or 'no reason given', MAX_TEXT)}"


def last_place(proof: Proof) -> str:
    """Say where an aborted proof died: in which layer, or between which of its parts."""
    layer = proof.aborted_layer
    if layer is not None:
        return f"in layer {layer.key} {layer.layer_kind}"
    is_long = proof.silent_ns is not None and proof.silent_ns >= _LONG_SILENCE_NS
    silence = f", after {milliseconds(proof.silent_ns)} of silence" if is_long else ""
    match proof.stage:
        case "after_layers":
            return f"after the last layer ({proof.walked}){silence}"
        case "layers":
            return f"between two layers ({proof.walked} done){silence}"
        case "before_layers":
            return f"before the first layer{silence}"
        case _:
            return f"at a place that is not known{silence}"


def layer_started(event: LayerStart) -> str:
    """Say that a layer began."""
    device = "" if event.gpu_device is None else f", GPU {event.gpu_device}"
    return (
        f"→ [{event.layer_idx}] {event.kind.value} {shape(event.input_shape)} → {shape(event.output_shape)}, "
        f"cost {event.trace_cost:,}, claim≈{number(event.claim_value_approx)}{device}"
    )


def layer_ended(layer: Interval, event: LayerEnd) -> str:
    """Say that a layer ended with its own end event."""
    how = _ENDINGS.get(event.kind) or f"proved by {event.kind.value}"
    return (
        f"[{event.layer_idx}] {layer.layer_kind} {how}{_reported(' in', layer)}, "
        f"{layer.rounds} rounds seen, claim≈{number(event.final_claim_value_approx)}"
    )


def layer_left(layer: Interval) -> str:
    """Say that a layer was aborted, or that the walk went on without its end event."""
    if layer.aborted_reason is not None:
        return f"[{layer.key}] {layer.layer_kind} aborted: {safe_text(layer.aborted_reason, MAX_TEXT)}"
    return f"[{layer.key}] {layer.layer_kind}: its end was not seen"


def opening_started(event: WeightOpeningStart) -> str:
    """Say that the opening of a weight commitment began."""
    return f"opening weight {event.weight_node_id}: a point with {event.eval_point_len} coordinates"


def opening_ended(opening: Interval, event: WeightOpeningEnd) -> str:
    """Say that the opening of a weight commitment ended."""
    commitment = safe_text(event.commitment_hex, 40)
    return f"opened weight {event.weight_node_id}{_reported(' in', opening)}, commitment {commitment}"


def binding_started(event: AggregatedBindingStart) -> str:
    """Say that the weight binding began."""
    return f"binding {event.num_claims} claims on {event.num_matrices} matrices at once"


def binding_ended(binding: Interval, event: AggregatedBindingEnd) -> str:
    """Say that the weight binding ended."""
    felts = event.estimated_calldata_felts
    return f"claims bound{_reported(' in', binding)}, about {felts:,} field elements of calldata"


def stark_started(event: StarkProofStart) -> str:
    """Say that the unified STARK began."""
    return (
        f"STARK started over {event.num_activation_layers} activation, {event.num_add_layers} add and "
        f"{event.num_layernorm_layers} layer norm layers"
    )


def stark_ended(stark: Interval) -> str:
    """Say that the unified STARK ended."""
    return f"STARK ended{_reported(' after', stark)}"


def _reported(preposition: str, interval: Interval) -> str:
    """Return the reported duration as the end of a phrase; empty if the producer did not report it."""
    duration_ms = reported_duration_ms(interval)
    return "" if duration_ms is None else f"{preposition} {duration_ms} ms (reported)"


def phase_ended(phase: Phase) -> str:
    """Say that a phase ended."""
    path = " > ".join(safe_text(part.name, 60) for part in phase.path[-_LONGEST_PATH:])
    took = how_long(phase)
    said = f"phase {path}" if took is None else f"phase {path}: {took}"
    if phase.aborted_reason is not None:
        return f"{said}; aborted: {safe_text(phase.aborted_reason, MAX_TEXT)}"
    return said if phase.end_seen else f"{said}; its end was not seen"


def part_left(part: Interval) -> str:
    """Say that a weight opening, weight binding or STARK ended without an end event."""
    name = part.kind.value.replace("_", " ")
    key = "" if part.key is None else f" of weight {part.key}"
    return f"{name}{key}: {safe_text(part.aborted_reason or 'its end was not seen', MAX_TEXT)}"


def events_lost(event: EventsLost) -> str:
    """Say how many events of each kind were lost, and where."""
    named = heapq.nlargest(MAX_KINDS, event.counts.items(), key=lambda kind: kind[1])
    counts = [f"{count} {safe_text(kind, 40)}" for kind, count in sorted(named)]
    others = sum(event.counts.values()) - sum(count for _, count in named)
    if others:
        counts.append(f"{others} others")
    return f"events lost in {safe_text(event.where, 60)}: {', '.join(counts)}"


def plugin_trouble(event: PluginHealth) -> str:
    """Say that a plugin is stalled, broken or failed, or that its lane dropped events."""
    said = [f"plugin {safe_text(event.plugin, 60)} is {safe_text(event.status, 20)}"]
    if event.reason:
        said.append(safe_text(event.reason, MAX_TEXT))
    dropped = sum(event.dropped.values())
    if dropped:
        said.append(f"{dropped:,} events dropped")
    return "; ".join(said)


class LayerTime(NamedTuple):
    """How long a layer took, and the worth of that figure: `measured`, `reported`, `at_least` or `at_most`."""

    layer: int
    kind: str
    ms: float
    worth: str


def status(proof: Proof | None, facts: Mapping[str, object], slowest: Sequence[LayerTime]) -> str:
    """Return the document about a proof: model, outcome, time, further facts, the slowest layers, and a legend."""
    shown = {**_standing(proof), **{name: str(value) for name, value in facts.items() if name not in _SAID}}
    rows = [(in_markdown(name.replace("_", " "), 40), in_markdown(value)) for name, value in shown.items()]
    lines = [table(("", ""), [(f"**{name}**", f"**{value}**") for name, value in rows[:3]] + rows[3:]), ""]
    if slowest:
        lines += [table(("slowest layers", ""), map(_slow_row, slowest)), ""]
    return "\n".join([*lines, LEGEND])


def _standing(proof: Proof | None) -> dict[str, str]:
    """Return what is to be said of a proof first: its model, outcome and time."""
    if proof is None:
        return {"recording": "events of a session outside of any proof"}
    done = {"layers done": proof.walked, "rounds": f"{proof.rounds}"}
    model = {"model": proof.model_name or "not named"}
    if proof.is_open:
        return {**model, "outcome": "running", "time": "not over yet"}
    if proof.aborted_reason is None:
        return {**model, "outcome": "complete", "time": proof_time(proof), **_stage_times(proof), **done}
    outcome = f"ABORTED {last_place(proof)}: {proof.aborted_reason or 'no reason given'}"
    return {**model, "outcome": outcome, "time": proof_time(proof), **_stage_times(proof), **done}


def _stage_times(proof: Proof) -> dict[str, str]:
    return {stage.name: how_long(stage) or "not known" for stage in proof.stages}


def _slow_row(time: LayerTime) -> tuple[str, str]:
    took = f"{milliseconds(int(time.ms * _NS_PER_MS))} ({time.worth.replace('_', ' ')})"
    return f"{time.layer} {in_markdown(time.kind, 40)}", in_markdown(took)


def round_document(event: SumcheckRound) -> str:
    """Return the document that gives a round's polynomial, so that a reader can check the round."""
    title = f"**Layer {event.layer_idx}, round {event.round + 1} of {event.total_rounds}**\n\n"
    polynomial = [limbs(coefficient) for coefficient in coefficients(event)]
    if not polynomial:
        return title + "The producer gave no polynomial."
    total = sum_over_bits(polynomial)
    rows = "".join(f"| c{place}{_POWERS[place]} | {written(value)} |\n" for place, value in enumerate(polynomial))
    return (
        f"{title}| | element of QM31 |\n|---|---|\n{rows}| **p(0) + p(1)** | **{written(total)}** |\n\n"
        f"First limb of p(0) + p(1) over p: {total[0] / M31_PRIME:.6f} (derived); "
        f"claim {_claim(event)}."
    )


def _claim(event: SumcheckRound) -> str:
    return "not reported" if event.claim_value_approx is None else f"as reported: {number(event.claim_value_approx)}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown. Its cells must be Markdown already."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
