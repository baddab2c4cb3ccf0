"""Sentences about proofs, layers and plugins, shared by live view, plain lines and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from proofstream import Interval, PluginHealth, safe_text
from proofstream_console.device_summary import DeviceFigures, DeviceSummary, MeasuredDevice
from proofstream_console.formats import DOT, count, counted, duration, index, memory, percent, size
from proofstream_console.proof_summary import ProofSummary
from proofstream_console.state_summary import StateCircuitSummary, StateProgramSummary
from proofstream_console.trouble import NOT_WORKING, dropped_events, undelivered

MAX_NAME = 60
MAX_MESSAGE = 500
MAX_LINE = 1000


def proof_title(proof: ProofSummary) -> str:
    """Return the model and the backend, as far as the producer named them."""
    model = safe_text(proof.model_name, MAX_NAME) if proof.model_name else "proof"
    return model + _on_backend(proof)


def _on_backend(proof: ProofSummary) -> str:
    return f" on {safe_text(proof.backend, MAX_NAME)}" if proof.backend else ""


def full_title(proof: ProofSummary) -> str:
    """Return a proof's title with the producer's name of the job, if it has one."""
    return proof_title(proof) + _of_job(proof)


def _of_job(proof: ProofSummary) -> str:
    return f", job {safe_text(proof.job_id, 40)}" if proof.job_id else ""


def proof_opened(proof: ProofSummary) -> str:
    """Return one line for a proof that began."""
    if not proof.start_seen:
        return f"proof {proof.number + 1} joined after its start"
    subject = f": {proof_title(proof)}" if proof.model_name else _on_backend(proof)
    layers = f", {counted(proof.num_layers, 'layer')}" if proof.num_layers else ""
    return f"proof {proof.number + 1} started{subject}{_of_job(proof)}{layers}"


def layers_done(proof: ProofSummary) -> str:
    """Return a proof's progress in layers: `2 of 4 layers`."""
    return f"{layers_of(proof)} {'layer' if (proof.num_layers or proof.layers_left_behind) == 1 else 'layers'}"


def layers_of(proof: ProofSummary) -> str:
    """Return the number of layers done, of those announced if any were: `2 of 4`."""
    done = count(proof.layers_left_behind)
    return f"{done} of {count(proof.num_layers)}" if proof.num_layers else done


def outcome(proof: ProofSummary) -> str:
    """Return how a proof ended."""
    took = duration(proof.duration_ns or 0)
    if proof.aborted_reason is None:
        return f"complete in {took}"
    return f"aborted{last_place(proof)} after {took}: {safe_text(proof.aborted_reason)}"


def last_place(proof: ProofSummary) -> str:
    """Return where a proof was last seen: ` in layer 9 MatMul`, or an empty text."""
    if proof.last_layer is None:
        return ""
    return f" in layer {index(proof.last_layer[0])} {proof.last_layer[1]}"


def proof_ended(proof: ProofSummary) -> str:
    """Return one line for a proof that ended."""
    lost = f", {count(proof.lost)} events lost" if proof.lost else ""
    return f"proof {proof.number + 1} {outcome(proof)} ({layers_done(proof)}, {counted(proof.rounds, 'round')}{lost})"


def proof_progress(proof: ProofSummary, elapsed_ns: int, active: list[Interval]) -> str:
    """Return one line for an open proof."""
    share = f"{percent(proof.progress)}, " if proof.progress is not None else ""
    return (
        f"proof {proof.number + 1}: {share}{layers_done(proof)}, {counted(proof.rounds, 'round')}, "
        f"{duration(elapsed_ns)}{active_place(active)}"
    )


def active_place(active: list[Interval]) -> str:
    """Return where an open proof is: `, in layer 9 MatMul`, or an empty text."""
    return f", in layer {index(active[-1].key or 0)} {active[-1].layer_kind}" if active else ""


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
