"""A prover in Python, observed in one of several ways: python peer_sides.py SIDE PROOFS URL FOLDER.

Every side walks through the same proofs at the same pace, and is given the same numbers for each round. It prints the
processor time in seconds from the first event on, that of the prover's thread and, until all is delivered, that of the
process, and how many events there were.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from proofstream import LayerKind, RoundPoly, SecureField, open_session

LAYERS, ROUNDS = 281, 8
EVENTS = LAYERS * (ROUNDS + 2) + 2
EVENTS_PER_S = 4_000
SHORTEST_SLEEP_S = 0.01
SHAPE = (1, 5120)
LIMBS = ((1360736372, 1928805144, 1310921551, 894072654), (469161710, 1693304971, 824813528, 565306102)) * 2
"""The coefficients of a round's polynomial, each of four limbs; rounds have the first three."""

Round = Callable[[int, float], object]


class Side(Protocol):
    """One way of observing. A layer's block gives a function to call for each round."""

    def proof(self) -> AbstractContextManager[object]: ...
    def layer(self, index: int) -> AbstractContextManager[Round]: ...
    def close(self) -> None: ...


def text(limbs: tuple[tuple[int, ...], ...]) -> str:
    return ";".join(",".join(map(str, coefficient)) for coefficient in limbs)


class Nothing:
    """A prover that is not observed."""

    @contextmanager
    def proof(self) -> Iterator[None]:
        yield

    @contextmanager
    def layer(self, index: int) -> Iterator[Round]:
        yield lambda _number, _claim: None

    def close(self) -> None:
        pass


class Proofstream:
    """A session with one plugin."""

    def __init__(self, plugin: str, settings: dict[str, object]) -> None:
        self.session = open_session(plugins=[plugin], config={plugin: settings}, source="benchmark")
        self.scope: Any = None

    @contextmanager
    def proof(self) -> Iterator[None]:
        with self.session.proof(model_name="mlp", backend="cpu", num_layers=LAYERS) as self.scope:
            yield

    @contextmanager
    def layer(self, index: int) -> Iterator[Round]:
        with self.scope.layer(
            index, kind=LayerKind.MatMul, input_shape=SHAPE, output_shape=SHAPE, claim_value_approx=0.5
        ) as layer:

            def observe(number: int, claim: float) -> None:
                polynomial = RoundPoly(*(SecureField(*limbs) for limbs in LIMBS[:3]))
                layer.round(number, total_rounds=ROUNDS, poly_deg2=polynomial, claim_value_approx=claim)

            yield observe

    def close(self) -> None:
        report = self.session.close()
        if not report.ok:
            raise SystemExit(f"peers: {report.problems}")


