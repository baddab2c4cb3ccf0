"""The dashboard "GPU beside proofs": what the GPUs do while proofs run."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.kit import BAD_ABOVE_ZERO, WHERE, About, Query, board, choice, lines, number, row, rows

GPU = f'{WHERE}, hw_id=~"$gpu"'
NAME = "{{hw_name}} {{hw_id}}"
BY = "hw_id, hw_name"
STEP_S = 10
PROVING = "on (job, instance) (sum by (job, instance) (proofstream_proofs_running) > 0)"
"""Matches the series of processes in which a proof runs."""


def gpu() -> Dashboard:
    """The dashboard."""
    made = board(
        uid="proofstream-gpu",
        title="GPU beside proofs",
        text="What the GPUs do while proofs run: are they busy, full, hot, held back or gone, and what does a proof "
        "cost?",
        variables=[choice("gpu", "GPU", "Which GPUs or MIG instances", "label_values(hw_status, hw_id)")],
    )
    row(made, "While proving", *_proving())
    row(made, "Work and memory", *_work())
    row(made, "Power, heat and clocks", *_power())
    row(made, "Health", *_health())
    row(made, "As the prover says", *_reported())
    return made


def _each(metric: str, by: str = BY, selector: str = GPU) -> str:
    """PromQL: a figure per GPU; the highest, since several processes may watch the same one."""
    return f"max by ({by}) ({metric}{{{selector}}})"


def _proving() -> list[Any]:
    proofs = f"sum by (job, instance) (proofstream_proofs_running{{{WHERE}}})"
    idle = f"avg_over_time((1 - hw_gpu_utilization_ratio{{{GPU}}} and {PROVING})[$__range:{STEP_S}s])"
    joules = f"sum_over_time((hw_power_watts{{{GPU}}} and {PROVING})[$__range:{STEP_S}s]) * {STEP_S}"
    ended = f"proofstream_proofs_total{{{WHERE}}}"
    count = f"sum(max_over_time({ended}[$__range]) - min_over_time({ended}[$__range]))"
    return [
        number(
            About(
                title="Idle share while proving",
                text="Share of the time in which no kernel ran although a proof did. High: the GPU waits for the "
                "CPU or the disk.",
                unit="percentunit",
                width=6,
                top=1,
                steps=((None, "green"), (0.3, "yellow"), (0.6, "red")),
            ),
            Query(expr=f"avg by ({BY}) ({idle})", legend=NAME, once=True),
        ),
        number(
            About(
                title="Energy per proof",
                text=f"Energy drawn while proofs ran over proofs ended, from samples of the power each {STEP_S} s. "
                "The span of a proof has its own figure in `proofstream.gpu.energy`, also for short ones.",
                unit="joule",
                width=6,
            ),
            Query(expr=f"sum(max by (hw_id) ({joules})) / ({count} > 0)", legend="per proof", once=True),
        ),
        number(
            About(
                title="Energy in all",
                text="Energy that the GPUs drew in the time shown, idle time included, by their own meters.",
                unit="joule",
                width=6,
            ),
            Query(
                expr=f"sum(max by (hw_id) (increase(hw_energy_joules_total{{{GPU}}}[$__range])))",
                legend="energy",
                once=True,
            ),
        ),
        lines(
            About(
                title="Proofs running",
                text="To compare with what the GPUs do below.",
                unit="short",
                width=6,
            ),
            Query(expr=f"sum({proofs})", legend="running"),
        ),
    ]


def _work() -> list[Any]:
    return [
        lines(
            About(
                title="Utilization",
                text="Share of the time in which a kernel ran; it does not say how much of the chip it used. A MIG "
                "instance has no such figure, and then there is no line.",
                unit="percentunit",
                top=1,
            ),
            Query(expr=_each("hw_gpu_utilization_ratio"), legend=NAME),
        ),
        lines(
            About(
                title="Memory in use",
                text="And how much there is (limit). A proof that needs more dies, mostly late.",
                unit="bytes",
            ),
            Query(expr=_each("hw_gpu_memory_usage_bytes"), legend=NAME),
            Query(expr=_each("hw_gpu_memory_limit_bytes"), legend=f"limit of {NAME}"),
        ),
        lines(
            About(
                title="Memory in use, share",
                text="Above 95 % an alert is raised.",
                unit="percentunit",
                top=1,
                steps=((None, "green"), (0.9, "yellow"), (0.95, "red")),
            ),
            Query(expr=_each("hw_gpu_memory_utilization_ratio"), legend=NAME),
        ),
        lines(
            About(
                title="Memory controller",
                text="Share of the time in which memory was read or written. Not how full it is.",
                unit="percentunit",
                top=1,
            ),
            Query(expr=_each("proofstream_gpu_memory_controller_utilization_ratio"), legend=NAME),
        ),
        lines(
            About(
                title="PCIe throughput",
                text="As the GPU sees it: `transmit` is from it, `receive` is to it. Much of it while utilization "
                "is low: data moves instead of being worked on.",
                unit="Bps",
                width=24,
            ),
            Query(
                expr=_each("proofstream_gpu_pcie_throughput_bytes_per_second", f"{BY}, network_io_direction"),
                legend=f"{NAME}: {{{{network_io_direction}}}}",
            ),
        ),
    ]


def _power() -> list[Any]:
    return [
        lines(
            About(title="Power", text="What each GPU draws.", unit="watt"),
            Query(expr=_each("hw_power_watts"), legend=NAME),
        ),
        lines(
            About(title="Temperature", text="Of the chip. Hot ones are throttled.", unit="celsius"),
            Query(expr=_each("hw_temperature_celsius"), legend=NAME),
        ),
        lines(
            About(title="Clocks", text="Of the multiprocessors (sm) and the memory.", unit="hertz"),
            Query(
                expr=_each("proofstream_gpu_clock_frequency_hertz", f"{BY}, proofstream_gpu_clock_domain"),
                legend=f"{NAME}: {{{{proofstream_gpu_clock_domain}}}}",
            ),
        ),
        lines(
            About(
                title="Held back",
                text="1 while the driver holds the clocks down for a reason. `gpu_idle` is none to worry about; "
                "power caps and temperature cost time.",
                unit="short",
                top=1,
            ),
            Query(
                expr=_each("proofstream_gpu_throttled_ratio", f"{BY}, proofstream_gpu_throttle_reason"),
                legend=f"{NAME}: {{{{proofstream_gpu_throttle_reason}}}}",
            ),
        ),
    ]


def _health() -> list[Any]:
    failed = _each("hw_status", BY, f'{GPU}, hw_state="failed"')
    return [
        rows(
            About(
                title="State of the GPUs",
                text="`failed` is a GPU that does not answer any more; `degraded` one that lacks figures which it has.",
                unit="short",
                width=8,
            ),
            (
                "Is so",
                "short",
                Query(
                    expr=f"{_each('hw_status', f'{BY}, hw_state')} > 0",
                    once=True,
                    shape=PromQueryFormat.TABLE,
                ),
            ),
            labels={"hw_id": "GPU", "hw_name": "Product", "hw_state": "State"},
        ),
        number(
            About(
                title="GPUs lost",
                text="GPUs that do not answer the driver any more. Their other series have ended.",
                unit="short",
                width=4,
                steps=BAD_ABOVE_ZERO,
            ),
            Query(expr=f"sum({failed})", legend="lost"),
        ),
        lines(
            About(
                title="Errors",
                text="Memory errors that ECC corrected or could not correct, and critical errors (XID), each hour.",
                unit="short",
            ),
            Query(
                expr=f"max by ({BY}, error_type) (increase(hw_errors_total{{{GPU}}}[1h]))",
                legend=f"{NAME}: {{{{error_type}}}}",
            ),
        ),
    ]


def _reported() -> list[Any]:
    by = "proofstream_reported_device"
    return [
        lines(
            About(
                title="Utilization, reported",
                text="What the prover says of its devices, by their number; left out where it is known to be made up.",
                unit="percentunit",
                top=1,
            ),
            Query(expr=_each("proofstream_reported_gpu_utilization_ratio", by, WHERE), legend=f"device {{{{{by}}}}}"),
        ),
        lines(
            About(
                title="Free memory, reported",
                text="What the prover says of its devices, by their number; left out where it is known to be made up.",
                unit="bytes",
            ),
            Query(expr=_each("proofstream_reported_gpu_free_memory_bytes", by, WHERE), legend=f"device {{{{{by}}}}}"),
        ),
    ]
