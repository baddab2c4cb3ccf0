"""Every environment variable of OpenTelemetry is honoured, or named when it is set, and a table says which."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any, ClassVar

import opentelemetry
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as ProtoMetric
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from proofstream import ConfigError, Log, LogLevel
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin, environment, variables
from proofstream_otel.metrics.label_values import LabelValue
from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.otlp import json as otlp_json
from proofstream_otel.otlp.protobuf_metrics import encode_metric
from proofstream_otel.traces import ids
from proofstream_otel.values.metric_points import MetricPoints, Temporality
from proofstream_otel.values.semconv import Label, Metric, Metrics
from proofstream_otel.values.signals import LOGS, METRICS, TRACES
from proofstream_otel.variables import VARIABLES, How, Variable

DOCS = Path(__file__).parents[3] / "docs" / "opentelemetry-variables.md"

SPECIFICATION = {
    "OTEL_SDK_DISABLED",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SERVICE_NAME",
    "OTEL_LOG_LEVEL",
    "OTEL_PROPAGATORS",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_EXPORTER_ZIPKIN_ENDPOINT",
    "OTEL_EXPORTER_ZIPKIN_TIMEOUT",
    "OTEL_EXPORTER_PROMETHEUS_HOST",
    "OTEL_EXPORTER_PROMETHEUS_PORT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_METRICS_EXEMPLAR_FILTER",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_CONFIG_FILE",
    "OTEL_EXPERIMENTAL_CONFIG_FILE",
    "OTEL_ENTITIES",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
    "OTEL_EXPORTER_OTLP_SPAN_INSECURE",
    "OTEL_EXPORTER_OTLP_METRIC_INSECURE",
    "OTEL_EXPORTER_JAEGER_ENDPOINT",
    "OTEL_EXPORTER_JAEGER_AGENT_HOST",
    "OTEL_EXPORTER_JAEGER_AGENT_PORT",
    "OTEL_EXPORTER_JAEGER_USER",
    "OTEL_EXPORTER_JAEGER_PASSWORD",
    "OTEL_EXPORTER_JAEGER_TIMEOUT",
    "OTEL_EXPORTER_JAEGER_PROTOCOL",
}
"""The specification's variables, but for those below."""

OTLP = (
    *("ENDPOINT", "PROTOCOL", "HEADERS", "TIMEOUT", "COMPRESSION", "INSECURE"),
    *("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"),
)
"""Those of OTLP's exporter: each exists for all signals and for each."""

UNASKED = {
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",  # no link has attributes
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",  # its one good value is all that there is
}
"""Variables that are honoured without being asked for."""

PLAUSIBLE = {
    "OTEL_SDK_DISABLED": "false",
    "OTEL_PROPAGATORS": "tracecontext,baggage",
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "otlp",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_METRICS_EXEMPLAR_FILTER": "trace_based",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "explicit_bucket_histogram",
}
"""Values that are honoured, of the variables of which others are not."""


def plausible(variable: Variable) -> str:
    """Return a value of a variable that is honoured."""
    if variable.name.endswith("_PROTOCOL"):
        return "http/protobuf"
    return "true" if variable.name.endswith("_INSECURE") else PLAUSIBLE.get(variable.name, "1")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages logged as a warning or worse."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def export(folder: Path, items: list[Any] | None = None, kit: Any = None, **config: Any) -> InlineHost:
    """Export a stream to files."""
    host = InlineHost(OtelPlugin(), {"file": str(folder), **config})
    host.feed(envelopes(kit.small_proof() if items is None else items))
    host.close()
    return host


def test_the_specification_is_covered() -> None:
    signals = ("", "TRACES_", "METRICS_", "LOGS_")
    otlp = {f"OTEL_EXPORTER_OTLP_{signal}{name}" for signal in signals for name in OTLP}
    assert otlp | SPECIFICATION <= {variable.name for variable in VARIABLES}


def test_what_the_installed_sdk_knows_is_covered() -> None:
    files = [
        file
        for root in opentelemetry.__path__
        for pattern in ("**/environment_variables.py", "**/environment_variables/__init__.py")
        for file in Path(root).glob(pattern)
        if "instrumentation" not in file.parts  # what an application's libraries are observed by
    ]
    known = {name for file in files for name in re.findall(r'"(OTEL_[A-Z_]+)"', file.read_text())}
    assert {"OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER"} <= known
    assert known - {variable.name for variable in VARIABLES} == set()


def test_each_is_listed_once() -> None:
    names = [variable.name for variable in VARIABLES]
    assert sorted(set(names)) == sorted(names)


