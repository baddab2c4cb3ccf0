"""The SDK's pipeline has whatever the environment asks of OpenTelemetry's own configurator, and is not made global."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

PROVE = """
import logging
import sys
import proofstream
from opentelemetry import _logs, metrics, propagate, trace
logging.basicConfig(level=logging.WARNING, format="%(message)s")
textmap = propagate.get_global_textmap()
with proofstream.open_session(plugins=["otel"]) as session:
    with session.proof(num_layers=1, model_name="mlp") as proof:
        with proof.layer(0, kind=proofstream.LayerKind.MatMul):
            pass
globals_of = (trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider())
print([type(one).__name__ for one in globals_of], textmap is propagate.get_global_textmap())
"""
UNTOUCHED = "['ProxyTracerProvider', '_ProxyMeterProvider', 'ProxyLoggerProvider'] True"

ACME = """
import json, os, sys
from opentelemetry.sdk._configuration import _OTelSDKConfigurator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import set_tracer_provider

class Exporter(SpanExporter):
    def __init__(self, mark="plain"):
        self.mark = mark
    def export(self, spans):
        for span in spans:
            told = dict(mark=self.mark, name=span.name, id=span.context.span_id, attributes=dict(span.attributes))
            print("SPAN", json.dumps(told | {"resource": dict(span.resource.attributes)}))
        return SpanExportResult.SUCCESS if "ACME_FAILS" not in os.environ else SpanExportResult.FAILURE

class NoSessions(Sampler):
    def should_sample(self, parent_context, trace_id, name, *_, **__):
        return SamplingResult(Decision.DROP if name == "session" else Decision.RECORD_AND_SAMPLE, {"acme": "kept"})
    def get_description(self):
        return "no sessions"

class Counting(IdGenerator):
    number = 0
    def generate_span_id(self):
        self.number += 1
        return self.number
    def generate_trace_id(self):
        return self.generate_span_id()
    def is_trace_id_random(self):
        return False

class Own(_OTelSDKConfigurator):
    def _configure(self, **kwargs):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(Exporter("configurator")))
        set_tracer_provider(provider)

class Distro:
    def configure(self):
        os.environ.setdefault("OTEL_TRACES_EXPORTER", "acme")
"""
ENTRY_POINTS = """
[opentelemetry_traces_exporter]
acme = acme:Exporter
[opentelemetry_traces_sampler]
no_sessions = acme:sampler
[opentelemetry_id_generator]
counting = acme:Counting
[opentelemetry_configurator]
acme = acme:Own
[opentelemetry_distro]
acme = acme:Distro
"""
ALWAYS = ["layer MatMul", "proof", "session"]
"""The names of the spans that there are on a slow machine, too, and no more of them."""
NO_OTHERS = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A folder with an installed distribution that extends the SDK, and a prover."""
    (tmp_path / "acme.py").write_text(ACME + "\ndef sampler(_argument):\n    return NoSessions()\n")
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "prove.py").write_text(textwrap.dedent(PROVE))
    return tmp_path


def prove(folder: Path, **variables: str) -> tuple[list[dict[str, Any]], str, str]:
    """Prove in a process of its own; return the spans that the vendor's exporter got, and all that was printed."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PROOFSTREAM_OTEL_PIPELINE": "sdk", **variables}
    command = [sys.executable, str(folder / "prove.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    spans = [json.loads(line.removeprefix("SPAN ")) for line in lines if line.startswith("SPAN ")]
    return [span for span in spans if span["name"] in ALWAYS], done.stdout, done.stderr


def test_a_vendors_exporter_sampler_and_ids(vendor: Path) -> None:
    spans, out, _ = prove(
        vendor,
        **NO_OTHERS,
        OTEL_TRACES_EXPORTER="acme",
        OTEL_TRACES_SAMPLER="no_sessions",
        OTEL_PYTHON_ID_GENERATOR="counting",
        OTEL_RESOURCE_ATTRIBUTES="team=zk",
        OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT="3",
    )
    assert [span["name"] for span in spans] == ["layer MatMul", "proof"]
    assert all(span["id"] < 20 and span["attributes"]["acme"] == "kep" for span in spans)
    assert {span["resource"]["team"] for span in spans} == {"zk"}
    assert {span["resource"]["service.name"] for span in spans} == {"proofstream"}
    assert UNTOUCHED in out


def test_the_console_exporter(vendor: Path) -> None:
    _, out, err = prove(vendor, **NO_OTHERS, OTEL_TRACES_EXPORTER="console")
    assert out.count('"name": "proof"') == 1
    assert UNTOUCHED in out
    assert err == ""


def test_a_vendors_configurator_and_distribution(vendor: Path) -> None:
    spans, out, _ = prove(vendor, **NO_OTHERS, OTEL_PYTHON_CONFIGURATOR="acme")
    assert {span["mark"] for span in spans} == {"configurator"}
    assert len(spans) == len(ALWAYS)
    assert UNTOUCHED in out
    spans, out, _ = prove(vendor, **NO_OTHERS, OTEL_PYTHON_DISTRO="acme")
    assert {span["mark"] for span in spans} == {"plain"}
    assert UNTOUCHED in out


def test_what_its_exporter_cannot_deliver_is_reported(vendor: Path) -> None:
    spans, _, err = prove(vendor, **NO_OTHERS, OTEL_TRACES_EXPORTER="acme", ACME_FAILS="1")
    assert len(spans) == len(ALWAYS)
    assert re.search("[0-9] lost spans", err)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "nobody"}, "Requested component 'nobody' not found"),
        ({"OTEL_PYTHON_CONFIGURATOR": "nobody"}, "'nobody' is not found among the installed packages'"),
        ({"OTEL_PYTHON_DISTRO": "nobody"}, "'nobody' is not found among the installed packages'"),
    ],
)
def test_what_is_not_installed_is_named_and_the_proof_goes_on(
    vendor: Path, variables: dict[str, str], said: str
) -> None:
    _, out, err = prove(vendor, **NO_OTHERS, **variables)
    assert f"otel: the SDK's pipeline cannot be made: {said}" in err
    assert UNTOUCHED in out


def test_settings_without_effect_are_named(vendor: Path) -> None:
    _, _, err = prove(vendor, **NO_OTHERS, OTEL_TRACES_EXPORTER="acme", PROOFSTREAM_OTEL_METRIC_INTERVAL_S="5")
    assert 'otel.metric_interval_s has no effect with otel.pipeline = "sdk": set OTEL_METRIC_EXPORT_INTERVAL' in err


def test_a_silent_receiver_does_not_hold_the_process(vendor: Path, silent: str) -> None:
    began = time.monotonic()
    _, out, err = prove(vendor, OTEL_EXPORTER_OTLP_ENDPOINT=silent)
    assert time.monotonic() - began < 20, "the SDK would take half a minute for each signal"
    assert UNTOUCHED in out
    assert re.search("[0-9] lost spans", err)
    assert "1 lost metric collections" in err


def test_a_fork_delivers_nothing_twice(vendor: Path, receiver: Any) -> None:
    forking = "            pid = __import__('os').fork()\n            pid or sys.exit()"
    (vendor / "prove.py").write_text(PROVE.replace("            pass", forking))
    prove(vendor, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert sorted(span.name for span in receiver.spans if span.name in ALWAYS) == ALWAYS
    assert receiver.other_paths == ["/v1/metrics"]
