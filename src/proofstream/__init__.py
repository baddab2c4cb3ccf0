"""Makes a zero-knowledge prover observable.

This module is the public face: what a producer emits with, and what a plugin is written against. Importing it loads msgspec and
pluggy, nothing else.
"""

from __future__ import annotations

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
    GpuSnapshot,
    GpuStatus,
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
from proofstream.timeline import Timelines
from proofstream.wire import Decoded, LineDecoder, Refusal, encode_envelope, encode_event

__version__ = "0.1.0"
