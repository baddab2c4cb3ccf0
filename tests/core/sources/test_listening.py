"""The one thread that serves all connections: which are let in, which make room, what is left out under pressure."""

from __future__ import annotations

import resource
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proofstream.events import is_sheddable
from proofstream.sources import listening
from proofstream.sources.complaints import Complaints
from proofstream.testing import FixedClock, read_stream

WIRE = Path(__file__).parents[2] / "data" / "wire" / "smollm2-135m-cpu.jsonl"
LINES = WIRE.read_bytes().splitlines(keepends=True)
FACT = (
    b'{"LayerStart":{"layer_idx":1,"kind":"MatMul","input_shape":[1,1],"output_shape":[1,1],"trace_cost":1,'
    b'"claim_value_approx":0.5,"gpu_device":null}}\n'
)
START = b'{"ProofStart":{"model_name":"m","backend":"b","num_layers":1,"input_shape":[1,1],"output_shape":[1,1]}}\n'
END = b'{"ProofComplete":{"duration_ms":1,"num_layer_proofs":1,"num_weight_openings":0,"weight_binding_mode":"m"}}\n'
BULK_HEAD = b'{"LayerActivation":{"layer_idx":0,"padding":"'


def connect(running: Any) -> socket.socket:
    host, _, port = running.address.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=5)


def send(running: Any, data: bytes) -> None:
    with connect(running) as peer:
        peer.sendall(data)


