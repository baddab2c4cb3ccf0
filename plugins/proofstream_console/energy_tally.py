"""The energy of the proofs that have ended, and what that figure rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofstream import GpuEnergy
from proofstream_console.formats import MAX_NAMED, clip


@dataclass(slots=True)
class EnergyTally:
    """Sums over proofs.

    Attributes:
        joules: Of the proofs whose energy is known, or known in part.
        proofs: How many those are.
        unknown: How many others ended while GPUs were measured.
        sources: How the figures came to be; see `GpuEnergy.source`.
        devices: The GPUs in the sum, by id.
        missing: The GPUs that are not in it, or not all the time.
        is_of_all: Whether it is not known of some proof which GPUs it uses, so that all of them count.
        is_shared: Whether proofs ran at once on one GPU.
    """

    joules: float = 0.0
    proofs: int = 0
    unknown: int = 0
    sources: set[str] = field(default_factory=set[str])
    devices: dict[str, None] = field(default_factory=dict[str, None])
    missing: dict[str, None] = field(default_factory=dict[str, None])
    is_of_all: bool = False
    is_shared: bool = False

    def add_proof(self, energy: GpuEnergy | None) -> None:
        """Add a proof that has ended while GPUs were measured."""
        if energy is not None:
            _keep(self.missing, energy.missing)
        if energy is None or energy.joules is None or energy.source is None:
            self.unknown += 1
            return
        self.proofs += 1
        self.joules += energy.joules
        self.sources.add(energy.source)
        _keep(self.devices, energy.devices)
        self.is_of_all |= energy.chosen_by == "all"
        self.is_shared |= energy.shared


def _keep(names: dict[str, None], more: tuple[str, ...]) -> None:
    for name in map(clip, more):
        if len(names) < MAX_NAMED:
            names[name] = None
