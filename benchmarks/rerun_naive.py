"""Shows a proof in Rerun in the obvious way, as a baseline for the plugin: one call per event, one entity per bar.

It draws the same picture as the original Rust sink, in the same way: without timelines or batches, a layer's rounds
fanned out along X.
"""

from __future__ import annotations

import math
from pathlib import Path

import rerun as rr

from proofstream import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    AttentionHeatmap,
    CircuitCompiled,
    GpuStatus,
    LayerActivation,
    LayerEnd,
    LayerKind,
    LayerStart,
    Log,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
)

Point = tuple[float, float, float]

GREEN = (0x00, 0xE6, 0x76)
HEIGHTS = {
    LayerKind.Activation: 1.8,
    LayerKind.LayerNorm: -1.2,
    LayerKind.RMSNorm: -1.2,
    LayerKind.Attention: 3.0,
    LayerKind.Add: 0.8,
    LayerKind.Mul: 1.2,
    LayerKind.Embedding: -2.5,
    LayerKind.Dequantize: -1.8,
    LayerKind.Quantize: -1.8,
}
LEVELS = {"Trace": "TRACE", "Debug": "TRACE", "Info": "INFO", "Warn": "WARN", "Error": "ERROR", "Unknown": "INFO"}


def on_line(layer: int, kind: LayerKind) -> Point:
    return layer * 3.0, HEIGHTS.get(kind, 0.0), 0.0


def on_helix(layer: int, kind: LayerKind | None = None) -> Point:
    lift = HEIGHTS.get(kind, 0.0) if kind is not None else 0.0
    return layer * 3.0, math.sin(layer * 0.9) * 1.8 + lift, math.cos(layer * 0.9) * 1.8


def points(size: float) -> float:
    """Return a radius in screen points, which Rerun encodes as a negative number."""
    return -size


