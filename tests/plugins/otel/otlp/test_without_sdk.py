"""What is decided without loading OpenTelemetry is what OpenTelemetry decides."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any, cast

import pytest
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, ParentBased
from opentelemetry.util._once import Once

from proofstream import PluginContext
from proofstream.testing import InlineHost, RecordingPlugin
from proofstream_otel import destinations, idleness, settings
from proofstream_otel.environment import Sampling, limits
from proofstream_otel.otlp.resources import Resources
from proofstream_otel.otlp.span_writer import SampledWriter
from proofstream_otel.sdk_context import context_of
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import Parent, SpanValues

TRACE_STATES = [
    "",
    "a=1",
    "a=1,b=2",
    "a=1,a=2",
    "no member",
    "A=1",
    f"a={'x' * 300}",
    ",".join(f"k{i}=v" for i in range(40)),
]


def root() -> SpanValues:
    return SpanValues(
        name="a",
        trace_id="1" * 32,
        span_id="2" * 16,
        parent_span_id="",
        root_span_id="2" * 16,
        sampled=True,
        remote_parent=False,
        trace_state="",
        start_unix_nano=1,
        end_unix_nano=1,
        attributes={"a": 1, "b": "c", "d": ["e"]},
        events=[],
        dropped_events=0,
        links=[],
        error=None,
        resource=(),
    )


def parents() -> list[Parent | None]:
    made: list[Parent | None] = [None]
    for sampled, remote, state in itertools.product([True, False], [True, False], TRACE_STATES):
        made.append(Parent(trace_id="3" * 32, span_id="4" * 16, sampled=sampled, remote=remote, trace_state=state))
    return made


@pytest.mark.parametrize("parent", parents())
@pytest.mark.parametrize("asks_parent", [True, False])
@pytest.mark.parametrize("name", ["always_on", "always_off"])
def test_sampling(name: str, parent: Parent | None, *, asks_parent: bool) -> None:
    ours, theirs = root(), root()
    SampledWriter([], Sampling(name, 1.0, asks_parent=asks_parent), limits()).start_span(ours, parent)

    constant = ALWAYS_ON if name == "always_on" else ALWAYS_OFF
    sampler = ParentBased(constant) if asks_parent else constant
    result = sampler.should_sample(
        context_of(parent), int(theirs.trace_id, 16), "a", attributes=dict(theirs.attributes)
    )
    theirs.sampled = result.decision is Decision.RECORD_AND_SAMPLE
    if theirs.sampled:
        theirs.attributes.update(safe.attributes(cast("Any", result).attributes))
        theirs.trace_state = "" if result.trace_state is None else result.trace_state.to_header()
    assert ours == theirs


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "prover"},
        {"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,b=c%20d"},
        {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "process"},
    ],
)
def test_the_resource(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    identity = {"service.instance.id": "i", "host.name": "h"}
    session = (("host.name", "other"), ("x", "y"))
    expected = {
        **Resource.create().attributes,
        "service.name": SCOPE,
        **identity,
        **dict(session),
        **OTELResourceDetector().detect().attributes,
    }
    found = Resources(identity).attributes_of(session)
    assert list(found.items()) == list(safe.attributes(expected).items())


TABLES: list[dict[str, Any]] = [
    {},
    {"metrics": True},
    {"logs": True},
    {"traces": True},
    {"rounds": "logs"},
    {"pipeline": "own"},
    {"pipeline": "auto", "traces": False},
    {"endpoint": ""},
    {"endpoint": "http://127.0.0.1:9"},
]
VARIABLES: list[dict[str, str]] = [
    {},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
    {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://127.0.0.1:9"},
    {"OTEL_TRACES_EXPORTER": "none"},
    {"OTEL_TRACES_EXPORTER": "otlp"},
    {"OTEL_PYTHON_TRACER_PROVIDER": "default_tracer_provider"},
    {"OTEL_SDK_DISABLED": "true"},
]
IDLE = """
import json, sys
from proofstream.testing import InlineHost
from proofstream_otel import OtelPlugin
host = InlineHost(OtelPlugin(), json.loads(sys.argv[1]), asked=False)
host.close()
print("opentelemetry.context" in sys.modules)
"""


def context_in(*, asked: bool) -> PluginContext:
    return InlineHost(RecordingPlugin("otel"), asked=asked).context


@pytest.mark.parametrize("variables", VARIABLES)
@pytest.mark.parametrize("table", TABLES)
def test_idleness(table: dict[str, Any], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(idleness, "_API", ())  # this process has loaded it
    # The variable makes one, which would be that of all later tests.
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER_SET_ONCE", Once())
    chosen = settings.read(table)
    context = context_in(asked=False)
    opened = destinations.choose(chosen, context, destinations.Providers(None, None, None))
    try:
        if idleness.is_surely_idle(chosen, context):
            assert opened.is_empty
        elif not variables and not table:
            pytest.fail("it is idle, and is not known to be")
    finally:
        opened.close(0.0)
    assert not idleness.is_surely_idle(chosen, context_in(asked=True))


def test_an_idle_plugin_does_not_load_it() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", IDLE, json.dumps({})],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environ,
    )
    assert done.stdout.strip() == "False"
