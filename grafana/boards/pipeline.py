"""The dashboard "Pipeline health": whether what the other dashboards show is all there is."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.kit import BAD_ABOVE_ZERO, WHERE, About, Query, bars, board, counted, lines, number, row, rows, window

KIND = "proofstream_event_kind"
PLUGIN = "proofstream_plugin"
SIGNAL = "proofstream_signal"
WHOSE = "proofstream_lost_where"
ITEMS = ("spans", "metric_points", "log_records")


def pipeline() -> Dashboard:
    """The dashboard."""
    made = board(
        uid="proofstream-pipeline",
        title="Pipeline health",
        text="Whether events were lost, plugins lag or fail, and exports arrive: may the other dashboards be believed?",
        variables=[window()],
    )
    row(made, "Was anything lost?", *_losses())
    row(made, "Events", *_events())
    row(made, "Plugins", *_plugins())
    row(made, "Exports", *_exports())
    row(made, "Collector", *_collector())
    return made


def _sum(title: str, text: str, metric: str) -> Any:
    about = About(title=title, text=text, unit="short", width=4, height=5, steps=BAD_ABOVE_ZERO)
    return number(about, Query(expr=counted(f"{metric}{{{WHERE}}}"), legend="in the time shown", once=True))


def _losses() -> list[Any]:
    down = f"count(proofstream_plugin_ready_ratio{{{WHERE}}} == 0) or vector(0)"
    return [
        _sum(
            "Events lost",
            "Events that are missing before any plugin's queue: the prover's server skipped them, or a prover was "
            "faster than the intake.",
            "proofstream_events_lost_total",
        ),
        _sum(
            "Events dropped",
            "Events that the queue of a plugin could not hold. Rounds and the like go first; what begins or ends "
            "something goes last.",
            "proofstream_events_dropped_total",
        ),
        _sum(
            "Lines refused",
            "Lines or events that could not be read. The command names the first one; a newer prover is the usual "
            "reason.",
            "proofstream_events_refused_total",
        ),
        _sum(
            "Failed exports",
            "Attempts to send to the receiver that failed. They are repeated, so nothing need be lost.",
            "proofstream_otlp_failures_total",
        ),
        _sum(
            "Telemetry lost",
            "Spans, log records and data points that could not be delivered in spite of all attempts.",
            "proofstream_otlp_lost_total",
        ),
        number(
            About(
                title="Plugins down",
                text="Plugins that are not ready now. The others go on.",
                unit="short",
                width=4,
                height=5,
                steps=BAD_ABOVE_ZERO,
            ),
            Query(expr=down, legend="down"),
        ),
    ]


def _events() -> list[Any]:
    return [
        lines(
            About(
                title="Events received by kind",
                text="Events of provers over the window before each moment.",
                unit="short",
            ),
            Query(
                expr=f"sum by ({KIND}) (increase(proofstream_events_received_total{{{WHERE}}}[$window]))",
                legend=f"{{{{{KIND}}}}}",
            ),
            stacked=True,
        ),
        lines(
            About(
                title="Events dropped and lost",
                text="By the plugin whose queue was full, or by where they were lost, over the window before each "
                "moment.",
                unit="short",
            ),
            Query(
                expr=counted(f"proofstream_events_dropped_total{{{WHERE}}}", f"{PLUGIN}, {KIND}", "$window"),
                legend=f"dropped by {{{{{PLUGIN}}}}}: {{{{{KIND}}}}}",
            ),
            Query(
                expr=counted(f"proofstream_events_lost_total{{{WHERE}}}", f"{WHOSE}, {KIND}", "$window"),
                legend=f"lost at {{{{{WHOSE}}}}}: {{{{{KIND}}}}}",
            ),
            stacked=True,
        ),
    ]


def _plugins() -> list[Any]:
    ready = Query(
        expr=f"min by ({PLUGIN}) (proofstream_plugin_ready_ratio{{{WHERE}}})", once=True, shape=PromQueryFormat.TABLE
    )
    failures = Query(
        expr=counted(f"proofstream_plugin_failures_total{{{WHERE}}}", PLUGIN), once=True, shape=PromQueryFormat.TABLE
    )
    return [
        lines(
            About(
                title="Lag of plugins",
                text="How long the first waiting event has waited. Near 0 is healthy; growth means that a plugin "
                "cannot follow.",
                unit="s",
                width=8,
            ),
            Query(expr=f"max by ({PLUGIN}) (proofstream_lane_lag_seconds{{{WHERE}}})", legend=f"{{{{{PLUGIN}}}}}"),
        ),
        lines(
            About(
                title="Events that wait",
                text="In the queue of each plugin; beyond its capacity, 8192 if nothing else is set, events are "
                "dropped.",
                unit="short",
                width=8,
            ),
            Query(expr=f"max by ({PLUGIN}) (proofstream_lane_depth{{{WHERE}}})", legend=f"{{{{{PLUGIN}}}}}"),
        ),
        rows(
            About(
                title="State of plugins",
                text="Whether each is ready (1), and how often one failed in the time shown. The command's output "
                "has the reason.",
                unit="short",
                width=8,
            ),
            ("Failures", "short", failures),
            ("Ready", "short", ready),
            labels={PLUGIN: "Plugin"},
        ),
    ]


def _exports() -> list[Any]:
    return [
        lines(
            About(
                title="Exported",
                text="Spans, log records and data points that the receiver acknowledged, over the window before "
                "each moment.",
                unit="short",
            ),
            Query(
                expr=f"sum by ({SIGNAL}) (increase(proofstream_otlp_exported_total{{{WHERE}}}[$window]))",
                legend=f"{{{{{SIGNAL}}}}}",
            ),
        ),
        lines(
            About(
                title="Exports that failed",
                text="Attempts that failed, and what was lost, over the window before each moment.",
                unit="short",
            ),
            Query(
                expr=counted(f"proofstream_otlp_failures_total{{{WHERE}}}", SIGNAL, "$window"),
                legend=f"failed attempts: {{{{{SIGNAL}}}}}",
            ),
            Query(
                expr=counted(f"proofstream_otlp_lost_total{{{WHERE}}}", SIGNAL, "$window"),
                legend=f"lost: {{{{{SIGNAL}}}}}",
            ),
        ),
    ]


def _failures(*counters: str) -> str:
    """PromQL: how far counters of the Collector have come; those that never counted are not there yet."""
    names = [f"otelcol_{counter}_{item}_total" for counter in counters for item in ITEMS]
    return " + ".join(f"(sum(increase({name}[$window])) or vector(0))" for name in names)


def _collector() -> list[Any]:
    return [
        bars(
            About(
                title="Queues of the Collector",
                text="How full they are. They fill while Jaeger or Prometheus is away, and lie on disk.",
                unit="percentunit",
                width=8,
                top=1,
                steps=((None, "green"), (0.5, "yellow"), (0.8, "red")),
            ),
            Query(
                expr="max by (exporter, data_type) (otelcol_exporter_queue_size / otelcol_exporter_queue_capacity)",
                legend="{{exporter}}: {{data_type}}",
                once=True,
            ),
        ),
        lines(
            About(
                title="Items that wait in the Collector",
                text="Spans and data points on their way to Jaeger and Prometheus.",
                unit="short",
                width=8,
            ),
            Query(
                expr="max by (exporter, data_type) (otelcol_exporter_queue_size)", legend="{{exporter}}: {{data_type}}"
            ),
        ),
        lines(
            About(
                title="Failures of the Collector",
                text="Items that it could not send or take, over the window before each moment. 0 is healthy.",
                unit="short",
                width=8,
            ),
            Query(
                expr=_failures("exporter_send_failed", "exporter_enqueue_failed"), legend="could not be sent or queued"
            ),
            Query(expr=_failures("receiver_refused", "receiver_failed"), legend="refused or failed"),
        ),
    ]
