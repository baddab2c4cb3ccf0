"""Proves one example, verifies the proof, and reports both as events."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from proofstream import LogLevel, ProofEvent
from proofstream_demo.faults import FailingProver
from proofstream_demo.field import centred
from proofstream_demo.models import Example, digits, transformer
from proofstream_demo.proof import GkrProof, ProofRejected, ProverError
from proofstream_demo.prover import Prover, prove_watched
from proofstream_demo.request import DemoRequest
from proofstream_demo.verifier import verify
from proofstream_demo.walk import VERIFY, Walk

_WORTH_SAYING_S = 0.05
"""Pauses that add up to less than this are not mentioned."""


def demonstrate(
    request: DemoRequest, emit: Callable[[ProofEvent], None], *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Prove the requested model and verify the proof.

    Args:
        request: The model, its sample and the pace.
        emit: Receives the events.
        pause: Waits for a number of seconds between two layers, and for none at all while the weights are committed
            to. If it raises, the proof stays open.
    """
    example = digits(request.sample) if request.model == "digits" else transformer()
    pauses = len(example.model.circuit.layers) - 1
    walk = Walk(example.model, emit, between_layers=lambda: pause(request.pace_s / pauses), listen=lambda: pause(0.0))
    walk.log(f"Proving {example.model.about}.")
    walk.log(f"Its input is {example.question}.")
    prover: Callable[..., Prover] | None = None
    if request.fail is not None:
        walk.log(f"One weight changes in memory, because of fail={request.fail}. This proof must fail.", LogLevel.Warn)
        prover = partial(FailingProver, fail=request.fail)
    try:
        proof = prove_watched(example.model, example.inputs, walk, prover=prover)
    except ProverError as error:
        walk.abort_proof(str(error))
        return
    conclude_proof(walk, example, proof)


def conclude_proof(walk: Walk, example: Example, proof: GkrProof) -> None:
    """Verify a proof, then report it as complete and say what it shows; report a rejected proof as aborted."""
    started = time.perf_counter()
    proving_ms = walk.proving_ms
    try:
        with walk.phase(VERIFY):
            verify(example.model, proof, example.inputs)
    except ProofRejected as rejected:
        walk.abort_proof(f"The proof was rejected: {rejected}.")
        return
    verifying_ms = (time.perf_counter() - started) * 1000
    pauses = f" and {walk.paused_s:.1f} s of pauses for watching" if walk.paused_s >= _WORTH_SAYING_S else ""
    walk.log(f"Proof verified: proved in {proving_ms} ms{pauses}, verified in {verifying_ms:.0f} ms.")
    walk.log(f"Proved: {example.answer(centred(proof.output))}.")
    walk.complete_proof()
