"""Small stories for the tests of timelines: events with few arguments, and a teller that keeps their effect."""

from __future__ import annotations

from proofstream import events as ev
from proofstream.envelopes import PRODUCER, Envelope
from proofstream.intervals import Change, Closed, Interval, Noted, Opened, Phase, Proof
from proofstream.timelines import Timelines

MS = 1_000_000
BEGIN = 1_700_000_000_000_000_000


class Teller:
    """Tells a story to the timeline, one event a millisecond unless told otherwise, and keeps what comes out."""

    def __init__(self) -> None:
        self.timelines = Timelines()
        self.now = BEGIN
        self.changes: list[Change] = []
        self.told = 0

    def tell(
        self,
        *events: ev.ProofEvent,
        job_id: str | None = None,
        session_id: str = "s",
        step: int = MS,
        raw: bytes = b"{}",
        origin: str = PRODUCER,
        parent_job_id: str | None = None,
        time_source: str | None = None,
    ) -> None:
        for event in events:
            self.now += step
            self.changes += self.timelines.feed(
                Envelope(
                    seq=self.told,
                    time_unix_nano=self.now,
                    session_id=session_id,
                    origin=origin,
                    event=event,
                    raw=raw,
                    job_id=job_id,
                    parent_job_id=parent_job_id,
                    time_source=time_source,
                )
            )
            self.told += 1

    @property
    def closed(self) -> list[Interval]:
        return [change.interval for change in self.changes if isinstance(change, Closed)]

    @property
    def proofs(self) -> list[Proof]:
        opened = [change.interval for change in self.changes if isinstance(change, Opened)]
        return [interval for interval in opened if isinstance(interval, Proof)]

    @property
    def phases(self) -> list[Phase]:
        opened = [change.interval for change in self.changes if isinstance(change, Opened)]
        return [interval for interval in opened if isinstance(interval, Phase)]

    def phase(self, name: str) -> Phase:
        (found,) = [phase for phase in self.phases if phase.own_name == name]
        return found

    def layer(self, key: int) -> Interval:
        found = [i for c in self.changes if isinstance(c, Opened) for i in [c.interval] if i.key == key]
        return found[-1]

    def home_of(self, event: ev.ProofEvent) -> Interval | None:
        (note,) = [c for c in self.changes if isinstance(c, Noted) and c.envelope.event is event]
        return note.interval


def proof_start(num_layers: int = 4) -> ev.ProofStart:
    return ev.ProofStart(
        model_name=None, backend="cpu-gkr", num_layers=num_layers, input_shape=(1, 1), output_shape=(1, 1)
    )


def proof_complete(duration_ms: int = 0, layers: int = 0) -> ev.ProofComplete:
    return ev.ProofComplete(
        duration_ms=duration_ms, num_layer_proofs=layers, num_weight_openings=0, weight_binding_mode="sequential"
    )


def layer_start(index: int, gpu: int | None = None) -> ev.LayerStart:
    return ev.LayerStart(
        layer_idx=index,
        kind=ev.LayerKind.MatMul,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=0.5,
        gpu_device=gpu,
    )


def layer_end(index: int, duration_ms: int = 0) -> ev.LayerEnd:
    return ev.LayerEnd(
        layer_idx=index,
        kind=ev.LayerProofKind.Sumcheck,
        final_claim_value_approx=0.5,
        duration_ms=duration_ms,
        rounds_completed=0,
    )


def sumcheck_round(index: int) -> ev.SumcheckRound:
    return ev.SumcheckRound(
        layer_idx=index, round=0, total_rounds=1, poly_deg2=None, poly_deg3=None, claim_value_approx=0.5
    )


def activation(index: int = 0) -> ev.LayerActivation:
    stats = ev.ActivationStats(mean=None, std_dev=None, min=None, max=None, sparsity=None)
    return ev.LayerActivation(
        layer_idx=index, node_id=index, kind=ev.LayerKind.MatMul, output_shape=(1, 1), output_sample=[], stats=stats
    )


def log(message: str = "hello", level: ev.LogLevel = ev.LogLevel.Info) -> ev.Log:
    return ev.Log(level=level, message=message)


def session_closed(outcome: str = "ended", reason: str | None = None) -> ev.SessionClosed:
    return ev.SessionClosed(outcome=outcome, reason=reason, refused=0)


def session_opened() -> ev.SessionOpened:
    return ev.SessionOpened(source="test", time_source="arrival", traceparent=None, resource={})