def test_the_table_of_the_documentation() -> None:
    rows = [f"| `{variable.name}` | {variable.how.value} | {variable.effect} |" for variable in VARIABLES]
    table = re.findall(r"^\| `OTEL_.*$", DOCS.read_text(), re.MULTILINE)
    assert table == rows, "write this table:\n" + "\n".join(rows)


@pytest.mark.parametrize("variable", [v for v in VARIABLES if v.how is How.NAMED], ids=lambda v: v.name)
def test_what_is_not_honoured_is_named_once(
    variable: Variable, tmp_path: Path, kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable.name, "secret")
    export(tmp_path, kit=kit)
    (line,) = warnings(caplog)
    assert line.startswith(f"{variable.name}: ")
    assert "secret" not in line
    assert len(kit.read_file(tmp_path / "traces.jsonl")) == 3


@pytest.mark.parametrize(
    "variable",
    [v for v in VARIABLES if v.how is How.PARTLY and not v.name.endswith("_PROTOCOL")],
    ids=lambda v: v.name,
)
def test_a_value_that_is_not_honoured_is_named_once(
    variable: Variable, tmp_path: Path, kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable.name, "strange\x1b")
    export(tmp_path, kit=kit)
    (line,) = warnings(caplog)
    assert line.startswith(f"{variable.name}: ")
    assert "strange" in line
    assert line.isprintable()


@pytest.mark.parametrize("variable", [v for v in VARIABLES if v.how is not How.NAMED], ids=lambda v: v.name)
def test_nothing_is_said_of_what_is_honoured(variable: Variable) -> None:
    assert variables.notes({variable.name: plausible(variable)}) == []


def test_variables_with_the_same_fate_share_a_line() -> None:
    (line,) = variables.notes({"OTEL_CONFIG_FILE": "f", "OTEL_EXPORTER_ZIPKIN_ENDPOINT": "e"})
    assert line == (
        "OTEL_CONFIG_FILE, OTEL_EXPORTER_ZIPKIN_ENDPOINT: "
        'not used by otel\'s own pipeline, but by the SDK with otel.pipeline = "sdk"'
    )


def test_an_empty_variable_is_not_set() -> None:
    assert variables.notes({variable.name: " " for variable in VARIABLES}) == []


