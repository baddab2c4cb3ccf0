"""The demonstration: proves one example, verifies the proof, and tells both as events."""

from __future__ import annotations

import time
from collections.abc import Callable

from proofstream import ProofEvent
from proofstream_demo.field import centred
from proofstream_demo.models import Example, digits, transformer
from proofstream_demo.proof import Proof, ProofRejected
from proofstream_demo.prover import prove_watched
from proofstream_demo.request import DemoRequest
from proofstream_demo.verifier import verify
from proofstream_demo.walk import Walk

_WORTH_SAYING_S = 0.05
"""Pauses that are shorter in all go without saying."""


def demonstrate(
    request: DemoRequest, emit: Callable[[ProofEvent], None], *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Prove and verify what was asked for.

    Args:
        request: Which model, how slowly.
        emit: Where events go.
        pause: Waits so many seconds between two layers. What it raises ends the walk with the proof open.
    """
    example = digits(request.sample) if request.model == "digits" else transformer()
    pauses = len(example.model.circuit.layers) - 1
    walk = Walk(example.model, emit, between_layers=lambda: pause(request.pace_s / pauses))
    walk.log(f"Proving {example.model.about}.")
    walk.log(f"Its input is {example.question}.")
    conclude(walk, example, prove_watched(example.model, example.inputs, walk))


def conclude(walk: Walk, example: Example, proof: Proof) -> None:
    """Verify a proof before it is called complete, and say what it shows."""
    started = time.perf_counter()
    proving_ms = walk.proving_ms
    try:
        verify(example.model, proof, example.inputs)
    except ProofRejected as rejected:
        walk.abort(f"The proof was rejected: {rejected}.")
        return
    verifying_ms = (time.perf_counter() - started) * 1000
    pauses = f" and {walk.paused_s:.1f} s of pauses for watching" if walk.paused_s >= _WORTH_SAYING_S else ""
    walk.log(f"Proof verified: proved in {proving_ms} ms{pauses}, verified in {verifying_ms:.0f} ms.")
    walk.log(f"Proved: {example.answer(centred(proof.output))}.")
    walk.complete()
