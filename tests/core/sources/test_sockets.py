"""Local sockets: several peers at once; slow, silent, dead and absent peers; obstacles to listening."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from proofstream.errors import SourceError, UsageError
from proofstream.sources import listening

WIRE = Path(__file__).parents[2] / "data" / "wire"
LINES = (WIRE / "smollm2-135m-cpu.jsonl").read_bytes().splitlines(keepends=True)


def connect(address: str) -> socket.socket:
    if address.startswith("unix:"):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.connect(address.removeprefix("unix:"))
        except OSError:
            peer.close()
            raise
        return peer
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=5)


@pytest.fixture(params=["tcp://127.0.0.1:0", "tcp://localhost:0", "unix"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"unix:{tmp_path}/s.sock" if request.param == "unix" else str(request.param)


def test_several_peers_at_once_are_sessions_of_their_own(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    peers = [connect(running.address) for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.sendall(b"".join(LINES[: 300 + number]))
    eventually(lambda: running.feed.delivered == 903)
    for peer in peers:
        peer.close()
    eventually(lambda: [s.closed for s in running.feed.sessions] == [[("ended", None)]] * 3)
    assert sorted(len(s.decoded) for s in running.feed.sessions) == [300, 301, 302]
    assert {s.time_source for s in running.feed.sessions} == {"arrival"}
    assert len({s.source for s in running.feed.sessions}) == 3
    assert running.stop() < 1.5


def test_ipv6_loopback(start: Any, eventually: Any) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    running = start("tcp://[::1]:0")
    with connect(running.address) as peer:
        peer.sendall(LINES[0])
        eventually(lambda: running.feed.delivered == 1)
    assert running.address.startswith("tcp://[::1]:")


def test_lines_of_a_slow_peer_are_delivered_one_by_one(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    with connect(running.address) as peer:
        for count in range(1, 4):
            line = LINES[count]
            peer.sendall(line[:30])
            time.sleep(0.25)
            assert running.feed.delivered == count - 1
            peer.sendall(line[30:])
            eventually(lambda count=count: running.feed.delivered == count)
        peer.sendall(LINES[9].rstrip())
    eventually(lambda: running.feed.delivered == 4)


def test_lines_that_arrive_at_once_are_apart_and_a_layer_takes_as_long_as_it_reports(
    uri: str, start: Any, eventually: Any
) -> None:
    running = start(uri)
    first = next(index for index, line in enumerate(LINES) if line.startswith(b'{"LayerEnd"')) + 1
    last = next(index for index in range(first, len(LINES)) if LINES[index].startswith(b'{"LayerEnd"'))
    lines = re.sub(rb'"duration_ms":\d+', b'"duration_ms":30', b"".join(LINES[first : last + 2])).splitlines(
        keepends=True
    )
    with connect(running.address) as peer:
        time.sleep(0.2)
        peer.sendall(b"".join(lines))
        eventually(lambda: running.feed.delivered == len(lines))
    session = running.feed.only
    assert sorted(set(session.times)) == session.times
    begun, ended = (session.times[session.kinds.index(kind)] for kind in ("LayerStart", "LayerEnd"))
    assert ended - begun == pytest.approx(30_000_000, abs=1000)
    until = session.kinds.index("LayerEnd") + 1
    assert session.time_sources == ["reconstructed"] * until + [None] * (len(lines) - until)


def test_a_silent_peer_blocks_no_other_and_gets_no_session(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    with connect(running.address), connect(running.address) as talking:
        talking.sendall(LINES[0])
        eventually(lambda: running.feed.delivered == 1)
        assert running.stop() < 1.5
    assert running.feed.only.closed == [("interrupted", None)]


def test_a_prover_that_connects_and_is_silent_is_announced_once(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    said = f"{running.address}: a prover has connected and has sent nothing so far"
    with connect(running.address) as talking:
        talking.sendall(LINES[0])
        with connect(running.address) as silent:
            eventually(lambda: said in running.feed.announced)
            silent.sendall(LINES[0])
            eventually(lambda: running.feed.delivered == 2)
    running.stop()
    assert running.feed.announced[1:] == [said]


def test_stop_ends_the_wait_for_a_peer(uri: str, start: Any, tmp_path: Path) -> None:
    running = start(uri)
    assert running.address
    time.sleep(0.3)
    assert running.thread.is_alive()
    assert running.stop() < 1.5
    assert running.feed.sessions == []
    assert list(tmp_path.iterdir()) == []


def test_a_reset_connection_is_lost(start: Any, eventually: Any) -> None:
    running = start("tcp://127.0.0.1:0")
    peer = connect(running.address)
    peer.sendall(LINES[0])
    eventually(lambda: running.feed.delivered == 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    eventually(lambda: running.feed.only.closed)
    assert running.feed.only.closed == [("lost", "the connection broke: Connection reset by peer")]


def test_a_peer_that_is_killed_within_a_line_is_broken_off(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    address = running.address
    family = "AF_UNIX" if address.startswith("unix:") else "AF_INET"
    target = address.removeprefix("unix:") if family == "AF_UNIX" else ("127.0.0.1", int(address.rpartition(":")[2]))
    program = (
        "import os, signal, socket\n"
        f"peer = socket.socket(socket.{family}); peer.connect({target!r})\n"
        f"peer.sendall({LINES[0] + LINES[1][:50]!r})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == -9
    eventually(lambda: running.feed.sessions and running.feed.only.closed)
    assert len(running.feed.only.decoded) == 1
    assert [refused.line for refused in running.feed.only.refusals] == [2]
    assert running.feed.only.closed == [("lost", "the connection ended within a line")]


def test_garbage_is_refused_at_once_and_the_rest_is_read(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri, max_line_bytes=2000)
    with connect(running.address) as peer:
        peer.sendall(b"HELO there\r\n\r\n")
        eventually(lambda: running.feed.sessions and running.feed.only.refusals)
        peer.sendall(b"x" * 100_000 + b"\n" + LINES[0])
        eventually(lambda: running.feed.delivered == 1)
    assert [refused.line for refused in running.feed.only.refusals] == [1, 3]


def test_recorded_sessions_arrive_through_a_socket(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    line = b'{"v":1,"time_unix_nano":7,"session_id":"far","event":{"Log":{"level":"Info","message":"x"}}}\n'
    with connect(running.address) as peer:
        peer.sendall(line)
    eventually(lambda: running.feed.sessions and running.feed.only.closed)
    session = running.feed.only
    assert (session.session_id, session.recorded, session.times) == ("far", True, [7])
    assert session.closed == [("ended", None)]


OPENED = (
    b'{"v":1,"time_unix_nano":7,"session_id":"far","origin":"host","event":{"SessionOpened":{"source":"x",'
    b'"time_source":"envelope","traceparent":null,"resource":{}}}}\n'
)
TIMED = b'{"v":1,"time_unix_nano":8,"session_id":"far","event":%b}\n' % LINES[0].rstrip()
TIMED_WITHOUT_SESSION = b'{"v":1,"time_unix_nano":8,"event":%b}\n' % LINES[0].rstrip()
CLOSED = (
    b'{"v":1,"time_unix_nano":9,"session_id":"far","origin":"host",'
    b'"event":{"SessionClosed":{"outcome":"ended","reason":null,"refused":0}}}\n'
)


@pytest.mark.parametrize(
    "lines",
    [TIMED, TIMED_WITHOUT_SESSION, OPENED + TIMED, OPENED + TIMED + CLOSED, TIMED + CLOSED, TIMED + TIMED.rstrip()],
    ids=["timed", "no session", "opened", "opened and closed", "closed", "last line without its end"],
)
def test_a_client_that_sends_timed_envelopes_and_closes_has_ended(
    lines: bytes, uri: str, start: Any, eventually: Any
) -> None:
    running = start(uri)
    with connect(running.address) as peer:
        peer.sendall(lines)
    eventually(lambda: running.feed.sessions and running.feed.only.closed)
    assert running.feed.only.closed == [("ended", None)]
    assert running.feed.only.refusals == []


def test_a_client_that_closes_within_a_line_is_broken_off(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    with connect(running.address) as peer:
        peer.sendall(OPENED + TIMED + TIMED[:40])
    eventually(lambda: running.feed.sessions and running.feed.only.closed)
    assert running.feed.only.closed == [("lost", "the connection ended within a line")]
    assert [refused.line for refused in running.feed.only.refusals] == [3]


def test_a_client_of_envelopes_whose_connection_is_reset_is_broken_off(start: Any, eventually: Any) -> None:
    running = start("tcp://127.0.0.1:0")
    peer = connect(running.address)
    peer.sendall(OPENED + TIMED)
    eventually(lambda: running.feed.delivered == 2)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    eventually(lambda: running.feed.only.closed)
    assert running.feed.only.closed == [("lost", "the connection broke: Connection reset by peer")]


def test_once_accepts_one_connection_and_ends_with_it(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri, once=True)
    peer = connect(running.address)
    peer.sendall(LINES[0])
    eventually(lambda: running.feed.delivered == 1)
    with pytest.raises(OSError, match=r"refused|No such file"):
        connect(running.address)
    assert running.thread.is_alive()
    peer.sendall(LINES[1])
    peer.close()
    running.join()
    assert running.feed.only.closed == [("ended", None)]
    assert len(running.feed.only.decoded) == 2


def test_too_many_peers_are_refused(start: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MAX_CONNECTIONS", 1)
    running = start("tcp://127.0.0.1:0")
    address = running.address
    with connect(address) as first:
        first.sendall(LINES[0])
        eventually(lambda: running.feed.delivered == 1)
        for _ in range(3):
            with connect(address) as further:
                assert further.recv(1) == b""
        first.sendall(LINES[1])
        eventually(lambda: running.feed.delivered == 2)
    running.stop()
    refused = f"{address}: a connection was refused, because 1 are open"
    assert running.feed.announced[1:] == [refused, f"{refused} (2 more)"]


# Obstacles to listening


def test_an_address_in_use_is_one_clear_line(start: Any, open_source: Any) -> None:
    taken = start("tcp://127.0.0.1:0").address
    with pytest.raises(SourceError, match=rf"^cannot listen on {taken}: Address already in use") as caught:
        start(taken).join()
    assert caught.value.hint == "use another port, or port 0, which takes a free one"


@pytest.mark.parametrize(
    "uri", ["tcp://0.0.0.0:1", "tcp://example.com:80", "tcp://192.0.2.1:80", "tcp://[::]:80", "tcp://[2001:db8::1]:80"]
)
def test_only_loopback_addresses_are_allowed(uri: str, open_source: Any) -> None:
    with pytest.raises(UsageError, match="connections are not authenticated, so only loopback addresses are allowed"):
        open_source(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "tcp:127.0.0.1:80",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://:80",
        "tcp://127.0.0.1:80/x",
        "tcp://[::1:80",
        "tcp://[::1]",
        "tcp://",
        "unix:",
    ],
)
def test_malformed_addresses_are_usage_errors(uri: str, open_source: Any) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(uri)}: expected (tcp://HOST:PORT|unix:PATH)"):
        open_source(uri)


@pytest.mark.parametrize("port", ["22x", "99999", "-1", "+1", "1_0", "\u0663"])
def test_an_invalid_port_is_a_usage_error(port: str, open_source: Any) -> None:
    uri = f"tcp://127.0.0.1:{port}"
    with pytest.raises(UsageError, match=f"^{re.escape(uri)}: the port must be a number from 0 to 65535") as caught:
        open_source(uri)
    assert caught.value.hint == "for example tcp://127.0.0.1:7777"


def test_the_socket_of_a_dead_process_is_replaced(tmp_path: Path, start: Any) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    running = start(f"unix:{path}")
    with connect(running.address):
        pass
    running.stop()
    assert not path.exists()


def test_a_socket_in_use_is_left_alone(tmp_path: Path, start: Any, eventually: Any) -> None:
    path = tmp_path / "s.sock"
    first = start(f"unix:{path}")
    assert first.address
    with pytest.raises(SourceError, match="another process listens there"):
        start(f"unix:{path}").join()
    with connect(first.address) as peer:
        peer.sendall(LINES[0])
        eventually(lambda: first.feed.delivered == 1)


def test_a_regular_file_in_the_way_is_not_deleted(tmp_path: Path, start: Any) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(SourceError, match="it exists and is not a socket"):
        start(f"unix:{path}").join()
    assert path.read_text() == "data"


def test_a_file_that_replaced_our_socket_is_not_removed(tmp_path: Path, start: Any) -> None:
    path = tmp_path / "s.sock"
    running = start(f"unix:{path}")
    assert running.address
    path.unlink()
    path.write_text("theirs")
    running.stop()
    assert path.read_text() == "theirs"


def test_a_missing_folder_is_named(tmp_path: Path, start: Any) -> None:
    with pytest.raises(SourceError, match=r"^cannot listen on unix:.*/no/s.sock: there is no folder .*/no$"):
        start(f"unix:{tmp_path}/no/s.sock").join()


@pytest.mark.parametrize("length", [150, 300])
def test_a_path_that_is_too_long_says_how_long_it_may_be(length: int, tmp_path: Path, start: Any) -> None:
    path = tmp_path / ("x" * length)
    why = f"a socket's path may have about 100 bytes, and this one has {len(str(path))}"
    with pytest.raises(SourceError, match=why) as caught:
        start(f"unix:{path}").join()
    assert caught.value.hint == "use a shorter path, such as unix:proofs.sock"


def test_stop_from_another_thread_while_data_pours_in(uri: str, start: Any, eventually: Any) -> None:
    running = start(uri)
    peer = connect(running.address)
    pouring = threading.Event()
    pouring.set()

    def pour() -> None:
        try:
            while pouring.is_set():
                peer.sendall(LINES[0])
                time.sleep(0.001)
        except OSError:
            return

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        eventually(lambda: running.feed.delivered > 10)
        assert running.stop() < 1.5
        assert running.feed.only.closed == [("interrupted", None)]
    finally:
        pouring.clear()
        thread.join(5)
        peer.close()
