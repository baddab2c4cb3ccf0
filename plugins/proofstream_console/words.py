"""Sentences about proofs, layers, phases and plugins, shared by live view, plain lines and report."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from proofstream import Interval, IntervalKind, Phase, PluginHealth, safe_text
from proofstream_console.device_summary import DeviceFigures, DeviceSummary, MeasuredDevice
from proofstream_console.durations import DurationTally, Took
from proofstream_console.energy_tally import EnergyTally
from proofstream_console.formats import (
    ARROW,
    AT_LEAST,
    DOT,
    ELLIPSIS,
    UNKNOWN,
    count,
    counted,
    duration,
    fine_percent,
    index,
    joules,
    memory,
    percent,
    size,
)
from proofstream_console.news import ProofSilent
from proofstream_console.phase_summary import AFTER_PROOFS, OUTSIDE, path_of, running_parts
from proofstream_console.proof_summary import LayerSummary, ProofSummary
from proofstream_console.session_summary import SessionSummary
from proofstream_console.state_summary import StateCircuitSummary, StateProgramSummary
from proofstream_console.trouble import NOT_WORKING, dropped_events, undelivered

MAX_NAME = 60
MAX_MESSAGE = 500
MAX_LINE = 1000

SILENCE_TOLD_FROM_NS = 10**9
"""A silence below a second is not worth a word."""

_LONGEST_PATH = 4

_GENERATED_JOB = re.compile(r"proof-\d+")
"""The names that `session.proof` gives to its jobs."""

_NOT_SEEN = "its end was not seen"
"""How the reasons begin that a timeline gives for a proof whose end it waited for in vain."""

_WORTHS = ("measured", "reported", "derived")

PARTS = {
    IntervalKind.WEIGHT_OPENING: "weight opening",
    IntervalKind.WEIGHT_BINDING: "weight binding",
    IntervalKind.STARK_PROOF: "STARK proof",
}
"""What runs in a proof besides layers and phases."""

STAGES = {"before_layers": "before layers", "layers": "layers", "after_layers": "after layers"}
"""The stages of a proof."""

_IN_STAGES = {"before_layers": " before its layers", "layers": " among its layers", "after_layers": " after its layers"}

PROOFS_AT_ONCE = (
    "proofs ran at once without job ids, or one died unseen: which event is whose is not always known; "
    "send job frames, or use session.proof"
)
"""What a session does whose proofs overlap, and what to do about it."""


Elapsed: TypeAlias = Callable[[Interval], Took]
"""Returns how long an open interval has taken so far."""


# Durations


def time(took: Took) -> str:
    """Return a duration with its worth: `1.72 s`, `1.72 s, as reported`, `at least 529 ms`."""
    said = duration_of(took)
    match took.source:
        case "measured":
            return said
        case "reported":
            return f"{said}, as reported"
        case "at_least":
            return f"at least {said}"
        case "derived":
            return f"{said}, derived"
        case _:
            return "an unknown time"


def duration_of(took: Took) -> str:
    """Return a duration. Layers and proofs are reported in whole milliseconds, rounded down."""
    return "<1 ms" if took.is_below_unit else duration(took.ns)


def short_time(took: Took) -> str:
    """Return a duration for a column of a table."""
    if took.source == "unknown":
        return UNKNOWN
    return f"{AT_LEAST} {duration(took.ns)}" if took.source == "at_least" else duration_of(took)


def total_time(tally: DurationTally) -> str:
    """Return the sum of durations, or a bound of it where 0 ms are reported."""
    if not tally.timed:
        return UNKNOWN
    bound = tally.bound_ns(tally.total_ns, tally.below_unit)
    return duration(tally.total_ns) if bound is None else f"<{duration(bound)}"


def worth(sources: Collection[str]) -> str:
    """Return what figures rest on, in brackets: ` (measured and reported)`; empty if there are none."""
    known = [source for source in _WORTHS if source in sources]
    return f" ({' and '.join(known)})" if known else ""


def untimed(tallies: Iterable[DurationTally], noun: str) -> str:
    """Return a remark about intervals that no sum contains, because their time is not known; or an empty text."""
    number = sum(tally.count - tally.timed for tally in tallies)
    return f"without {counted(number, noun)} whose time is not known" if number else ""


def _why_unknown(proof: ProofSummary) -> str:
    """Return what is known instead of a proof's duration."""
    if proof.end_ambiguous:
        return "its time is not known, because its end may be another proof's"
    layers = proof.layers_took
    if layers is None:
        return "its time is not known"
    bound = "at least " if layers.source == "at_least" else ""
    return f"layers {bound}{duration(layers.ns)}; the whole is not known"