def test_what_is_honoured_is_read(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is listed as honoured is asked for somewhere."""
    asked: set[str] = set()
    environ_type: Any = type(os.environ)
    plain = environ_type.__getitem__

    def note(environ: Any, key: str) -> str:
        asked.add(key)
        return str(plain(environ, key))

    def nothing(_environ: Any) -> list[str]:
        return []

    monkeypatch.setenv("TRACEPARENT", TestSamplers.SAMPLED)
    monkeypatch.setattr(variables, "notes", nothing)
    monkeypatch.setattr(environ_type, "__getitem__", note)
    for protocol in ("http/protobuf", "grpc"):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
        for signal in ("TRACES", "METRICS", "LOGS"):
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", protocol)
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "http://127.0.0.1:1")
            if protocol == "grpc":
                monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "127.0.0.1:1")
        host = InlineHost(OtelPlugin(), {})
        host.feed(envelopes([], traceparent=TestSamplers.SAMPLED))
        host.close(0.1)
    for signal in ("TRACES", "METRICS", "LOGS"):
        for name in ("ENDPOINT", "PROTOCOL"):
            monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{signal}_{name}")
    InlineHost(OtelPlugin(), {}).close(0.1)
    honoured = {variable.name for variable in VARIABLES if variable.how in (How.HONOURED, How.PARTLY)}
    assert honoured - UNASKED - asked == set()


class TestExporters:
    """OTEL_TRACES_EXPORTER and its neighbours choose signals."""

    def test_none_turns_traces_off_and_says_so(
        self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
        host.feed(envelopes([Log(level=LogLevel.Info, message="hello"), *kit.small_proof()]))
        host.close()
        assert receiver.paths == []
        assert receiver.points
        assert [record.body for record in receiver.logs] == ["hello"]
        assert "spans_exported" not in host.health()
        assert warnings(caplog) == [
            "OTEL_TRACES_EXPORTER=none: no traces are exported (otel.traces = true exports them)"
        ]

    def test_the_table_wins(self, kit: Any, receiver: Any, monkeypatch: Any, caplog: Any) -> None:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "traces": True})
        host.feed(envelopes(kit.small_proof()))
        host.close()
        assert len(receiver.spans) == 3
        assert warnings(caplog) == []

    def test_the_table_alone(self, kit: Any, tmp_path: Path) -> None:
        export(tmp_path, kit=kit, traces=False)
        assert sorted(path.stem for path in tmp_path.iterdir()) == ["logs", "metrics"]

    def test_a_receiver_of_the_environment_gets_only_what_has_otlp_among_its_exporters(
        self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus, otlp")
        host = InlineHost(OtelPlugin(), asked=False)
        host.feed(envelopes(kit.small_proof()))
        host.close()
        assert receiver.paths == []
        assert receiver.points
        text = "otel's own pipeline has no exporter '%s'; otel.pipeline = \"sdk\" may have it"
        assert warnings(caplog) == [
            f"OTEL_TRACES_EXPORTER: {text % 'console'}",
            f"OTEL_METRICS_EXPORTER: {text % 'prometheus'}",
        ]

    def test_one_that_was_asked_for_gets_all(self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
        host.feed(envelopes(kit.small_proof()))
        host.close()
        assert len(receiver.spans) == 3

    def test_without_any_signal_the_plugin_sits_the_run_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        for name in ("TRACES", "METRICS", "LOGS"):
            monkeypatch.setenv(f"OTEL_{name}_EXPORTER", "none")
        assert InlineHost(OtelPlugin(), asked=False).is_idle


class TestSamplers:
    """OTEL_TRACES_SAMPLER decides on each trace."""

    SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    UNSAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

    @pytest.mark.parametrize(
        ("sampler", "alone", "below_sampled", "below_unsampled"),
        [
            ("", True, True, False),
            ("always_on", True, True, True),
            ("always_off", False, False, False),
            ("traceidratio", True, True, True),
            ("PARENTBASED_ALWAYS_ON", True, True, False),
            ("parentbased_always_off", False, True, False),
            ("parentbased_traceidratio", True, True, False),
            ("xray", True, True, False),
        ],
    )
    def test_each(
        self,
        kit: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        sampler: str,
        alone: bool,
        below_sampled: bool,
        below_unsampled: bool,
    ) -> None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
        found: list[bool] = []
        for index, traceparent in enumerate((None, self.SAMPLED, self.UNSAMPLED)):
            host = InlineHost(OtelPlugin(), {"file": str(tmp_path / str(index))})
            host.feed(envelopes(kit.small_proof(), traceparent=traceparent))
            host.close()
            file = tmp_path / str(index) / "traces.jsonl"
            found.append(file.exists() and len(kit.read_file(file)) == 3)
        assert found == [alone, below_sampled, below_unsampled]

    def test_the_ratio_is_the_sdks(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.3")
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        names = [f"session-{index}" for index in range(60)]
        for name in names:
            host.feed(envelopes(kit.small_proof(), session_id=name))
        host.close()
        traces = {span.trace_id for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof"}
        every = [ids.proof_trace_id(name, 0) for name in names]
        sampler = TraceIdRatioBased(0.3)
        expected = {
            trace
            for trace in every
            if sampler.should_sample(None, int(trace, 16), "proof").decision is not Decision.DROP
        }
        assert traces == expected
        assert 5 < len(traces) < 40

    @pytest.mark.parametrize("raw", ["2", "-0.1", "most", "nan"])
    def test_a_ratio_that_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", raw)
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        assert str(raised.value) == f"OTEL_TRACES_SAMPLER_ARG: {raw!r} is not a number from 0 to 1"


class TestLimits:
    """The limits of OpenTelemetry apply beside our own, and what they leave out is counted."""

    def spans(self, folder: Path, kit: Any) -> dict[str, dict[str, Any]]:
        """The spans as they are in the file, by name."""
        export(folder, [Log(level=LogLevel.Info, message="m" * 20), *kit.small_proof()], kit)
        lines = (folder / "traces.jsonl").read_bytes().splitlines()
        found = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines]
        return {span["name"]: span for span in found}

    def test_none_are_dropped_without_limits(self, kit: Any, tmp_path: Path) -> None:
        for span in self.spans(tmp_path, kit).values():
            assert "droppedAttributesCount" not in span
            assert "droppedLinksCount" not in span

    @pytest.mark.parametrize("name", ["OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"])
    def test_attributes_of_spans(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        whole = self.spans(tmp_path / "whole", kit)["proof"]["attributes"]
        monkeypatch.setenv(name, "2")
        span = self.spans(tmp_path / "limited", kit)["proof"]
        assert [pair["key"] for pair in span["attributes"]] == [pair["key"] for pair in whole[:2]]
        assert span["droppedAttributesCount"] == len(whole) - 2

    @pytest.mark.parametrize("name", ["OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT"])
    def test_attributes_of_events(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        whole = self.spans(tmp_path / "whole", kit)["layer MatMul"]["events"][0]["attributes"]
        monkeypatch.setenv(name, "1")
        event = self.spans(tmp_path / "limited", kit)["layer MatMul"]["events"][0]
        assert event["attributes"] == whole[:1]
        assert event["droppedAttributesCount"] == len(whole) - 1

    @pytest.mark.parametrize("name", ["OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"])
    def test_texts_of_spans(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(name, "2")
        pairs = self.spans(tmp_path, kit)["proof"]["attributes"]
        texts = {pair["key"]: pair["value"]["stringValue"] for pair in pairs if "stringValue" in pair["value"]}
        assert texts["proofstream.proof.model"] == "ml"
        assert max(map(len, texts.values())) == 2

    def test_a_signals_own_limit_wins(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_ATTRIBUTE_COUNT_LIMIT", "1")
        monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3")
        assert len(self.spans(tmp_path, kit)["proof"]["attributes"]) == 3

    def test_links(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "0")
        span = self.spans(tmp_path, kit)["proof"]
        assert (span["links"], span["droppedLinksCount"]) == ([], 1)

    @pytest.mark.parametrize("name", ["OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT"])
    def test_attributes_of_log_records(
        self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, "0")
        self.spans(tmp_path, kit)
        (line,) = (tmp_path / "logs.jsonl").read_bytes().splitlines()
        record = json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
        assert (record["attributes"], record["droppedAttributesCount"]) == ([], 1)
        assert record["body"] == {"stringValue": "m" * 20}  # a limit on attributes

    def test_texts_of_log_records(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1")
        self.spans(tmp_path, kit)
        (record,) = kit.read_log_file(tmp_path / "logs.jsonl")
        assert list(map(len, record.attributes.values())) == [1]

    def test_what_a_receiver_gets_says_the_same(self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        bodies: list[bytes] = []
        take = receiver.take

        def keep(path: str, headers: dict[str, str], body: bytes) -> Any:
            if path.endswith("/v1/traces"):
                bodies.append(body)
            return take(path, headers, body)

        receiver.take = keep
        monkeypatch.setenv("OTEL_ATTRIBUTE_COUNT_LIMIT", "1")
        monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "0")
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
        host.feed(envelopes(kit.small_proof()))
        host.close()
        spans = [
            span
            for body in bodies
            for group in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]
        proof = next(span for span in spans if span.name == "proof")
        layer = next(span for span in spans if span.name.startswith("layer"))
        assert (len(proof.attributes), proof.dropped_links_count) == (1, 1)
        assert proof.dropped_attributes_count > 3
        assert layer.events[0].dropped_attributes_count > 1

    @pytest.mark.parametrize(
        "name", ["OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT"]
    )
    def test_a_limit_that_is_no_number(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(name, "many")
        with pytest.raises(ConfigError, match=f"{name}: 'many' is not a whole number"):
            InlineHost(OtelPlugin(), {"file": str(tmp_path)})


class TestTemporality:
    """OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE has counters and histograms sent as differences."""

    SIGNAL: ClassVar[dict[str, LabelValue]] = {Label.SIGNAL: "traces"}

    def points(self, collected: list[MetricPoints], metric: Metric) -> list[Any]:
        """The points of a metric."""
        return [point for group in collected if group.metric == metric for point in group.points]

    def test_a_counter(self) -> None:
        clock = iter(range(100, 200, 10))
        meter = OwnMeter(clock=lambda: next(clock), temporality=Temporality.DELTA)
        meter.collect()
        meter.add_count(Metrics.OTLP_LOST, 2, self.SIGNAL)
        (first,) = self.points(meter.collect(), Metrics.OTLP_LOST)
        assert (first.start_unix_nano, first.time_unix_nano, first.value) == (110, 120, 2)
        assert self.points(meter.collect(), Metrics.OTLP_LOST) == []
        meter.add_count(Metrics.OTLP_LOST, 3, self.SIGNAL)
        (third,) = self.points(meter.collect(), Metrics.OTLP_LOST)
        assert (third.start_unix_nano, third.time_unix_nano, third.value) == (130, 140, 3)

    def test_a_histogram(self) -> None:
        meter = OwnMeter(temporality=Temporality.LOW_MEMORY)
        for value in (5.0, 0.5):
            meter.record_value(Metrics.PROOF_DURATION, value, self.SIGNAL, None)
            collected = meter.collect()
            (point,) = self.points(collected, Metrics.PROOF_DURATION)
            assert (point.count, point.sum, point.min, point.max, sum(point.bucket_counts)) == (
                1,
                value,
                value,
                value,
                1,
            )
            assert all(group.is_delta for group in collected)

    def test_gauges_and_up_down_counters_stay_as_they_are(self) -> None:
        meter = OwnMeter(temporality=Temporality.DELTA)
        meter.set_value(Metrics.PROOFS_RUNNING, 2, {})
        for _ in range(2):
            (group,) = meter.collect()
            assert (group.is_delta, self.points([group], Metrics.PROOFS_RUNNING)[0].value) == (False, 2)

    @pytest.mark.parametrize("temporality", [Temporality.DELTA, Temporality.LOW_MEMORY])
    def test_a_counter_that_a_driver_counts(self, temporality: Temporality) -> None:
        meter = OwnMeter(temporality=temporality)
        found: list[float] = []
        for joules in (1000, 1007, 3):  # the driver was loaded anew before the last one
            meter.set_value(Metrics.ENERGY, joules, {})
            (group,) = meter.collect()
            found.append(self.points([group], Metrics.ENERGY)[0].value)
        assert found == ([0, 7, 3] if temporality is Temporality.DELTA else [1000, 1007, 3])

    def test_the_sum_of_differences_is_the_total(
        self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        totals: list[dict[Any, float]] = []
        for preference in ("cumulative", "delta"):
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", preference)
            folder = tmp_path / preference
            host = InlineHost(OtelPlugin(), {"file": str(folder), "metric_interval_s": 0.1})
            for name in ("a", "b", "c"):
                host.feed(envelopes(kit.small_proof(), session_id=name))
                time.sleep(0.12)
                host.tick()
            host.close()
            total: dict[Any, float] = {}
            for point in kit.read_metric_file(folder / "metrics.jsonl"):
                if point.kind == "histogram" or point.monotonic:
                    key = (point.name, *sorted(point.attributes.items()))
                    value = point.count if point.kind == "histogram" else point.value
                    total[key] = total.get(key, 0) + value if preference == "delta" else value
            totals.append(total)
        assert totals[0] == totals[1]
        assert any(value == 3 for value in totals[0].values())

    def test_both_encodings_say_so(self) -> None:
        meter = OwnMeter(temporality=Temporality.DELTA)
        meter.add_count(Metrics.OTLP_LOST, 2, self.SIGNAL)
        meter.record_value(Metrics.PROOF_DURATION, 1.0, {}, None)
        for group in meter.collect():
            kind = "histogram" if group.metric is Metrics.PROOF_DURATION else "sum"
            assert otlp_json.metric_of(group)[kind]["aggregationTemporality"] == 1
            message: Any = ProtoMetric.FromString(encode_metric(group))
            assert getattr(message, kind).aggregation_temporality == 1


class TestOthers:
    """The other variables that are honoured."""

    def test_exemplars_of_unsampled_spans(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        monkeypatch.setenv("OTEL_METRICS_EXEMPLAR_FILTER", "always_on")
        export(tmp_path, kit=kit)
        points = kit.read_metric_file(tmp_path / "metrics.jsonl")
        assert [exemplar for point in points for exemplar in point.exemplars]

    def test_the_time_for_an_attempt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_METRIC_EXPORT_TIMEOUT", "250")
        monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "50")
        monkeypatch.setenv("OTEL_BLRP_EXPORT_TIMEOUT", "60")
        batchings = [environment.batching_of(signal, 2**20) for signal in (METRICS, TRACES, LOGS)]
        assert [batching.attempt_s for batching in batchings] == [0.25, 0.05, 0.06]

    @pytest.mark.parametrize(("said", "is_root"), [("", False), ("baggage,tracecontext", False), ("b3", True)])
    def test_propagators(
        self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, is_root: bool
    ) -> None:
        traceparent = TestSamplers.SAMPLED
        monkeypatch.setenv("TRACEPARENT", traceparent)
        monkeypatch.setenv("OTEL_PROPAGATORS", said)
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        host.feed(envelopes(kit.small_proof(), traceparent=traceparent))
        host.close()
        proof = next(span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof")
        assert (proof.parent_span_id == "") == is_root

    def test_a_traceparent_that_is_not_the_variables_is_no_matter_of_propagators(
        self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTEL_PROPAGATORS", "none")
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        host.feed(envelopes(kit.small_proof(), traceparent=TestSamplers.SAMPLED))
        host.close()
        assert {span.trace_id for span in kit.read_file(tmp_path / "traces.jsonl")} == {TestSamplers.SAMPLED[3:35]}
