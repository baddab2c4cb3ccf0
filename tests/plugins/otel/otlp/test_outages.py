"""A receiver that is away costs nothing while the queue has room, and what it says is harmless."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]  # it ships no types
import pytest

from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin, environment
from proofstream_otel.environment import Batching
from proofstream_otel.otlp import exporter
from proofstream_otel.otlp.endpoints import open_transport
from proofstream_otel.otlp.item_queue import Item, ItemQueue
from proofstream_otel.otlp.resources import Resources
from proofstream_otel.otlp.transport import Reply
from proofstream_otel.values.signals import TRACES

EVIL = "\x1b]52;c;cHdu\x07\x1b[2J\x9b31m\u202e\u2066\u2028\r"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go out at once, and are retried soon."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.02)
    monkeypatch.setattr(exporter, "_LONGEST_BACKOFF_S", 0.05)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """All messages."""
    return [record.getMessage() for record in caplog.records]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("signal", ["spans", "metric_points", "logs"])
def test_no_outage_is_too_long_while_there_is_room(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, signal: str
) -> None:
    for prefix in ("OTEL_BSP_", "OTEL_BLRP_"):  # a limit for one attempt, not for what is sent
        monkeypatch.setenv(f"{prefix}EXPORT_TIMEOUT", "50")
    receiver.answers, receiver.others = [kit.Answer(status=503)], kit.Answer(status=503)
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "rounds": "both", "metric_interval_s": 0.1})
    for part in range(5):
        host.feed(envelopes(kit.small_proof(), session_id=str(part)))
        time.sleep(0.1)
    kit.wait_until(lambda: min(len(receiver.paths), len(receiver.other_paths)) > 15)
    receiver.answers, receiver.others = [kit.Answer()], kit.Answer()
    host.close()
    health = host.health()
    assert health[f"{signal}_exported"] == {"spans": 15, "logs": 10}.get(signal, len(receiver.points))
    assert (health["lost_spans"], health["lost_metrics"], health["lost_logs"]) == (0, 0, 0)
    assert len({span.span_id for span in receiver.spans}) == 15
    assert len({point.time_unix_nano for point in receiver.points if point.kind == "gauge"}) > 2


def test_at_the_end_the_pauses_are_shortened_and_the_last_attempt_is_made(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 60.0)
    receiver.answers = [kit.Answer(status=503, headers={"Retry-After": "3600"})] * 2 + [kit.Answer()]
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metrics": False, "logs": False})
    host.feed(envelopes(kit.small_proof()))
    kit.wait_until(lambda: len(receiver.paths) == 1)
    time.sleep(0.1)
    assert len(receiver.paths) == 1
    host.close(2.0)
    assert (host.health()["spans_exported"], host.health()["lost_spans"]) == (3, 0)
    assert len(receiver.paths) == 3


@pytest.mark.usefixtures("quick")
def test_from_a_full_queue_the_oldest_go_and_are_counted(
    kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "PATIENCE_S", 0.1)
    receiver.answers = [kit.Answer(status=503)]
    settings = {"endpoint": receiver.url, "max_queue_bytes": 2**20, "metrics": False, "logs": False}
    host = InlineHost(OtelPlugin(), settings)
    for part in range(8):
        host.feed(kit.stream("smollm2-135m-cpu", session_id=f"session-{part}"))
    # One request may have been under way when the last spans went. If the receiver took that one, it would get spans
    # whose parents are gone. The second request from now was made later.
    seen = len(receiver.paths)
    kit.wait_until(lambda: len(receiver.paths) >= seen + 2)
    receiver.answers = [kit.Answer()]
    host.close()
    health = host.health()
    assert health["lost_spans"] > 0
    assert health["spans_exported"] + health["lost_spans"] == 8 * 214
    arrived = {span.span_id for span in receiver.spans}
    assert len(arrived) == health["spans_exported"]
    assert all(span.parent_span_id in arrived for span in receiver.spans if span.parent_span_id)
    sessions = {span.attributes.get("proofstream.session.id") for span in receiver.spans}
    assert "session-7" in sessions
    assert "session-0" not in sessions
    why = "takes nothing, and its queue is full (1048576 bytes, otel.max_queue_bytes): the oldest spans go first"
    assert [text for text in said(caplog) if "takes nothing" in text] == [
        f"traces are being lost: {receiver.url}/v1/traces {why}"
    ]


class LateFailure:
    """A transport whose first attempt fails when it is told to, and that accepts everything after it."""

    shown = "receiver"

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.has_begun = threading.Event()
        self.may_fail = threading.Event()

    def post(self, body: bytes, timeout_s: float) -> Reply:
        self.bodies.append(body)
        if len(self.bodies) > 1:
            return Reply(accepted=True)
        self.has_begun.set()
        assert self.may_fail.wait(timeout_s)
        return Reply(accepted=False, reason="HTTP 503", retryable=True)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.usefixtures("quick")
def test_at_the_end_too_a_failed_request_gives_way_if_younger_spans_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    transport = LateFailure()
    batching = Batching(max_queue_items=2, delay_s=0.0)
    log = logging.getLogger("proofstream.plugin.otel")
    sender = exporter.Exporter(transport, Resources({}), batching=batching, progress=lambda: None, log=log)
    sender.queue_item((), b"child")
    assert transport.has_begun.wait(10)
    for name in (b"parent", b"younger", b"youngest"):
        sender.queue_item((), name, patient=False)
    sender.begin_closing(10.0)
    transport.may_fail.set()
    sender.close(10.0)
    taken = b"".join(transport.bodies[1:])
    assert [name in taken for name in (b"child", b"parent", b"younger", b"youngest")] == [False, False, True, True]
    assert sender.counters() == {"spans_exported": 2, "lost_spans": 2, "export_failures": 1}


@pytest.mark.usefixtures("quick")
def test_from_a_full_queue_of_metrics_the_oldest_collections_go(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(*_: Any) -> Batching:
        return Batching(max_queue_bytes=20_000, delay_s=0.01, max_request_bytes=2000)

    monkeypatch.setattr(environment, "batching_of", small)
    receiver.others = kit.Answer(status=503)
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metric_interval_s": 0.1, "logs": False})
    host.feed(envelopes(kit.small_proof(), close=False))
    for _ in range(30):
        time.sleep(0.1)
        host.tick()
    receiver.others = kit.Answer()
    host.close()
    health = host.health()
    assert health["lost_metrics"] > 0
    assert health["metric_points_exported"] == len(receiver.points)
    newest = max(point.time_unix_nano for point in receiver.points)
    assert newest > time.time_ns() - 5 * 10**9
    assert kit.values_of(receiver.points, "proofstream.proofs")["cpu-gkr", "mlp", "complete"] == 1


@pytest.mark.usefixtures("quick")
def test_a_request_that_is_never_answered_does_not_hold_up_all_others_for_ever(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
    monkeypatch.setattr(exporter, "PATIENCE_S", 0.05)

    def poisoned(path: str, headers: Any, body: bytes) -> Any:
        receiver.paths.append(path)
        spans = kit.read_request(body)
        if any(span.attributes.get("proofstream.proof.model") == "poison" for span in spans):
            return kit.Answer(status=503)
        receiver.spans.extend(spans)
        return kit.Answer()

    monkeypatch.setattr(receiver, "take", poisoned)
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metrics": False, "logs": False})
    host.feed(envelopes([kit.proof_start(model_name="poison"), kit.proof_complete()], session_id="a"))
    for part in range(20):
        host.feed(envelopes([kit.proof_start(), kit.proof_complete()], session_id=str(part)))
        time.sleep(0.02)
    kit.wait_until(lambda: host.health()["spans_exported"] > 0)
    host.close()
    health = host.health()
    assert health["spans_exported"] + health["lost_spans"] == 42


class TestRetryAfter:
    """A receiver's wish never shortens our own back-off, and cannot stop us."""

    @pytest.mark.parametrize(
        "value",
        ["0", "-5", "nan", "1e999", "-inf", "soon", "", "0, 0", "Wed, 21 Oct 2015 07:28:00 GMT", "1 Jan 99999999", "é"],
    )
    def test_zero_and_garbage(self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.2)
        receiver.answers = [kit.Answer(status=503, headers={"Retry-After": value})]
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metrics": False, "logs": False})
        host.feed(envelopes(kit.small_proof()))
        time.sleep(1.0)
        requests = len(receiver.paths)
        receiver.answers = [kit.Answer()]
        host.close(2.0)
        assert 2 <= requests <= 4
        assert host.health()["lost_spans"] == 0

    @pytest.mark.parametrize("value", ["86400", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
    def test_a_huge_one_is_capped(self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.05)
        monkeypatch.setattr(exporter, "_LONGEST_ASKED_S", 0.2)
        receiver.answers = [kit.Answer(status=429, headers={"Retry-After": value}), kit.Answer()]
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metrics": False, "logs": False})
        began = time.monotonic()
        host.feed(envelopes(kit.small_proof()))
        kit.wait_until(lambda: host.health()["spans_exported"] == 3)
        assert time.monotonic() - began >= 0.2
        host.close()

    def test_pauses_are_spread(self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        pauses: list[float] = []

        def no_pause(_: Any, wait_s: float) -> bool:
            pauses.append(wait_s)
            return True

        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        monkeypatch.setattr(exporter.Exporter, "_pause", no_pause)
        receiver.answers = [kit.Answer(status=503, headers={"Retry-After": "20"})] * 20 + [kit.Answer()]
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metrics": False, "logs": False})
        host.feed(envelopes(kit.small_proof()))
        kit.wait_until(lambda: host.health()["spans_exported"] == 3)
        host.close()
        assert len(set(pauses)) == len(pauses) == 20
        assert min(pauses) >= 20
        assert max(pauses) <= 24


class TestWhatReceiversWrite:
    """No control of a receiver reaches a log."""

    def assert_harmless(self, caplog: pytest.LogCaptureFixture, part: str) -> None:
        """Every message is one printable line, and one of them has the receiver's text in it."""
        assert [text for text in said(caplog) if not text.isprintable()] == []
        assert [text for text in said(caplog) if part in text]

    @pytest.mark.usefixtures("quick")
    def test_a_partial_success(self, kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
        receiver.answers = [kit.Answer(rejected=1, message="bad" + EVIL)]
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
        host.feed(envelopes(kit.small_proof()))
        host.close()
        self.assert_harmless(caplog, "bad\N{SYMBOL FOR ESCAPE}]52")

    @pytest.mark.parametrize("start", ["HTTP/1.1 400 bad\x1b]52;c;cHdu\x07\x9b31m", "bad\x1b[2J\x9b31m"])
    def test_the_first_line(self, start: str, caplog: pytest.LogCaptureFixture) -> None:
        with answering(start.encode("latin-1") + b"\r\nContent-Length: 0\r\n\r\n") as url:
            host = InlineHost(OtelPlugin(), {"endpoint": url, "metrics": False, "logs": False})
            host.feed(envelopes([]))
            host.close(1.0)
        self.assert_harmless(caplog, "\N{SYMBOL FOR ESCAPE}")

    def test_details_of_grpc(self, kit: Any, caplog: pytest.LogCaptureFixture) -> None:
        def refuse(_body: bytes, context: Any) -> bytes:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bad" + EVIL)
            return b""

        with serving_grpc(refuse) as url:
            host = InlineHost(OtelPlugin(), {"endpoint": url, "metrics": False, "logs": False})
            host.feed(envelopes(kit.small_proof()))
            host.close(3.0)
        assert host.health()["lost_spans"] == 3
        self.assert_harmless(caplog, "INVALID_ARGUMENT: bad")

    def test_no_reply_is_anything_but_one_line(self) -> None:
        reply = Reply(accepted=False, reason="a\nb" + EVIL + "x" * 10_000)
        assert reply.reason.isprintable()
        assert len(reply.reason) <= 200


class TestBodies:
    """The status decides, whatever comes behind it; an answer that breaks off is no answer."""

    def post(self, answer: bytes) -> Reply:
        """Send one request; return the reply."""
        with answering(answer) as url:
            transport = open_transport(url, {}, TRACES)
            reply = transport.post(b"", 2.0)
            transport.close()
        return reply

    def test_a_body_that_is_not_gzip(self) -> None:
        head = b"HTTP/1.1 %s\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbody"
        assert self.post(head % b"200 OK").accepted
        refused = self.post(head % b"400 Bad Request")
        assert (refused.accepted, refused.retryable, refused.reason) == (False, False, "HTTP 400 Bad Request")

    def test_a_body_that_breaks_off(self) -> None:
        reply = self.post(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc")
        assert (reply.accepted, reply.retryable) == (False, True)

    def test_a_body_of_grpc_that_is_not_otlp(self, kit: Any) -> None:
        with serving_grpc(lambda _body, _context: b"\xff\xff") as url:
            host = InlineHost(OtelPlugin(), {"endpoint": url, "metrics": False, "logs": False})
            host.feed(envelopes(kit.small_proof()))
            host.close(3.0)
        assert (host.health()["spans_exported"], host.health()["lost_spans"]) == (3, 0)


def test_cookies_are_not_kept(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    receiver.answers = [kit.Answer(headers={"Set-Cookie": "a=b; Path=/"})]
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metrics": False, "logs": False})
    host.feed(envelopes(kit.small_proof()))
    host.close()
    assert len(receiver.headers) == 3
    assert not [headers for headers in receiver.headers if "Cookie" in headers]


def test_a_grpc_receiver_that_returns_gets_everything(kit: Any, closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "50")
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.05)
    monkeypatch.setattr(exporter, "_LONGEST_BACKOFF_S", 0.1)
    arrived: list[Any] = []

    def take(body: bytes, _context: Any) -> bytes:
        arrived.extend(kit.read_request(body))
        return b""

    port = int(closed.rpartition(":")[2])
    host = InlineHost(OtelPlugin(), {"endpoint": f"grpc://127.0.0.1:{port}", "metrics": False, "logs": False})
    host.feed(envelopes(kit.small_proof()))
    time.sleep(1.0)
    assert host.health()["lost_spans"] == 0
    with serving_grpc(take, port):
        host.close(4.0)
    assert (len(arrived), host.health()["lost_spans"]) == (3, 0)


class TestItemQueue:
    """The queue is bounded by memory and by number."""

    def item(self, size: int = 1000) -> Item:
        """An item that counts as three."""
        return Item(b"", bytes(size), 3)

    def test_by_memory(self) -> None:
        queue = ItemQueue(Batching(max_queue_bytes=10_000))
        dropped = 0
        for _ in range(1000):
            dropped += queue.drop_oldest(self.item())
            queue.append_item(self.item())
        assert queue.count == 3 * 9
        assert dropped + queue.count == 3000
        assert queue.bound_hit_by(self.item()) == "10000 bytes, otel.max_queue_bytes"

    def test_small_items_count_with_their_overhead(self) -> None:
        queue = ItemQueue(Batching(max_queue_bytes=10_000))
        for _ in range(1000):
            queue.drop_oldest(self.item(1))
            queue.append_item(self.item(1))
        assert queue.count <= 3 * 10_000 // 90

    def test_by_number(self) -> None:
        queue = ItemQueue(Batching(max_queue_items=2))
        for _ in range(5):
            queue.drop_oldest(self.item())
            queue.append_item(self.item())
        assert queue.count == 6
        assert queue.bound_hit_by(self.item()) == "2 items"

    def test_an_empty_queue_takes_any_item(self) -> None:
        queue = ItemQueue(Batching(max_queue_bytes=10))
        assert queue.has_room(self.item())
        queue.append_item(self.item())
        assert not queue.has_room(self.item())
        assert queue.drop_all() == 3
        assert not queue


def test_a_bound_below_a_mebibyte_is_refused() -> None:
    with pytest.raises(Exception, match="max_queue_bytes"):
        InlineHost(OtelPlugin(), {"endpoint": "http://127.0.0.1:1", "max_queue_bytes": 1})


@contextlib.contextmanager
def answering(answer: bytes) -> Generator[str]:
    """The base URL of a server that gives these bytes as its answer to everything, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()
        server.settimeout(0.05)

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        connection.settimeout(1.0)
                        connection.recv(65536)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        ended.set()
        thread.join(5)


@contextlib.contextmanager
def serving_grpc(handle: Callable[[bytes, Any], bytes], port: int = 0) -> Generator[str]:
    """The URL of a trace service over gRPC."""
    api: Any = grpc  # its stubs leave types open
    server: Any = api.server(ThreadPoolExecutor(2))
    handlers = {"Export": api.unary_unary_rpc_method_handler(handle)}
    name = "opentelemetry.proto.collector.trace.v1.TraceService"
    server.add_generic_rpc_handlers((api.method_handlers_generic_handler(name, handlers),))
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    yield f"grpc://127.0.0.1:{bound}"
    server.stop(None).wait(5)
