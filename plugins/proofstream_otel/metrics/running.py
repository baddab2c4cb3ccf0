"""A proof that runs, as gauges: how far it is, and for how long it has been silent in which part of its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proofstream import Phase, Proof
from proofstream_otel.metrics.label_values import OTHER, Key, Labels
from proofstream_otel.metrics.meter import Reading
from proofstream_otel.values.semconv import Label, Metric, Metrics


class Stage:
    """The parts of a proof's work. In each, silence means something else."""

    BEFORE_LAYERS = "before_layers"
    """No layer has begun: the forward pass is silent for long."""
    LAYERS = "layers"
    """A layer, opening, binding or STARK proof is open: provers report on those often."""
    BETWEEN_LAYERS = "between_layers"
    """Nothing is open, and announced layers are missing. Some are never proved, so it may be the work after them."""
    AFTER_LAYERS = "after_layers"
    """All layers have been left: commitments are silent for most of a proof."""
    ALL = (BEFORE_LAYERS, LAYERS, BETWEEN_LAYERS, AFTER_LAYERS)


def stage_of(proof: Proof) -> str:
    """Return which part of its work a running proof is in."""
    if proof.stage != Stage.LAYERS:
        return proof.stage or Stage.BEFORE_LAYERS
    has_part = any(not isinstance(part, Phase) for part in proof.open_children)
    return Stage.LAYERS if proof.active_layers or has_part else Stage.BETWEEN_LAYERS


class RunningProof:
    """An open proof.

    Args:
        proof: The proof.
        slot: Its number among the proofs that run.
        held: Its labels, which stay live as long as it is open.
        now: The time of a monotonic clock in seconds.
        admit: Returns the key of a series.

    Attributes:
        proof: The proof.
        slot: Its number.
        held: Its labels.
        labels: The labels of model and backend alone.
    """

    def __init__(self, proof: Proof, slot: int, held: Labels, now: float, admit: Callable[[Labels], Key]) -> None:
        self.proof = proof
        self.slot = slot
        self.held = held
        self.labels = {Label.MODEL: held[Label.MODEL], Label.BACKEND: held[Label.BACKEND]}
        self._began_at = now
        self._heard_at = now
        # Kept, because a reading may come from another thread, while events change the proof.
        self._stage = stage_of(proof)
        self._longest_s: dict[str, float] = {}
        self._admit = admit
        self._keys: dict[tuple[str, str | None], Key] = {}

    def key_of_layer(self, kind: str, proof_kind: str | None) -> Key:
        """Return the key of a series for its layers of a kind, whose end event names the kind of their proof or not."""
        key = self._keys.get((kind, proof_kind))
        if key is None:
            said = {} if proof_kind is None else {Label.PROOF_KIND: proof_kind}
            key = self._keys[kind, proof_kind] = self._admit({**self.labels, Label.LAYER_KIND: kind, **said})
        return key

    def hear(self, now: float) -> None:
        """Note that a silence is over. It was in the stage that `settle` saw after the event before."""
        self._longest_s[self._stage] = max(self._longest_s.get(self._stage, 0.0), now - self._heard_at)
        self._heard_at = now

    def settle(self) -> None:
        """Note which stage it is in, after the events of a batch."""
        self._stage = stage_of(self.proof)

    @property
    def longest_silences_s(self) -> Mapping[str, float]:
        """Its longest silence in each stage so far, in seconds."""
        return self._longest_s

    def gauges(self, clock: Callable[[], float]) -> list[tuple[Metric, Labels, Reading]]:
        """Return its series while it runs. A reading is called at collection, maybe by another thread."""
        proof, labels = self.proof, self.held
        if labels[Label.SLOT] == OTHER:
            return []  # too many proofs are open; several in one series would contradict each other
        return [
            (Metrics.PROOF_PROGRESS, labels, lambda: proof.progress),
            (Metrics.PROOF_LAYERS_TOTAL, labels, lambda: proof.num_layers),
            (Metrics.PROOF_LAYERS_CLOSED, labels, lambda: proof.layers_left_behind),
            (Metrics.PROOF_ELAPSED, labels, lambda: clock() - self._began_at),
            *(
                (Metrics.PROOF_SILENCE, {**labels, Label.PHASE: stage}, self._silence(stage, clock))
                for stage in Stage.ALL
            ),
        ]

    def _silence(self, stage: str, clock: Callable[[], float]) -> Reading:
        return lambda: clock() - self._heard_at if stage == self._stage else None