# Proofs


def proof_title(proof: ProofSummary) -> str:
    """Return the model and the backend, as far as the producer named them."""
    model = safe_text(proof.model_name, MAX_NAME) if proof.model_name else "proof"
    return model + _on_backend(proof)


def _on_backend(proof: ProofSummary) -> str:
    return f" on {safe_text(proof.backend, MAX_NAME)}" if proof.backend else ""


def full_title(proof: ProofSummary) -> str:
    """Return a proof's title with its job, if that tells it apart, and the proof around it."""
    return proof_title(proof) + _inside(proof) + _of_job(proof)


def _of_job(proof: ProofSummary) -> str:
    """Return a proof's job. A name that was made up for it says something only beside others."""
    if not proof.job_id or (not proof.at_once and _GENERATED_JOB.fullmatch(proof.job_id)):
        return ""
    return f", job {safe_text(proof.job_id, 40)}"


def _inside(proof: ProofSummary) -> str:
    return "" if proof.parent_number is None else f", inside proof {proof.parent_number + 1}"


def proof_name(proof: ProofSummary) -> str:
    """Return how a line calls a proof: `proof 3`; with its model and job where several are open at once."""
    name = f"proof {proof.number + 1}"
    if not proof.at_once:
        return name
    model = safe_text(proof.model_name, MAX_NAME) if proof.model_name else ""
    told = (model + _of_job(proof)).removeprefix(", ")
    return f"{name} ({told})" if told else name


def proof_opened(proof: ProofSummary) -> str:
    """Return one line for a proof that began."""
    if not proof.start_seen:
        return f"proof {proof.number + 1} joined after its start{_of_job(proof)}"
    subject = f": {proof_title(proof)}" if proof.model_name else _on_backend(proof)
    layers = f", {counted(proof.num_layers, 'layer')}" if proof.num_layers else ""
    return f"proof {proof.number + 1} started{subject}{_inside(proof)}{_of_job(proof)}{layers}"


def layers_done(proof: ProofSummary) -> str:
    """Return a proof's progress in layers: `2 of 4 layers`."""
    if proof.num_layers and proof.layers_left_behind > proof.num_layers:
        return f"{count(proof.layers_left_behind)} layers, {count(proof.num_layers)} announced"
    return f"{layers_of(proof)} {'layer' if (proof.num_layers or proof.layers_left_behind) == 1 else 'layers'}"


def layers_of(proof: ProofSummary) -> str:
    """Return the number of layers done, of those announced if any were: `2 of 4`.

    Layers of proofs that ran at once without job ids may all have been counted in one.
    """
    done = count(proof.layers_left_behind)
    if not proof.num_layers:
        return done
    if proof.layers_left_behind > proof.num_layers:
        return f"{done}, {count(proof.num_layers)} announced"
    return f"{done} of {count(proof.num_layers)}"


def outcome(proof: ProofSummary) -> str:
    """Return how a proof ended."""
    took = proof.took or Took(0, "unknown")
    is_unknown = took.source == "unknown"
    if proof.aborted_reason is None:
        return f"complete, {_why_unknown(proof)}" if is_unknown else f"complete in {time(took)}"
    # Another proof shows that it had ended by then.
    in_all = f"at most {duration(took.ns)}" if took.source == "derived" else time(took)
    how_long = f" ({_why_unknown(proof)})" if is_unknown else f", {in_all} in all"
    return f"{_ended_badly(proof.aborted_reason)}{last_place(proof)}{how_long}: {safe_text(proof.aborted_reason)}"


def _ended_badly(reason: str) -> str:
    """Return what became of a proof without success. One whose end was not seen may have succeeded."""
    return "given up" if reason.startswith(_NOT_SEEN) else "aborted"


def short_outcome(proof: ProofSummary) -> str:
    """Return how a proof ended, beside a column with its time."""
    took = proof.took or Took(0, "unknown")
    if proof.aborted_reason is not None:
        reason = proof.aborted_reason
        return f"{_ended_badly(reason)}{last_place(proof)}: {safe_text(reason)}"
    if took.source == "unknown":
        return f"complete, {_why_unknown(proof)}"
    return "complete" if took.source in ("measured", "at_least") else f"complete, time {took.source}"