class NaiveRerun:
    """Logs each event as it comes; `close` leaves the file complete."""

    def __init__(self, path: Path) -> None:
        self._rec = rr.RecordingStream("proofstream_naive")
        self._rec.save(path)
        self._by_type = {
            AggregatedBindingEnd: self._binding_end,
            AggregatedBindingStart: self._binding_start,
            AttentionHeatmap: self._attention,
            CircuitCompiled: self._circuit,
            GpuStatus: self._gpu,
            LayerActivation: self._activation,
            LayerEnd: self._layer_end,
            LayerStart: self._layer_start,
            Log: self._log,
            ProofComplete: self._complete,
            ProofStart: self._start,
            StarkProofEnd: self._stark_end,
            StarkProofStart: self._stark_start,
            SumcheckRound: self._round,
            WeightOpeningEnd: self._opening_end,
            WeightOpeningStart: self._opening_start,
        }

    def log(self, event: ProofEvent) -> None:
        if handle := self._by_type.get(type(event)):
            handle(event)

    def close(self) -> None:
        self._rec.flush()
        self._rec.disconnect()

    def _say(self, channel: str, text: str, level: str | None = None) -> None:
        self._rec.log(f"logs/{channel}", rr.TextLog(text, level=level))

    def _number(self, path: str, value: float | None) -> None:
        self._rec.log(path, rr.Scalars(value if value is not None else math.nan))

    def _circuit(self, event: CircuitCompiled) -> None:
        places = {node.layer_idx: on_line(node.layer_idx, node.kind) for node in event.nodes}
        self._rec.log(
            "circuit/nodes",
            rr.Points3D(
                list(places.values()),
                colors=[node.kind.color_rgb for node in event.nodes],
                radii=[points(4.0 + math.sqrt(node.trace_cost) * 0.4) for node in event.nodes],
                labels=[f"{node.kind.value} [{node.layer_idx}]" for node in event.nodes],
            ),
            static=True,
        )
        edges = [
            (places[before], places[node.layer_idx])
            for node in event.nodes
            for before in node.input_layers
            if before in places
        ]
        if edges:
            strips = rr.LineStrips3D(edges, colors=[(0x44, 0x88, 0xCC, 0xAA)], radii=[points(1.2)])
            self._rec.log("circuit/edges", strips, static=True)

    def _start(self, event: ProofStart) -> None:
        places = [on_helix(layer) for layer in range(event.num_layers)]
        self._rec.log(
            "circuit/nodes",
            rr.Points3D(
                places,
                colors=[(72, 74, 92, 200)] * len(places),
                radii=[points(5.0)] * len(places),
                labels=[f"L{layer}" for layer in range(len(places))],
            ),
            static=True,
        )
        rail = rr.LineStrips3D([places], colors=[(60, 62, 90, 120)], radii=[points(1.0)])
        self._rec.log("circuit/backbone", rail, static=True)
        self._number("proof/progress", 0.0)
        self._say(
            "proof",
            f"ProofStart: {event.backend}, {event.num_layers} layers, input={event.input_shape} "
            f"output={event.output_shape}, model={event.model_name}",
        )

    def _activation(self, event: LayerActivation) -> None:
        sample = [value / 0x7FFFFFFF for value in event.output_sample]
        self._rec.log(f"inference/layer_{event.layer_idx}/output", rr.Tensor(sample))
        self._number(f"inference/stats/layer_{event.layer_idx}/mean", event.stats.mean)
        self._number(f"inference/stats/layer_{event.layer_idx}/std", event.stats.std_dev)

    def _attention(self, event: AttentionHeatmap) -> None:
        side = math.isqrt(len(event.scores))
        rows = [event.scores[row * side : (row + 1) * side] for row in range(side)]
        self._rec.log(f"inference/layer_{event.layer_idx}/attn_head_{event.head_idx}", rr.Tensor(rows))

    def _layer_start(self, event: LayerStart) -> None:
        layer, kind = event.layer_idx, event.kind
        x, y, z = on_helix(layer, kind)
        self._rec.log(
            f"gkr/walk/layer_{layer}/node",
            rr.Points3D(
                [(x, y, z)],
                colors=[kind.color_rgb],
                radii=[points(6.0 + math.sqrt(event.trace_cost) * 0.2)],
                labels=[f"{kind.value} [{layer}]"],
            ),
        )
        self._rec.log(
            "gkr/walk/cursor",
            rr.Points3D(
                [(x, y + 0.7, z)],
                colors=[(0x00, 0xE5, 0xFF)],
                radii=[points(6.0)],
                labels=[f"proving {kind.value}..."],
            ),
        )
        self._number("gkr/claim", event.claim_value_approx)
        self._say("gkr", f"-> [{layer}] {kind.value}  claim={event.claim_value_approx}  gpu={event.gpu_device}")

    def _round(self, event: SumcheckRound) -> None:
        layer, claim = event.layer_idx, event.claim_value_approx or 0.0
        self._number(f"gkr/walk/layer_{layer}/claim", claim)
        share = event.round / max(event.total_rounds, 1)
        x, y, z = on_helix(layer)
        x += (share - 0.5) * event.total_rounds * 0.38
        top = y + min(max(abs(claim) * 4.0, 0.1), 4.0)
        self._rec.log(
            f"gkr/walk/layer_{layer}/bar_{event.round}",
            rr.LineStrips3D(
                [[(x, y, z), (x, top, z)], [(x - 0.18, top, z), (x + 0.18, top, z)]],
                colors=[(int(share * 210) + 45, 0x55, int((1 - share) * 210) + 45)],
                radii=[points(2.2)],
            ),
        )
        if event.round == 0 or event.round + 1 == event.total_rounds:
            self._say("gkr", f"  [{layer}] round {event.round + 1}/{event.total_rounds}  claim={claim:.6f}")

    def _layer_end(self, event: LayerEnd) -> None:
        layer = event.layer_idx
        self._rec.log(
            f"gkr/walk/layer_{layer}/node",
            rr.Points3D([on_helix(layer)], colors=[GREEN], radii=[points(6.0)], labels=[event.kind.value]),
        )
        trail = [on_helix(one) for one in range(layer + 1)]
        self._rec.log("gkr/walk/progress_trail", rr.LineStrips3D([trail], colors=[(*GREEN, 0xCC)], radii=[points(2.5)]))
        claim = event.final_claim_value_approx
        self._say("gkr", f"[{layer}] proved {event.kind.value} in {event.duration_ms}ms  claim={claim}")

    def _complete(self, event: ProofComplete) -> None:
        self._number("proof/progress", 1.0)
        away = rr.Points3D([(0.0, -30.0, -30.0)], colors=[(0, 0, 0, 0)], radii=[points(0.1)])
        self._rec.log("gkr/walk/cursor", away)
        mode = event.weight_binding_mode
        self._say("proof", f"PROOF COMPLETE  {event.duration_ms}ms  {event.num_layer_proofs} layers  {mode}")

    def _opening_start(self, event: WeightOpeningStart) -> None:
        self._say("weights", f"WeightOpening node={event.weight_node_id}, eval_dim={event.eval_point_len}")

    def _opening_end(self, event: WeightOpeningEnd) -> None:
        node, took = event.weight_node_id, event.duration_ms
        self._say("weights", f"WeightOpening done node={node}, {took}ms, commit={event.commitment_hex}")

    def _binding_start(self, event: AggregatedBindingStart) -> None:
        self._say("proof", f"AggregatedBinding: {event.num_claims} claims, {event.num_matrices} matrices")

    def _binding_end(self, event: AggregatedBindingEnd) -> None:
        self._number("proof/binding_ms", event.duration_ms)
        felts = event.estimated_calldata_felts
        self._say("proof", f"AggregatedBinding done: {event.duration_ms}ms, ~{felts} felts")

    def _gpu(self, event: GpuStatus) -> None:
        shares = [device.utilization or 0.0 for device in event.devices]
        self._rec.log(
            "gpu/cluster",
            rr.Points3D(
                [(index * 2.0, 0.0, 2.0) for index in range(len(shares))],
                colors=[(int(share * 255), int((1 - share) * 200), 0x40) for share in shares],
                radii=[points(10.0)],
            ),
        )
        for device, share in zip(event.devices, shares, strict=True):
            self._number(f"gpu/device_{device.device_id}/util", share)
            if device.free_memory_bytes is not None:
                self._number(f"gpu/device_{device.device_id}/free_gb", device.free_memory_bytes / 1e9)
        if event.layers_total:
            self._number("proof/progress", event.layers_done / event.layers_total)
        done = f"matmul {event.matmul_done}/{event.matmul_total}, layers {event.layers_done}/{event.layers_total}"
        self._say("proof", f"GPU: {done}")

    def _stark_start(self, event: StarkProofStart) -> None:
        self._say(
            "stark",
            f"StarkProofStart: activations={event.num_activation_layers}, add={event.num_add_layers}, "
            f"layernorm={event.num_layernorm_layers}",
        )

    def _stark_end(self, event: StarkProofEnd) -> None:
        self._say("stark", f"StarkProofEnd: {event.duration_ms}ms")

    def _log(self, event: Log) -> None:
        self._say("proof", event.message, LEVELS[event.level.value])
