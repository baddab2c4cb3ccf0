"""The dashboard "GPU beside proofs", which shows GPU figures beside running proofs."""

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
    """Build the dashboard."""
    made = board(
        uid="proofstream-gpu",
        title="GPU beside proofs",
        text="How the GPUs work while proofs run: whether they are busy, full, hot, throttled or lost, and how much "
        "energy a proof takes.",
        variables=[choice("gpu", "GPU", "GPUs or MIG instances to show", "label_values(hw_status, hw_id)")],
    )
    row(made, "While proving", *_proving())
    row(made, "Work and memory", *_work())
    row(made, "Power, heat and clocks", *_power())
    row(made, "Health", *_health())
    row(made, "As the prover says", *_reported())
    return made


def _each(metric: str, by: str = BY, selector: str = GPU) -> str:
    """Return PromQL for a figure of each GPU: the maximum, because several processes may watch the same GPU."""
    return f"max by ({by}) ({metric}{{{selector}}})"


def _proving() -> list[Any]:
    proofs = f"sum by (job, instance) (proofstream_proofs_running{{{WHERE}}})"
    idle = f"avg_over_time((1 - hw_gpu_utilization_ratio{{{GPU}}} and {PROVING})[$__range:{STEP_S}s])"
    joules = f"sum_over_time((hw_power_watts{{{GPU}}} and {PROVING})[$__range:{STEP_S}s]) * {STEP_S}"
    by_counter = f"max by ({BY}) (increase(hw_energy_joules_total{{{GPU}}}[$__range])) > 0"
    by_power = f"max by ({BY}) (sum_over_time(hw_power_watts{{{GPU}}}[$__range:{STEP_S}s])) * {STEP_S}"
    ended = f"proofstream_proofs_total{{{WHERE}}}"
    count = f"sum(max_over_time({ended}[$__range]) - min_over_time({ended}[$__range]))"
    return [
        number(
            About(
                title="Idle share while proving",
                text="Share of time in which a proof ran but no kernel did. A high share means that the GPU waits for "
                "the CPU or the disk.",
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
                text="Energy used while proofs ran, divided by the number of proofs that ended. Computed from power "
                f"samples every {STEP_S} s, of all GPUs that report their power. Each proof's span has a more exact "
                "figure of its own GPUs in `proofstream.gpu.energy`.",
                unit="joule",
                width=6,
            ),
            Query(expr=f"sum(max by (hw_id) ({joules})) / ({count} > 0)", legend="per proof", once=True),
        ),
        number(
            About(
                title="Total energy",
                text="Energy that each GPU used in the time range, including idle time: by its own meter or, if that "
                f"is missing or stands still, computed from power samples every {STEP_S} s.",
                unit="joule",
                width=6,
            ),
            Query(expr=f"({by_counter}) or {by_power}", legend=NAME, once=True),
        ),
        lines(
            About(
                title="Proofs running",
                text="Proofs that run now, to compare with the GPU figures below.",
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
                text="Share of time in which a kernel ran, however much of the chip it used. MIG instances without "
                "this figure have no line.",
                unit="percentunit",
                top=1,
            ),
            Query(expr=_each("hw_gpu_utilization_ratio"), legend=NAME),
        ),
        lines(
            About(
                title="Memory in use",
                text="Memory in use and its limit. A proof that needs more than the limit fails, usually near its end.",
                unit="bytes",
            ),
            Query(expr=_each("hw_gpu_memory_usage_bytes"), legend=NAME),
            Query(expr=_each("hw_gpu_memory_limit_bytes"), legend=f"limit of {NAME}"),
        ),
        lines(
            About(
                title="Memory in use, share",
                text="Share of the memory that is in use. An alert fires above 95 %.",
                unit="percentunit",
                top=1,
                steps=((None, "green"), (0.9, "yellow"), (0.95, "red")),
            ),
            Query(expr=_each("hw_gpu_memory_utilization_ratio"), legend=NAME),
        ),
        lines(
            About(
                title="Memory controller",
                text="Share of time in which memory was read or written. This does not say how full it is.",
                unit="percentunit",
                top=1,
            ),
            Query(expr=_each("proofstream_gpu_memory_controller_utilization_ratio"), legend=NAME),
        ),
        lines(
            About(
                title="PCIe throughput",
                text="`transmit` is data from the GPU, `receive` is data to the GPU. High throughput with low "
                "utilization means that the GPU waits for data.",
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
            About(title="Power", text="Power draw of each GPU.", unit="watt"),
            Query(expr=_each("hw_power_watts"), legend=NAME),
        ),
        lines(
            About(title="Temperature", text="Temperature of the chip. A hot chip is throttled.", unit="celsius"),
            Query(expr=_each("hw_temperature_celsius"), legend=NAME),
        ),
        lines(
            About(title="Clocks", text="Clock rates of the multiprocessors (sm) and the memory.", unit="hertz"),
            Query(
                expr=_each("proofstream_gpu_clock_frequency_hertz", f"{BY}, proofstream_gpu_clock_domain"),
                legend=f"{NAME}: {{{{proofstream_gpu_clock_domain}}}}",
            ),
        ),
        lines(
            About(
                title="Throttling",
                text="1 while the driver throttles the clocks for this reason. `gpu_idle` is harmless; power caps and "
                "temperature slow proofs down.",
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
                text="`failed`: the GPU no longer answers. `degraded`: some of its figures could not be read.",
                unit="short",
                width=8,
            ),
            (
                "Active",
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
                text="GPUs that no longer answer the driver. Their other series have ended.",
                unit="short",
                width=4,
                steps=BAD_ABOVE_ZERO,
            ),
            Query(expr=f"sum({failed})", legend="lost"),
        ),
        lines(
            About(
                title="Errors",
                text="Memory errors that ECC corrected or could not correct, and critical errors (XID), per hour.",
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
                text="The prover's own figures, by device number. Known placeholder values are left out.",
                unit="percentunit",
                top=1,
            ),
            Query(expr=_each("proofstream_reported_gpu_utilization_ratio", by, WHERE), legend=f"device {{{{{by}}}}}"),
        ),
        lines(
            About(
                title="Free memory, reported",
                text="The prover's own figures, by device number. Known placeholder values are left out.",
                unit="bytes",
            ),
            Query(expr=_each("proofstream_reported_gpu_free_memory_bytes", by, WHERE), legend=f"device {{{{{by}}}}}"),
        ),
    ]