def last_place(proof: ProofSummary) -> str:
    """Return where a proof died: ` in layer 9 MatMul`, ` after the last layer (7 of 7), after 5.80 s of silence`."""
    place = _layers_place(proof)
    if proof.died_in is not None:
        died = proof.died_in
        place += f"{',' if place else ''} in {_with_progress(died.name, died.done, died.total)}"
    if proof.silent_ns is not None and proof.silent_ns >= SILENCE_TOLD_FROM_NS:
        place += f"{',' if place else ''} after {duration(proof.silent_ns)} of silence"
    return place


def _layers_place(proof: ProofSummary) -> str:
    if proof.aborted_layer is not None:
        return f" in layer {index(proof.aborted_layer[0])} {proof.aborted_layer[1]}"
    match proof.stage:
        case "before_layers":
            return " before the first layer"
        case "layers":
            return f" between layers, after {layers_of(proof)}"
        case "after_layers":
            return f" after the last layer ({layers_of(proof)})"
        case _:
            return ""


def proof_ended(proof: ProofSummary) -> str:
    """Return one line for a proof that ended."""
    lost = f", {count(proof.lost)} events lost" if proof.lost else ""
    return f"{proof_name(proof)} {outcome(proof)} ({layers_done(proof)}, {counted(proof.rounds, 'round')}{lost})"


def not_finished(proof: ProofSummary, elapsed: Elapsed) -> str:
    """Return that a proof had not ended when the report was made, and where it was."""
    if proof.proof is None:
        return outcome(proof)
    took = elapsed(proof.proof)
    after = "" if took.source == "unknown" else f" after {time(took)}"
    running = running_path(running_parts(proof.proof), elapsed)
    where = active_place(proof.proof.active_layers, elapsed) + (f", in {running}" if running else "")
    return f"not finished{after}{where}"


def layer_proof(layer: LayerSummary) -> str:
    """Return which proof a layer belongs to: `2 resnet`."""
    name = f" {safe_text(layer.model_name, MAX_NAME)}" if layer.model_name else ""
    return f"{count(layer.proof_number + 1)}{name}"


def strip_scale(per_mark: int, longest_ns: int) -> str:
    """Return how a strip of layers is to be read."""
    said = "each mark is one layer" if per_mark == 1 else f"each mark is {count(per_mark)} layers"
    return f"{said}; the tallest took {duration(longest_ns)}, three steps lower is a tenth" if longest_ns else said


# Sessions that wait


def session_heard(session: SessionSummary) -> str:
    """Return one line for a prover that has connected, or was heard, and that it has not begun a proof if so."""
    source = safe_text(session.source, MAX_NAME)
    heard = f"prover connected: {source}" if session.is_connection else f"events arrive from {source}"
    return heard if session.proofs else f"{heard}; waiting for a proof"


def waiting_for(session: SessionSummary) -> str:
    """Return what a session waits for."""
    return f"waiting for {'the next' if session.proofs else 'a'} proof"


def heard_waiting(session: SessionSummary) -> str:
    """Return what was heard of a session while it waits: `connected, 211 activations, 1,240 events`."""
    said = ["connected"] if session.is_connection else []
    said += [counted(session.activations, "activation")] if session.activations else []
    said += [counted(session.events, "event")] if session.events > session.activations else []
    return ", ".join(said)


def still_waiting(session: SessionSummary, waited_ns: int) -> str:
    """Return one line for a session that waits while events come."""
    heard = f"; {heard}" if (heard := heard_waiting(session)) else ""
    return f"{waiting_for(session)}: {safe_text(session.source, MAX_NAME)}, for {duration(waited_ns)}{heard}"


def sessions_at_once(sessions: int) -> str:
    """Return in how many sessions proofs cannot be told apart, and what to do about it."""
    return f"in {counted(sessions, 'session')} {PROOFS_AT_ONCE}"


def proofs_at_once(source: str) -> str:
    """Return one line for a session whose proofs cannot be told apart."""
    return f"{safe_text(source, MAX_NAME)}: {PROOFS_AT_ONCE}"


# What a running proof does


def proof_progress(proof: ProofSummary, elapsed: Elapsed, silent_ns: int | None) -> str:
    """Return one line for an open proof: its layers, what runs now, and how long it has taken."""
    interval = proof.proof
    if interval is None:
        return proof_ended(proof)
    said = _layers_now(proof, interval.stage)
    said += active_place(interval.active_layers, elapsed)
    running = running_path(_parts(proof), elapsed)
    if running:
        said += f"; {running}"
    elif not interval.active_layers and (nothing := nothing_heard(proof, interval.stage, silent_ns)):
        said += f"; {nothing}"
    return f"{proof_name(proof)}: " + "; ".join(filter(None, [said, so_far(elapsed(interval))]))


