"""Makes a zero-knowledge prover observable.

This module is the public face: what a producer emits with, and what a plugin is written against. Importing it loads
the first half, and msgspec for it. The modules of the second half, and pluggy for them, are loaded where their names
are used, because a prover waits for what it imports.
"""

from __future__ import annotations

import importlib
import logging
import typing

from proofstream.builders import (
    activation,
    activation_stats,
    attention_heatmap,
    claim_approx,
    commitment_hex,
    gpu_snapshot,
    matmul_trace_cost,
)
from proofstream.catalog import Catalog
from proofstream.envelopes import HOST, PRODUCER, Batch, Envelope
from proofstream.errors import ConfigError, PluginError, ProofstreamError, SourceError, UsageError, WireError
from proofstream.events import (
    ActivationStats,
    AggregatedBindingEnd,
    AggregatedBindingStart,
    AttentionHeatmap,
    CircuitCompiled,
    CircuitNode,
    EventsLost,
    GpuReading,
    GpuSnapshot,
    GpuStatus,
    GpuTelemetry,
    LayerActivation,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    Log,
    LogLevel,
    PhaseEnd,
    PhaseProgress,
    PhaseStart,
    PluginHealth,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    ReportLine,
    RoundPoly,
    RoundPolyDeg3,
    SecureField,
    SessionClosed,
    SessionOpened,
    StarkProofEnd,
    StarkProofStart,
    StateBytes,
    StateBytesMoved,
    StateDeclaration,
    StateProgramCost,
    StateProgramRun,
    SumcheckRound,
    TraceStarted,
    UnknownEvent,
    WeightOpeningEnd,
    WeightOpeningStart,
    is_sheddable,
    kind_of,
)
from proofstream.notices import LastResort as _LastResort
from proofstream.opening import open_session, open_session_async
from proofstream.report import Report
from proofstream.scopes import LayerScope, PhaseScope, ProofScope
from proofstream.session import Session, current_session
from proofstream.text import safe_text
from proofstream.version import __version__
from proofstream.wire import Decoded, LineDecoder, Refusal, encode_envelope, encode_event

if typing.TYPE_CHECKING:
    from proofstream.config_table import read_table
    from proofstream.contracts import (
        Artefact,
        Command,
        Feed,
        Option,
        OptionKind,
        SessionFeed,
        Source,
        SourceRequest,
        SourceType,
        Tool,
        ToolCall,
    )
    from proofstream.envelope_log import EnvelopeLogWriter, read_envelope_log
    from proofstream.gpu_energy import EnergyLedger, GpuEnergy
    from proofstream.health import PluginStatus
    from proofstream.hookspecs import HOOK_API, PluginContext, hookimpl
    from proofstream.inputs import parse_toml, read_small_file
    from proofstream.intervals import (
        Change,
        Closed,
        Interval,
        IntervalKind,
        Noted,
        NotedRounds,
        Opened,
        Phase,
        PhaseSum,
        Proof,
        Stage,
    )
    from proofstream.observed import ObservedSession
    from proofstream.outputs import Output, create_beside, make_private_folder, private_opener
    from proofstream.plain_tables import Check, Prepare
    from proofstream.reported import (
        ReportedDevices,
        reported_claim,
        reported_claims,
        reported_duration_ms,
        reported_rounds,
    )
    from proofstream.timelines import Timelines
    from proofstream.trace_ids import TraceNote, derived_id, session_trace_id

# What the library logs is shown where the application asks for it; its warnings without being asked for, too, because
# most provers set no logging up.
logging.getLogger("proofstream").addHandler(_LastResort())

