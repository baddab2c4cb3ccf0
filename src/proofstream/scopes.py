"""Turns ``with`` blocks of a producer into the events of proofs, layers and phases."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import time
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple, TypeAlias

from proofstream.errors import describe
from proofstream.events import (
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    PhaseEnd,
    PhaseProgress,
    PhaseStart,
    ProofComplete,
    ProofEvent,
    RoundPoly,
    RoundPolyDeg3,
    SumcheckRound,
)
from proofstream.trace_ids import TraceNote

Emit: TypeAlias = Callable[[ProofEvent], None]
"""Sends an event of one job."""

Attribute: TypeAlias = str | bool | int | float | None
"""What a phase may say of itself, as the value of a name."""


class Place(NamedTuple):
    """Where in a producer's blocks the code is that runs now.

    Attributes:
        session_id: The session.
        job_id: The job that all events of the block carry.
        in_proof: Whether the block is a proof's.
        phase: The number of the innermost phase, or None.
        emit: Sends an event of the job.
    """

    session_id: str
    job_id: str
    in_proof: bool
    phase: int | None
    emit: Emit


class _Standing:
    """A block that code runs in.

    Blocks may be left in any order, and in another context than they were entered in: a generator's block, for example.
    So each knows whether it was left, and contexts pass over those that were.
    """

    __slots__ = ("around", "left", "place")

    def __init__(self, place: Place, around: _Standing | None) -> None:
        self.place = place
        self.around = around
        self.left = False


_here: contextvars.ContextVar[_Standing | None] = contextvars.ContextVar("proofstream_place", default=None)
_numbers = itertools.count(1)

_NO_PHASE = 0
"""The parent of a phase that is in no other one. Without a parent, it would count as part of another thread's phase."""


def place_in(session_id: str) -> Place | None:
    """Return where in a session's blocks the calling code is; None if it is in none of them.

    Tasks begin where they were created, threads begin outside of all blocks.
    """
    here = _here.get()
    while here is not None and (here.left or here.place.session_id != session_id):
        here = here.around
    return None if here is None else here.place


@contextlib.contextmanager
def standing(place: Place) -> Generator[None]:
    """Let code run in a place for the length of a ``with`` block."""
    here = _Standing(place, _innermost())
    _here.set(here)
    try:
        yield
    finally:
        here.left = True
        _here.set(_innermost())


def _innermost() -> _Standing | None:
    """Return the innermost block that the calling code is in, with only those around it that were not left, either.

    Without the others, the blocks that a context holds are as many as are open, however many came and went.
    """
    innermost = block = _not_left(_here.get())
    while block is not None:
        block.around = _not_left(block.around)
        block = block.around
    return innermost


def _not_left(block: _Standing | None) -> _Standing | None:
    while block is not None and block.left:
        block = block.around
    return block


class PhaseScope:
    """A phase, for the length of a ``with`` block.

    Attributes:
        number: Its number, unique in the process.
    """

    def __init__(self, place: Place, number: int) -> None:
        self.number: int = number
        self._place = place

    def progress(self, done: int, total: int | None = None) -> None:
        """Say how far it has come: `done` of `total`, in a unit of your own; `total` is None if it is not known."""
        self._place.emit(PhaseProgress(phase=self.number, done=done, total=total))

    def phase(self, name: str, **attributes: Attribute) -> contextlib.AbstractContextManager[PhaseScope]:
        """Open a phase inside this one; as `Session.phase`."""
        return open_phase(self._place, name, attributes, parent=self.number)


@contextlib.contextmanager
def open_phase(
    place: Place,
    name: str,
    attributes: Mapping[str, Attribute],
    *,
    parent: int | None = None,
    layer_idx: int | None = None,
) -> Generator[PhaseScope]:
    """Open a phase in a place. An exception inside ends it as failed and propagates."""
    number = next(_numbers)
    around = place_in(place.session_id)
    if parent is None and around is not None and around.job_id == place.job_id:
        parent = around.phase
    parent = _NO_PHASE if parent is None else parent
    place.emit(PhaseStart(name=name, phase=number, parent=parent, layer_idx=layer_idx, attributes=attributes))
    started = time.monotonic_ns()
    failed: str | None = None
    try:
        with standing(place._replace(phase=number)):
            yield PhaseScope(place, number)
    except BaseException as error:
        failed = describe(error)
        raise
    finally:
        place.emit(PhaseEnd(name=name, phase=number, duration_ns=time.monotonic_ns() - started, failed=failed))