def _layers_now(proof: ProofSummary, stage: str | None) -> str:
    match stage:
        case "before_layers":
            return f"before the first of {counted(proof.num_layers or 0, 'layer')}"
        case "after_layers":
            return all_layers_done(proof)
        case _:
            share = f" ({percent(proof.progress)})" if proof.progress is not None else ""
            return f"{layers_done(proof)}{share}, {counted(proof.rounds, 'round')}"


def layers_ratio(proof: ProofSummary) -> str:
    """Return a bar's caption: `layers 2/4`."""
    return f"layers {count(proof.layers_left_behind)}/{count(proof.num_layers or 0)}"


def all_layers_done(proof: ProofSummary) -> str:
    """Return that a proof has left its layers: `all 7 layers done`."""
    done = counted(proof.layers_left_behind, "layer")
    return f"{done} done" if proof.layers_left_behind == 1 else f"all {done} done"


def nothing_heard(proof: ProofSummary, stage: str | None, silent_ns: int | None) -> str:
    """Return why an open proof says nothing: `proof 4 inside it`, `what follows has no events, silent for 11.0 s`."""
    if proof.inner:
        more = f" and {count(len(proof.inner) - 1)} more" if len(proof.inner) > 1 else ""
        return f"proof {proof.inner[0] + 1}{more} inside it"
    if silent_ns is None or silent_ns < SILENCE_TOLD_FROM_NS:
        return ""
    no_events = "what follows has no events, " if stage == "after_layers" and not proof.heard_after_layers else ""
    return f"{no_events}silent for {duration(silent_ns)}"


def unusual_silence(silent: ProofSilent) -> str:
    """Return how long a proof has been silent, and that this is unusual."""
    is_worth_it = silent.longest_ns >= SILENCE_TOLD_FROM_NS
    longest = f" (longest {duration(silent.longest_ns)})" if is_worth_it else ""
    where = _IN_STAGES.get(silent.stage or "", "")
    return f"silent for {duration(silent.silent_ns)}{where}, longer than ever{longest}"


def so_far(elapsed: Took) -> str:
    """Return how long an open interval has taken; an empty text if that is not known."""
    return "" if elapsed.source == "unknown" else f"{time(elapsed)} so far"


def active_place(active: list[Interval], elapsed: Elapsed) -> str:
    """Return where an open proof is: `, in layer 9 MatMul for 3.00 s`, or an empty text."""
    if not active:
        return ""
    layer = active[-1]
    return f", in layer {index(layer.key or 0)} {layer.layer_kind}" + _time_after(" for ", elapsed(layer))


def _time_after(word: str, elapsed: Took) -> str:
    """Return a time after a word; an empty text if there is none, as in a replay, where time stands still."""
    return "" if elapsed.source == "unknown" or not elapsed.ns else word + time(elapsed)


def _parts(proof: ProofSummary) -> list[Interval]:
    return [] if proof.proof is None else running_parts(proof.proof)


def running_path(parts: Sequence[Interval], elapsed: Elapsed) -> str:
    """Return the part that began last inside those around it, each with its time; else an empty text.

    As in `open, 3.20 s > FRI commit 3/12, 1.20 s`.
    """
    if not parts:
        return ""
    path = path_of(parts[-1])
    said = [part_name(part) + _time_after(", ", elapsed(part)) for part in _ends_of(path)]
    if len(said) < len(path):
        said.insert(1, ELLIPSIS)
    more = sum(part not in path for part in parts)
    return f" {ARROW} ".join(said) + (f", and {count(more)} more beside it" if more else "")


def _ends_of(path: list[Interval]) -> list[Interval]:
    """Return a path without its middle, if it is long."""
    return path if len(path) <= _LONGEST_PATH else [path[0], *path[1 - _LONGEST_PATH :]]


def part_name(part: Interval) -> str:
    """Return a phase with its progress, `weight commitments 30/96`, or another part with its number."""
    if isinstance(part, Phase):
        return _with_progress(part.name, part.done, part.total)
    number = "" if part.key is None else f" {index(part.key)}"
    return PARTS.get(part.kind, part.kind.value) + number


