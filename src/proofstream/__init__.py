"""Makes a zero-knowledge prover observable.

This module is the public face: what a producer emits with, and what a plugin is written against. Importing it loads
msgspec and pluggy, nothing else.
"""

from __future__ import annotations

import logging

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
)
from proofstream.envelope_log import EnvelopeLogWriter, read_envelope_log
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
    PluginHealth,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    RoundPoly,
    RoundPolyDeg3,
    SecureField,
    SessionClosed,
    SessionOpened,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    TraceStarted,
    UnknownEvent,
    WeightOpeningEnd,
    WeightOpeningStart,
    is_sheddable,
    kind_of,
)
from proofstream.hookspecs import HOOK_API, PluginContext, hookimpl
from proofstream.intervals import Change, Closed, Interval, IntervalKind, Noted, Opened, Proof
from proofstream.opening import open_session
from proofstream.scopes import LayerScope, ProofScope
from proofstream.session import Session, current_session
from proofstream.tables import read_table
from proofstream.timelines import Timelines
from proofstream.version import __version__
from proofstream.wire import Decoded, LineDecoder, Refusal, encode_envelope, encode_event

# What the library logs is shown where the application asks for it, and nowhere else.
logging.getLogger("proofstream").addHandler(logging.NullHandler())

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
    "CircuitCompiled",
    "CircuitNode",
    "Closed",
    "Command",
    "ConfigError",
    "Decoded",
    "Envelope",
    "EnvelopeLogWriter",
    "EventsLost",
    "Feed",
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
    "Opened",
    "Option",
    "OptionKind",
    "PluginContext",
    "PluginError",
    "PluginHealth",
    "Proof",
    "ProofAborted",
    "ProofComplete",
    "ProofEvent",
    "ProofScope",
    "ProofStart",
    "ProofstreamError",
    "Refusal",
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
    "StarkProofEnd",
    "StarkProofStart",
    "SumcheckRound",
    "Timelines",
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
    "current_session",
    "encode_envelope",
    "encode_event",
    "gpu_snapshot",
    "hookimpl",
    "is_sheddable",
    "kind_of",
    "matmul_trace_cost",
    "open_session",
    "read_envelope_log",
    "read_table",
]