class Spans:
    """A tracer of OpenTelemetry, with the SDK's own exporter."""

    def __init__(self, url: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self.provider = TracerProvider()
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces")))
        self.tracer = self.provider.get_tracer("prover")

    def proof(self) -> AbstractContextManager[object]:
        return self.tracer.start_as_current_span("proof", attributes={"model": "mlp", "layers": LAYERS})

    @contextmanager
    def layer(self, index: int) -> Iterator[Round]:
        attributes = {"index": index, "kind": "MatMul", "in": SHAPE, "out": SHAPE, "claim": 0.5}
        with self.tracer.start_as_current_span("layer MatMul", attributes=attributes) as span:

            def observe(number: int, claim: float) -> None:
                values = {"index": number, "total": ROUNDS, "coefficients": text(LIMBS[:3]), "claim": claim}
                span.add_event("round", values)

            yield observe

    def close(self) -> None:
        self.provider.shutdown()


class Logfire:
    """logfire, which sends nothing to its service here; its spans go to the receiver."""

    def __init__(self, url: str) -> None:
        import logfire
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces"), max_queue_size=100_000)
        self.logfire = logfire.configure(
            send_to_logfire=False,
            console=False,
            metrics=False,
            inspect_arguments=False,
            additional_span_processors=[exporter],
        )

    def proof(self) -> AbstractContextManager[object]:
        return self.logfire.span("proof", model="mlp", layers=LAYERS)

    @contextmanager
    def layer(self, index: int) -> Iterator[Round]:
        with self.logfire.span("layer MatMul", index=index, kind="MatMul", shape_in=SHAPE, shape_out=SHAPE, claim=0.5):

            def observe(number: int, claim: float) -> None:
                self.logfire.info("round", index=number, total=ROUNDS, coefficients=text(LIMBS[:3]), claim=claim)

            yield observe

    def close(self) -> None:
        self.logfire.shutdown()


class AsJson(logging.Formatter):
    """Writes a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = record.__dict__["fields"]
        return json.dumps({"time": record.created, "event": record.msg, **fields})


class Logging:
    """The standard library's logging: a QueueHandler on the prover's thread, and a listener that writes JSON lines."""

    def __init__(self, folder: Path) -> None:
        waiting: queue.SimpleQueue[object] = queue.SimpleQueue()
        file = logging.FileHandler(folder / "logging.jsonl")
        file.setFormatter(AsJson())
        self.listener = logging.handlers.QueueListener(waiting, file)  # type: ignore[arg-type]
        self.logger = logging.getLogger("prover")
        self.logger.setLevel(logging.INFO)
        self.logger.propagate = False
        self.logger.addHandler(logging.handlers.QueueHandler(waiting))  # type: ignore[arg-type]
        self.listener.start()

    @contextmanager
    def proof(self) -> Iterator[None]:
        self.logger.info("proof_start", extra={"fields": {"model": "mlp", "layers": LAYERS}})
        yield
        self.logger.info("proof_end", extra={"fields": {}})

    @contextmanager
    def layer(self, index: int) -> Iterator[Round]:
        fields = {"index": index, "kind": "MatMul", "in": SHAPE, "out": SHAPE, "claim": 0.5}
        self.logger.info("layer_start", extra={"fields": fields})

        def observe(number: int, claim: float) -> None:
            round_ = {"layer": index, "index": number, "total": ROUNDS, "coefficients": LIMBS[:3], "claim": claim}
            self.logger.info("round", extra={"fields": round_})

        yield observe
        self.logger.info("layer_end", extra={"fields": {"index": index}})

    def close(self) -> None:
        self.listener.stop()


class NaiveRerun:
    """A call of Rerun's SDK for each event, as in the original sink (rerun_naive.py)."""

    def __init__(self, folder: Path) -> None:
        import rerun_naive

        from proofstream import events

        self.events = events
        self.sink = rerun_naive.NaiveRerun(folder / "naive.rrd")

    @contextmanager
    def proof(self) -> Iterator[None]:
        start = self.events.ProofStart(
            model_name="mlp", backend="cpu", num_layers=LAYERS, input_shape=SHAPE, output_shape=SHAPE
        )
        self.sink.log(start)
        yield
        end = self.events.ProofComplete(
            duration_ms=1, num_layer_proofs=LAYERS, num_weight_openings=0, weight_binding_mode="none"
        )
        self.sink.log(end)

    @contextmanager
    def layer(self, index: int) -> Iterator[Round]:
        events = self.events
        start = events.LayerStart(
            layer_idx=index,
            kind=LayerKind.MatMul,
            input_shape=SHAPE,
            output_shape=SHAPE,
            trace_cost=0,
            claim_value_approx=0.5,
        )
        self.sink.log(start)

        def observe(number: int, claim: float) -> None:
            polynomial = RoundPoly(*(SecureField(*limbs) for limbs in LIMBS[:3]))
            self.sink.log(
                events.SumcheckRound(
                    layer_idx=index,
                    round=number,
                    total_rounds=ROUNDS,
                    poly_deg2=polynomial,
                    poly_deg3=None,
                    claim_value_approx=claim,
                )
            )

        yield observe
        end = events.LayerEnd(
            layer_idx=index,
            kind=events.LayerProofKind.Sumcheck,
            final_claim_value_approx=0.5,
            duration_ms=1,
            rounds_completed=ROUNDS,
        )
        self.sink.log(end)

    def close(self) -> None:
        self.sink.close()


def opened(name: str, url: str, folder: Path) -> Side:
    """Return a side by its name."""
    makers: dict[str, Callable[[], Side]] = {
        "nothing": Nothing,
        "proofstream-otel": lambda: Proofstream("otel", {"endpoint": url}),
        "proofstream-record": lambda: Proofstream("record", {"path": str(folder / "ours.jsonl")}),
        "proofstream-rerun": lambda: Proofstream("rerun", {"connections": [f"file:{folder / 'ours.rrd'}"]}),
        "sdk": lambda: Spans(url),
        "logfire": lambda: Logfire(url),
        "logging": lambda: Logging(folder),
        "rerun": lambda: NaiveRerun(folder),
    }
    return makers[name]()


def walk(side: Side, paced: Callable[[int], None]) -> None:
    """Prove once."""
    with side.proof():
        for index in range(LAYERS):
            with side.layer(index) as observe:
                for number in range(ROUNDS):
                    observe(number, 0.7 + number / 100)
            paced((index + 1) * (ROUNDS + 2))


def main() -> None:
    name, proofs, url, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    side = opened(name, url, folder)
    time.sleep(0.5)  # until plugins and threads are ready: what is measured is the prover's thread at work
    thread_s, process_s, start = time.thread_time(), time.process_time(), time.perf_counter()

    for number in range(proofs):

        def paced(done: int, before: int = number * EVENTS) -> None:
            ahead_s = start + (before + done) / EVENTS_PER_S - time.perf_counter()
            if ahead_s > SHORTEST_SLEEP_S:
                time.sleep(ahead_s)

        walk(side, paced)
    thread_s = time.thread_time() - thread_s
    side.close()
    process_s = time.process_time() - process_s
    print(json.dumps({"thread_s": thread_s, "process_s": process_s, "events": EVENTS * proofs}))


main()