def _with_progress(name: str, done: int | None, total: int | None) -> str:
    progress = "" if done is None else f" {count(done)}" + ("" if total is None else f"/{count(total)}")
    return safe_text(name, MAX_NAME) + progress


def outside_phases(proof: ProofSummary | None, phases: Sequence[Interval], elapsed: Elapsed) -> str:
    """Return one line for phases that run while their proof, if they have one, has ended."""
    whose = "outside of proofs" if proof is None else f"{proof_name(proof)}, after its end"
    return f"{whose}: {running_path(phases, elapsed)}"


# Sums


def proof_times(tally: DurationTally) -> str:
    """Return how long proofs took that completed; an empty text if there was no more than one."""
    if tally.count <= 1:
        return ""
    if not tally.timed:
        return f"not known of {counted(tally.count, 'proof')}"
    said = f"{duration(tally.mean_ns)} on average, {duration(tally.longest_ns)} at most{worth(tally.sources)}"
    untimed_proofs = tally.count - tally.timed
    return f"{said}, not known of {count(untimed_proofs)}" if untimed_proofs else said


def stages(parts: Sequence[tuple[str, int]], whole_ns: int, sources: Collection[str]) -> str:
    """Return the time in each stage and, if the whole is known, its share: `layers 24.1 ms (1.4 %), ...`."""
    said = [
        f"{STAGES.get(name, name)} {duration(ns)}" + (f" ({fine_percent(ns / whole_ns)})" if whole_ns else "")
        for name, ns in parts
    ]
    return ", ".join(said) + worth(sources) if said else ""


def phase_title(where: str, name: str) -> str:
    """Return a phase's name, with a remark if it was not inside of a proof."""
    remark = {AFTER_PROOFS: " (beyond the proof)", OUTSIDE: " (outside of proofs)"}.get(where, "")
    return safe_text(name, MAX_NAME) + remark


def hidden_lines(hidden: int) -> str:
    """Return one line for the lines that were not shown."""
    return f"({counted(hidden, 'more line')} not shown)"


def plugin_trouble(health: PluginHealth) -> str:
    """Return one line for a plugin that does not work, or could not keep up."""
    dropped = dropped_events(health)
    said: list[str] = []
    if health.status in NOT_WORKING:
        said.append(f"{health.status}: {safe_text(health.reason)}" if health.reason else health.status)
    if dropped:
        said.append(f"{counted(dropped, 'event')} dropped")
    said += [f"{count(number)} {safe_text(thing)} not delivered" for thing, number in undelivered(health).items()]
    return f"plugin {safe_text(health.plugin, MAX_NAME)} {', '.join(said)}"


def unknown_kinds(counts: Mapping[str, int]) -> str:
    """Return one line for events of undeclared kinds."""
    kinds = ", ".join(safe_text(kind, MAX_NAME) for kind in counts)
    return f"{counted(sum(counts.values()), 'event')} of undeclared kinds: {kinds}"


def device_lines(devices: DeviceSummary, *, whole_run: bool = False) -> Iterator[str]:
    """Yield one line for each device: measured figures, of now or of the whole run, else reported ones."""
    for measured in devices.measured:
        yield _measured_line(measured, _figures_of_run(measured) if whole_run else _figures_now(measured))
    for reported in devices.reported:
        yield _reported_line(reported)
    if devices.has_more:
        yield "more devices (not shown)"


def energy(tally: EnergyTally, devices: DeviceSummary) -> str:
    """Return how much energy proofs took, and what that figure rests on; an empty text if no GPU was measured."""
    if not tally.proofs:
        return f"not known for {_names(tally.missing, devices)}" if tally.missing else ""
    is_exact = tally.sources == {"measured"}
    how = "measured" if is_exact else _INTEGRATED[tally.sources == {"integrated"}]
    proofs = f" in {counted(tally.proofs, 'proof')}" if tally.proofs + tally.unknown > 1 else ""
    said = [f"{'' if is_exact else 'about '}{joules(tally.joules)}{proofs}, {_names(tally.devices, devices)}: {how}"]
    if left_out := [name for name in tally.missing if name not in tally.devices]:
        said.append(f"without {_names(left_out, devices)}")
    if in_part := [name for name in tally.missing if name in tally.devices]:
        said.append(f"{_names(in_part, devices)} only for a part of the time")
    if tally.unknown:
        said.append(f"not known for {counted(tally.unknown, 'more proof')}")
    if tally.is_shared:
        said.append("divided equally among proofs that ran at once")
    if tally.is_of_all:
        said.append("the prover does not say which GPUs it uses")
    return "; ".join(said)


