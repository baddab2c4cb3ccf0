"""The dashboard "Pipeline health", which shows whether the data of the other dashboards is complete."""

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
    """Build the dashboard."""
    made = board(
        uid="proofstream-pipeline",
        title="Pipeline health",
        text="Whether the other dashboards are complete: lost events, slow or failed plugins, and failed exports.",
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
    return number(about, Query(expr=counted(f"{metric}{{{WHERE}}}"), legend="in the time range", once=True))


def _losses() -> list[Any]:
    down = f"count(proofstream_plugin_ready_ratio{{{WHERE}}} == 0) or vector(0)"
    return [
        _sum(
            "Events lost",
            "Events lost before any plugin's queue: the prover's server skipped them, or a prover was faster than "
            "the intake.",
            "proofstream_events_lost_total",
        ),
        _sum(
            "Events dropped",
            "Events that did not fit into a plugin's queue. Rounds and similar events are dropped first, starts and "
            "ends last.",
            "proofstream_events_dropped_total",
        ),
        _sum(
            "Lines refused",
            "Lines or events that could not be read. The command's output names the first one. The usual reason is a "
            "newer prover.",
            "proofstream_events_refused_total",
        ),
        _sum(
            "Failed exports",
            "Failed attempts to send to the receiver. They are repeated, so a failure loses no data by itself.",
            "proofstream_otlp_failures_total",
        ),
        _sum(
            "Telemetry lost",
            "Spans, log records and data points that could not be delivered after all attempts.",
            "proofstream_otlp_lost_total",
        ),
        number(
            About(
                title="Plugins down",
                text="Plugins that are not ready now. Other plugins are not affected.",
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
                text="Events received from provers, over the window before each point.",
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
                text="Events by the plugin whose queue was full, or by the place of the loss, over the window before "
                "each point.",
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
                text="Age of the oldest event in each plugin's queue. Near 0 is healthy. Growth means that the plugin "
                "is too slow.",
                unit="s",
                width=8,
            ),
            Query(expr=f"max by ({PLUGIN}) (proofstream_lane_lag_seconds{{{WHERE}}})", legend=f"{{{{{PLUGIN}}}}}"),
        ),
        lines(
            About(
                title="Events waiting",
                text="Events in the queue of each plugin. Events beyond its capacity (8192 by default) are dropped.",
                unit="short",
                width=8,
            ),
            Query(expr=f"max by ({PLUGIN}) (proofstream_lane_depth{{{WHERE}}})", legend=f"{{{{{PLUGIN}}}}}"),
        ),
        rows(
            About(
                title="State of plugins",
                text="Whether each plugin is ready (1), and how often it failed in the time range. The command's "
                "output has the reason.",
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
                "each point.",
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
                text="Failed attempts and lost items, over the window before each point.",
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
    """Return PromQL for the increase of counters of the Collector. A counter that never counted does not exist yet."""
    names = [f"otelcol_{counter}_{item}_total" for counter in counters for item in ITEMS]
    return " + ".join(f"(sum(increase({name}[$window])) or vector(0))" for name in names)


def _collector() -> list[Any]:
    return [
        bars(
            About(
                title="Queues of the Collector",
                text="How full the queues are. They are stored on disk and fill while Jaeger or Prometheus is down.",
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
                title="Items waiting in the Collector",
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
                text="Items that it could not send or receive, over the window before each point. 0 is healthy.",
                unit="short",
                width=8,
            ),
            Query(
                expr=_failures("exporter_send_failed", "exporter_enqueue_failed"), legend="could not be sent or queued"
            ),
            Query(expr=_failures("receiver_refused", "receiver_failed"), legend="refused or failed"),
        ),
    ]