__all__ = [
    "HOOK_API",
    "HOST",
    "PRODUCER",
    "ActivationStats",
    "AggregatedBindingEnd",
    "AggregatedBindingStart",
    "Artefact",
    "AttentionHeatmap",
    "Batch",
    "Catalog",
    "Change",
    "Check",
    "CircuitCompiled",
    "CircuitNode",
    "Closed",
    "Command",
    "ConfigError",
    "Decoded",
    "EnergyLedger",
    "Envelope",
    "EnvelopeLogWriter",
    "EventsLost",
    "Feed",
    "GpuEnergy",
    "GpuReading",
    "GpuSnapshot",
    "GpuStatus",
    "GpuTelemetry",
    "Interval",
    "IntervalKind",
    "LayerActivation",
    "LayerEnd",
    "LayerKind",
    "LayerProofKind",
    "LayerScope",
    "LayerStart",
    "LineDecoder",
    "Log",
    "LogLevel",
    "Noted",
    "NotedRounds",
    "ObservedSession",
    "Opened",
    "Option",
    "OptionKind",
    "Output",
    "Phase",
    "PhaseEnd",
    "PhaseProgress",
    "PhaseScope",
    "PhaseStart",
    "PhaseSum",
    "PluginContext",
    "PluginError",
    "PluginHealth",
    "PluginStatus",
    "Prepare",
    "Proof",
    "ProofAborted",
    "ProofComplete",
    "ProofEvent",
    "ProofScope",
    "ProofStart",
    "ProofstreamError",
    "Refusal",
    "Report",
    "ReportLine",
    "ReportedDevices",
    "RoundPoly",
    "RoundPolyDeg3",
    "SecureField",
    "Session",
    "SessionClosed",
    "SessionFeed",
    "SessionOpened",
    "Source",
    "SourceError",
    "SourceRequest",
    "SourceType",
    "Stage",
    "StarkProofEnd",
    "StarkProofStart",
    "StateBytes",
    "StateBytesMoved",
    "StateDeclaration",
    "StateProgramCost",
    "StateProgramRun",
    "SumcheckRound",
    "Timelines",
    "Tool",
    "ToolCall",
    "TraceNote",
    "TraceStarted",
    "UnknownEvent",
    "UsageError",
    "WeightOpeningEnd",
    "WeightOpeningStart",
    "WireError",
    "__version__",
    "activation",
    "activation_stats",
    "attention_heatmap",
    "claim_approx",
    "commitment_hex",
    "create_beside",
    "current_session",
    "derived_id",
    "encode_envelope",
    "encode_event",
    "gpu_snapshot",
    "hookimpl",
    "is_sheddable",
    "kind_of",
    "make_private_folder",
    "matmul_trace_cost",
    "open_session",
    "open_session_async",
    "parse_toml",
    "private_opener",
    "read_envelope_log",
    "read_small_file",
    "read_table",
    "reported_claim",
    "reported_claims",
    "reported_duration_ms",
    "reported_rounds",
    "safe_text",
    "session_trace_id",
]

_LATER = {
    "read_table": "config_table",
    "Artefact": "contracts",
    "Command": "contracts",
    "Feed": "contracts",
    "Option": "contracts",
    "OptionKind": "contracts",
    "Output": "outputs",
    "SessionFeed": "contracts",
    "Source": "contracts",
    "SourceRequest": "contracts",
    "SourceType": "contracts",
    "Tool": "contracts",
    "ToolCall": "contracts",
    "EnvelopeLogWriter": "envelope_log",
    "read_envelope_log": "envelope_log",
    "EnergyLedger": "gpu_energy",
    "GpuEnergy": "gpu_energy",
    "PluginStatus": "health",
    "HOOK_API": "hookspecs",
    "PluginContext": "hookspecs",
    "hookimpl": "hookspecs",
    "parse_toml": "inputs",
    "read_small_file": "inputs",
    "Change": "intervals",
    "Closed": "intervals",
    "Interval": "intervals",
    "IntervalKind": "intervals",
    "Noted": "intervals",
    "NotedRounds": "intervals",
    "Opened": "intervals",
    "Phase": "intervals",
    "PhaseSum": "intervals",
    "Proof": "intervals",
    "Stage": "intervals",
    "ObservedSession": "observed",
    "create_beside": "outputs",
    "make_private_folder": "outputs",
    "private_opener": "outputs",
    "Check": "plain_tables",
    "Prepare": "plain_tables",
    "ReportedDevices": "reported",
    "reported_claim": "reported",
    "reported_claims": "reported",
    "reported_duration_ms": "reported",
    "reported_rounds": "reported",
    "Timelines": "timelines",
    "TraceNote": "trace_ids",
    "derived_id": "trace_ids",
    "session_trace_id": "trace_ids",
}
"""The names that are loaded when they are used, with the module of each."""


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


if not typing.TYPE_CHECKING:  # a type checker would take it for a module that has every name

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = value
        return value