_INTEGRATED = {True: "integrated from power", False: "partly integrated from power"}


def _names(device_ids: Iterable[str], devices: DeviceSummary) -> str:
    return ", ".join(safe_text(devices.label(device_id), MAX_NAME) for device_id in device_ids)


def _measured_line(device: MeasuredDevice, figures: list[str]) -> str:
    number = "" if device.index is None else f" {index(device.index)}"
    name = f" {safe_text(device.name, MAX_NAME)}" if device.name else ""
    said = [f"{'MIG' if device.is_part else 'GPU'}{number}{name}"]
    if device.is_lost:
        said.append("lost: it has stopped answering")
    return f" {DOT} ".join([*said, *figures]) + " (measured)"


def _figures_now(device: MeasuredDevice) -> list[str]:
    said = [f"{percent(device.utilization)} busy"] if device.utilization is not None else []
    said += _memory_of(device.memory_used_bytes, device.memory_total_bytes)
    return [*said, f"{device.power_w:.0f} W"] if device.power_w is not None else said


def _figures_of_run(device: MeasuredDevice) -> list[str]:
    mean = device.mean_utilization
    said = [f"{percent(mean)} busy while proving"] if mean is not None else []
    return [*said, *(f"at most {used}" for used in _memory_of(device.peak_memory_bytes, device.memory_total_bytes))]


def _memory_of(used: int | None, total: int | None) -> list[str]:
    if used is None:
        return []
    return [f"{memory(used)} of {memory(total)} memory" if total is not None else f"{memory(used)} memory"]


def _reported_line(device: DeviceFigures) -> str:
    said = [safe_text(device.name, MAX_NAME) if device.name else f"device {index(device.device_id)}"]
    if device.free_memory_bytes is not None:
        said.append(f"{memory(device.free_memory_bytes)} free memory")
    if device.utilization is not None:
        said.append(f"{percent(device.utilization)} busy")
    return f" {DOT} ".join(said) + " (reported)"


def state_circuit(circuit: StateCircuitSummary) -> str:
    """Return a state circuit's name and convention, because its bytes mean nothing without the convention."""
    return f"{safe_text(circuit.name, MAX_NAME)}, {state_convention(circuit)}"


def state_convention(circuit: StateCircuitSummary) -> str:
    """Return the convention that counts a circuit's states."""
    return f"convention {safe_text(circuit.convention, MAX_NAME)}"


def state_costs(circuit: StateCircuitSummary) -> str:
    """Return one line for what each program of a state circuit writes for one sequence."""
    layers = "" if circuit.recurrent_layers is None else f", {counted(circuit.recurrent_layers, 'recurrent layer')}"
    costs = "; ".join(
        f"{size(number)} per sequence for {', '.join(safe_text(name, MAX_NAME) for name in names)}"
        for number, names in circuit.costs.items()
    )
    return f"{costs} (derived; {state_circuit(circuit)}{layers})" if costs else state_circuit(circuit) + layers


def state_now(circuit: StateCircuitSummary) -> Iterator[str]:
    """Yield the parts of one line for a state circuit, the least important last."""
    costs, total = circuit.costs, circuit.total
    if costs:
        spread = size(min(costs)) if len(costs) == 1 else f"{size(min(costs))} to {size(max(costs))}"
        yield f"{spread} per sequence"
    if total.runs:
        yield f"{size(total.moved_bytes)} moved"
    if total.timed_ns:
        yield bandwidth(total)
    yield safe_text(circuit.name, MAX_NAME)


def bandwidth(program: StateProgramSummary) -> str:
    """Return what runs wrote per second, or an empty text if that is unknown."""
    return "" if program.bytes_per_s is None else f"{size(program.bytes_per_s)}/s"


TIME_SOURCES = {
    "envelope": "measured: each event came with its time",
    "arrival": "stamped on arrival",
    "reconstructed": "laid out from the producer's own durations",
}
"""How event times came to be, in words."""


def times(sources: Collection[str], resolution_ns: int) -> str:
    """Return how event times came to be, and how far apart two times of arrival must lie to be told apart, if known."""
    said = {source: TIME_SOURCES.get(source, safe_text(source, MAX_NAME)) for source in sorted(sources)}
    if resolution_ns and "arrival" in said:
        said["arrival"] += f", to {duration(resolution_ns)}"
    return "; ".join(said.values())
