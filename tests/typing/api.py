"""The public API in use, for type checkers: nothing here is run, all of it must check without a cast or an ignore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, assert_type

from opentelemetry.sdk.trace import TracerProvider

from proofstream import (
    Batch,
    Catalog,
    Closed,
    Command,
    Interval,
    LayerKind,
    LayerProofKind,
    LineDecoder,
    Log,
    LogLevel,
    Option,
    PluginContext,
    ProofEvent,
    Report,
    RoundPoly,
    SecureField,
    Session,
    SourceType,
    SumcheckRound,
    Timelines,
    Tool,
    current_session,
    hookimpl,
    open_session,
    open_session_async,
)
from proofstream.testing import InlineHost, RecordingPlugin, envelopes
from proofstream_console import ConsolePlugin
from proofstream_demo import DemoPlugin
from proofstream_hello import HelloPlugin
from proofstream_otel import OtelPlugin
from proofstream_record import RecordPlugin


def a_prover_emits() -> None:
    provider = TracerProvider()
    with open_session(
        plugins=["record", OtelPlugin(tracer_provider=provider)], config={"record": {"path": "p.jsonl"}}
    ) as s:
        assert_type(s, Session)
        s.emit(Log(level=LogLevel.Info, message="begins"))
        with s.proof(backend="cpu-gkr", num_layers=1, model_name="digits") as proof:
            with proof.layer(0, kind=LayerKind.MatMul, proof_kind=LayerProofKind.Sumcheck) as layer:
                one = SecureField(a=1, b=0, c=0, d=0)
                layer.round(0, total_rounds=1, poly_deg2=RoundPoly(c0=one, c1=one, c2=one))
            proof.bound_weights(mode="sequential", num_openings=1)
            assert_type(proof.trace_id, str | None)
        assert_type(s.flush(timeout_s=1.0), bool)
        assert_type(s.problems, list[str])
    assert_type(s.close(), Report)
    assert_type(s.close().ok, bool)
    current = current_session()
    current.emit_if(lambda: Log(level=LogLevel.Debug, message="only made if somebody listens"))


async def a_prover_on_a_loop_emits() -> None:
    async with open_session_async(plugins=["record"], scope="context") as s:
        assert_type(s, Session)
    assert_type(await open_session_async(), Session)
    s.emit(SumcheckRound(layer_idx=0, round=0, total_rounds=1))


class Deriving:
    """A plugin with all that most plugins need."""

    requires = ("json",)
    tick_s = 1.0

    def __init__(self) -> None:
        self.timelines = Timelines()
        self.closed: list[Interval] = []

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        return bool(context.config.get("enabled", True))

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[ProofEvent] | None:
        for envelope in batch:
            assert_type(envelope.event, ProofEvent)
            self.closed += [c.interval for c in self.timelines.feed(envelope) if isinstance(c, Closed)]
        return None


def a_plugin_is_tested() -> None:
    host = InlineHost(Deriving(), config={"enabled": True})
    assert_type(host.feed(envelopes([Log(level=LogLevel.Info, message="x")])), list[ProofEvent])
    assert_type(RecordingPlugin().kinds, list[str])


def lines_are_read(path: Path) -> list[ProofEvent]:
    decoder = LineDecoder(Catalog())
    return [decoder.decode(line).event for line in path.read_bytes().splitlines()]


# What the plugins return is what the hookspecs say.


class DeclaresEventTypes(Protocol):
    def proofstream_event_types(self) -> Iterable[type[ProofEvent]]: ...


class DeclaresSources(Protocol):
    def proofstream_sources(self) -> Iterable[SourceType]: ...


class DeclaresOptions(Protocol):
    def proofstream_options(self) -> Iterable[Option]: ...


class DeclaresCommands(Protocol):
    def proofstream_commands(self) -> Iterable[Command | Tool]: ...


class Configures(Protocol):
    def proofstream_configure(self, context: PluginContext) -> bool | None: ...


class Consumes(Protocol):
    def proofstream_consume(self, batch: Batch) -> Iterable[ProofEvent] | None: ...


class ReportsHealth(Protocol):
    def proofstream_report_health(self) -> Mapping[str, int]: ...


event_types: list[DeclaresEventTypes] = [HelloPlugin()]
sources: list[DeclaresSources] = [DemoPlugin(), HelloPlugin()]
options: list[DeclaresOptions] = [ConsolePlugin(), HelloPlugin(), OtelPlugin(), RecordPlugin()]
commands: list[DeclaresCommands] = [DemoPlugin()]
configure: list[Configures] = [ConsolePlugin(), HelloPlugin(), OtelPlugin(), RecordPlugin(), RecordingPlugin()]
consume: list[Consumes] = [ConsolePlugin(), HelloPlugin(), OtelPlugin(), RecordPlugin(), RecordingPlugin()]
health: list[ReportsHealth] = [ConsolePlugin(), HelloPlugin(), OtelPlugin(), RecordPlugin()]