def is_closed(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def running(start: Any) -> Any:
    return start("tcp://127.0.0.1:0")


# Browsers


@pytest.mark.parametrize(
    "begin",
    [b"POST / HTTP/1.1\r\n", b"GET /x HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01"],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_no_event_of_a_request_of_a_browser_is_read(running: Any, begin: bytes, size: int) -> None:
    request = begin + b"Host: localhost\r\n\r\n" + START + END
    for _ in range(2):
        with connect(running) as peer:
            try:
                for at in range(0, len(request), size):
                    peer.sendall(request[at : at + size])
                    time.sleep(0.001)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert is_closed(peer)
    running.stop()
    assert running.feed.sessions == []
    first, again = running.feed.announced[1:]
    assert first.startswith(f"{running.address}: a connection that speaks HTTP or TLS was refused: any web page can")
    assert again == f"{first} (1 more)"


def test_a_line_that_begins_like_a_request_is_a_line(running: Any, eventually: Any) -> None:
    with connect(running) as peer:
        peer.sendall(b"P")
        time.sleep(0.05)
        peer.sendall(b"OST\n" + FACT)
        eventually(lambda: running.feed.delivered == 1)
    assert [refusal.line for refusal in running.feed.only.refusals] == [1]


def test_a_browser_does_not_use_up_the_one_connection(start: Any, eventually: Any) -> None:
    running = start("tcp://127.0.0.1:0", once=True)
    with connect(running) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(browser)
    send(running, FACT)
    running.join()
    assert running.feed.only.kinds == ["LayerStart"]


# Places


def test_a_peer_that_never_sent_a_line_makes_room(start: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(listening, "_FIRST_LINE_WITHIN_S", 0.05)
    running = start("tcp://127.0.0.1:0")
    with connect(running) as silent, connect(running) as half, connect(running) as good:
        good.sendall(FACT)
        half.sendall(FACT[:20])
        eventually(lambda: running.feed.delivered == 1)
        for number in range(2, 12):
            send(running, FACT)
            eventually(lambda number=number: running.feed.delivered == number)
        assert is_closed(silent)
        good.sendall(FACT)
        eventually(lambda: running.feed.delivered == 12)
    closed = f"{running.address}: a silent connection was closed to make room, because 3 are open"
    assert running.feed.announced[1:] == [closed]


def test_a_burst_waits_for_places_of_silent_peers(start: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(listening, "_FIRST_LINE_WITHIN_S", 0.3)
    running = start("tcp://127.0.0.1:0")
    silent = [connect(running) for _ in range(20)]
    send(running, FACT)
    eventually(lambda: running.feed.delivered == 1, timeout_s=30.0)
    for peer in silent:
        peer.close()


@pytest.mark.parametrize("has_open_proof", [True, False])
def test_a_long_silent_peer_makes_room_unless_a_proof_is_open(
    start: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, has_open_proof: bool
) -> None:
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(listening, "_SILENT_S", 0.05)
    running = start("tcp://127.0.0.1:0")
    with connect(running) as first:
        first.sendall(START if has_open_proof else START + END)
        eventually(lambda: running.feed.delivered == (1 if has_open_proof else 2))
        time.sleep(0.1)
        with connect(running) as second:
            second.sendall(FACT)
            if has_open_proof:
                assert is_closed(second)
                assert running.feed.only.closed == []
                return
            eventually(lambda: running.feed.delivered == 3)
    reason = "it was silent, and its place was needed for another connection"
    assert running.feed.sessions[0].closed == [("lost", reason)]


def test_there_are_as_many_places_as_files_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    soft = 0

    def getrlimit(_: int) -> tuple[int, int]:
        return soft, soft

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    for soft, places in [(256, 128), (20, 16), (10_000, 1024), (resource.RLIM_INFINITY, 1024)]:  # noqa: B007
        assert listening.count_places() == places


def test_a_stream_may_name_64_sessions_at_once(running: Any, eventually: Any) -> None:
    line = b'{"v":1,"time_unix_nano":7,"session_id":"s%d","event":{"Log":{"level":"Info","message":"x"}}}\n'
    with connect(running) as peer:
        peer.sendall(b"".join(line % (number // 2) for number in range(400)))
        eventually(lambda: running.feed.delivered == 400)
        assert sum(not session.closed for session in running.feed.sessions) == 64
    reason = "more than 64 sessions are open in this stream"
    assert running.feed.sessions[0].closed == [("lost", reason)]
    assert [session.session_id for session in running.feed.sessions] == [f"s{number}" for number in range(200)]


def test_a_complaint_is_shown_once_a_minute_with_its_count() -> None:
    shown: list[str] = []
    clock = FixedClock(0)
    complaints = Complaints(shown.append, clock=lambda: clock.now / 1e9)
    for _ in range(200):
        clock.advance(1.0)
        complaints.complain("full")
        complaints.show_due()
    complaints.show_due(at_end=True)
    assert shown == ["full", "full (60 more)", "full (60 more)", "full (60 more)", "full (19 more)"]


# Pressure


def test_under_pressure_bulk_is_counted_and_facts_are_read(running: Any, eventually: Any) -> None:
    decoded = list(read_stream(WIRE))
    facts = [item.raw for item in decoded if not is_sheddable(item.event)]
    bulk = Counter(type(item.event).__name__ for item in decoded if is_sheddable(item.event))
    running.feed.overloaded = True
    send(running, b"".join(LINES))
    eventually(lambda: running.feed.sessions and running.feed.only.closed)
    assert [item.raw for item in running.feed.only.decoded] == facts
    assert running.feed.only.dropped == bulk


def test_what_facts_cannot_be_lost_in_is_left_waiting(running: Any, eventually: Any) -> None:
    running.feed.congested = True
    send(running, FACT * 1000)
    time.sleep(0.3)
    assert running.feed.delivered == 0
    running.feed.congested = False
    eventually(lambda: running.feed.delivered == 1000)


def test_what_a_stop_leaves_undecoded_is_counted(
    running: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_STOP_WITHIN_S", 0.0)
    running.feed.congested = True
    recorded = b'{"v":1,"session_id":"other","event":{"Log":{"level":"Error","message":"x"}}}\n'
    send(running, (FACT * 10 + LINES[0]) * 100 + recorded)
    time.sleep(0.3)
    running.stop()
    (session,) = running.feed.sessions
    seen = session.dropped + Counter(session.kinds)
    assert seen == {"LayerStart": 1000, "LayerActivation": 100, "Log": 1}
    assert session.closed


def test_half_lines_share_a_budget_and_the_largest_is_refused(running: Any, eventually: Any) -> None:
    running.feed.backlog_bytes = 200_000
    head = FACT[:-3] + b',"padding":"'
    with connect(running) as large, connect(running) as small:
        small.sendall(head + b"x" * 30_000)
        large.sendall(head + b"x" * 90_000)
        time.sleep(0.3)
        small.sendall(b'"}}\n')
        large.sendall(b"x" * 500_000 + b'"}}\n' + FACT)
        eventually(lambda: running.feed.delivered == 2)
    refused = [str(refusal) for session in running.feed.sessions for refusal in session.refusals]
    assert len(refused) == 1
    assert refused[0].startswith(
        "line 1 refused: all connections together may hold 100000 bytes of unfinished lines, an eighth of memory_bytes"
    )


def test_a_half_line_of_bulk_that_is_given_up_is_dropped_and_not_refused(running: Any, eventually: Any) -> None:
    running.feed.backlog_bytes = 200_000
    send(running, BULK_HEAD + b"x" * 300_000 + b'"}}\n' + FACT)
    eventually(lambda: running.feed.delivered == 1)
    assert running.feed.only.dropped == {"LayerActivation": 1}
    assert running.feed.only.refusals == []