class ProofScope:
    """A proof, for the length of a ``with`` block. Its events carry the proof's job id.

    Attributes:
        job_id: The job id, by which proofs that run at once are told apart.
        emit: Send another event as part of this proof, as `Session.emit` does outside of it.
        has_ended: Whether the block was left.
        trace_note: Where plugins tell in which trace the proof is.
    """

    def __init__(self, place: Place, report_misuse: Callable[[str], None]) -> None:
        self.job_id: str = place.job_id
        self.emit: Emit = place.emit
        self.has_ended: bool = False
        self.trace_note: TraceNote = TraceNote()
        self._report_misuse = report_misuse
        self._place = place
        self._started = time.monotonic()
        self._layers_proved = 0
        self._weight_openings = 0
        self._binding_mode = "none"

    @property
    def trace_id(self) -> str | None:
        """The id of the proof's trace, 32 hex digits; None until a plugin has begun it, as after `Session.flush`."""
        return self.trace_note.trace_id

    @property
    def trace_url(self) -> str | None:
        """Where the proof's trace can be seen; None as long as no plugin has said that."""
        return self.trace_note.url

    def layer(
        self,
        layer_idx: int,
        *,
        kind: LayerKind,
        input_shape: tuple[int, int] = (0, 0),
        output_shape: tuple[int, int] = (0, 0),
        trace_cost: int = 0,
        claim_value_approx: float | None = None,
        gpu_device: int | None = None,
        proof_kind: LayerProofKind = LayerProofKind.Sumcheck,
    ) -> contextlib.AbstractContextManager[LayerScope]:
        """Emit one layer's reduction for the length of a ``with`` block; the arguments are the fields of LayerStart.

        An exception inside propagates, and leaves the layer without an end.
        """
        start = LayerStart(
            layer_idx=layer_idx,
            kind=kind,
            input_shape=input_shape,
            output_shape=output_shape,
            trace_cost=trace_cost,
            claim_value_approx=claim_value_approx,
            gpu_device=gpu_device,
        )
        return self._layer(start, proof_kind)

    @contextlib.contextmanager
    def _layer(self, start: LayerStart, proof_kind: LayerProofKind) -> Generator[LayerScope]:
        if self.has_ended:
            self._report_misuse("a layer begins after the block of its proof was left, and is no part of the proof")
        scope = LayerScope(self._place, start.layer_idx, proof_kind)
        self.emit(start)
        yield scope
        self._layers_proved += 1
        self.emit(scope.completion())

    def phase(self, name: str, **attributes: Attribute) -> contextlib.AbstractContextManager[PhaseScope]:
        """Open a phase inside the proof; as `Session.phase`."""
        return open_phase(self._place, name, attributes)

    def bound_weights(self, *, mode: str, num_openings: int) -> None:
        """Record how the weights were bound, for ProofComplete."""
        self._binding_mode = mode
        self._weight_openings = num_openings

    def completion(self) -> ProofComplete:
        """Return the event that ends the proof successfully."""
        return ProofComplete(
            duration_ms=_elapsed_ms(self._started),
            num_layer_proofs=self._layers_proved,
            num_weight_openings=self._weight_openings,
            weight_binding_mode=self._binding_mode,
        )


class LayerScope:
    """A layer, for the length of a ``with`` block."""

    def __init__(self, place: Place, layer_idx: int, proof_kind: LayerProofKind) -> None:
        self._place = place
        self._emit = place.emit
        self._layer_idx = layer_idx
        self._started = time.monotonic()
        self._rounds = 0
        self._claim: float | None = None
        self.proof_kind = proof_kind

    def round(
        self,
        index: int,
        *,
        total_rounds: int,
        poly_deg2: RoundPoly | None = None,
        poly_deg3: RoundPolyDeg3 | None = None,
        claim_value_approx: float | None = None,
    ) -> None:
        """Emit one sumcheck round; the arguments are the fields of SumcheckRound, `index` counts from 0."""
        self._rounds += 1
        self._claim = claim_value_approx
        self._emit(
            SumcheckRound(
                layer_idx=self._layer_idx,
                round=index,
                total_rounds=total_rounds,
                poly_deg2=poly_deg2,
                poly_deg3=poly_deg3,
                claim_value_approx=claim_value_approx,
            )
        )

    def phase(self, name: str, **attributes: Attribute) -> contextlib.AbstractContextManager[PhaseScope]:
        """Open a phase inside the layer; as `Session.phase`."""
        return open_phase(self._place, name, attributes, layer_idx=self._layer_idx)

    def completion(self) -> LayerEnd:
        """Return the event that ends the layer."""
        return LayerEnd(
            layer_idx=self._layer_idx,
            kind=self.proof_kind,
            final_claim_value_approx=self._claim,
            duration_ms=_elapsed_ms(self._started),
            rounds_completed=self._rounds,
        )


def _elapsed_ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
