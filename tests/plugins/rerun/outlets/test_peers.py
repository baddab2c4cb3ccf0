"""Viewers that are late, die, come back, are suspended or never appear get what they can, and never block anything."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proofstream_rerun.connections import Viewer
from proofstream_rerun.outlets.backlog import Backlog
from proofstream_rerun.outlets.peer import Pace, PeerOutlet, PeerState
from proofstream_rerun.outlets.probing import Answer, probe

DEADLINE_S = 5.0
QUICK = Pace(probe_s=0.3, flush_s=0.3, check_s=0.1, retry_s=0.05, longest_retry_s=0.2, stuck_s=1.0)


@contextmanager
def door(greeting: bytes | None) -> Generator[int]:
    """Accept one connection on a port, then send a greeting or hang up at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            guest, _ = server.accept()
            with guest:
                if greeting is not None:
                    guest.recv(64)
                    guest.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def ask(port: int) -> Answer:
    return probe(Viewer("127.0.0.1", port), deadline_s=0.5)


def test_a_probe_tells_viewers_from_silent_and_absent_peers(kit: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    assert ask(viewer.port) is Answer.SPEAKS
    viewer.pause()
    assert ask(viewer.port) is Answer.SILENT
    viewer.kill()
    assert ask(viewer.port) is Answer.ABSENT
    assert ask(kit.silent_peer().port) is Answer.SILENT
    assert probe(Viewer("no-such-host.invalid", 9876), deadline_s=0.5) is Answer.ABSENT
    assert probe(Viewer("x" * 64, 9876), deadline_s=0.5) is Answer.ABSENT


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 smtp", b"\x00", None])
def test_another_protocol_is_foreign(greeting: bytes | None) -> None:
    with door(greeting) as port:
        assert ask(port) is Answer.FOREIGN


def test_a_viewer_without_tls_is_foreign_under_tls(kit: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    assert probe(Viewer("127.0.0.1", viewer.port, tls=True), deadline_s=0.5) is Answer.FOREIGN


class Party:
    """A peer outlet with a backlog of its own, at a quick pace."""

    def __init__(self, kit: Any, port: int, *, max_bytes: int = 2**26) -> None:
        self.kit = kit
        self.backlog = Backlog(max_bytes)
        self.snapshots_wanted = threading.Event()
        self.outlet = PeerOutlet(
            Viewer("127.0.0.1", port),
            self.backlog,
            log=logging.getLogger("proofstream.rerun.test"),
            want_snapshot=self.snapshots_wanted.set,
            pace=QUICK,
        )
        recording = kit.recording()
        self.backlog.begin_recording(recording, blueprint=recording.blueprint(), opening=recording.snapshot())
        self.outlet.start()

    def write(self, first: int, count: int) -> None:
        self.backlog.add_writes("first", [self.kit.Rows("values", first, count)])

    def leave(self, timeout_s: float = DEADLINE_S) -> bool:
        """Leave within the deadline; return whether the viewer received everything."""
        began = time.monotonic()
        self.outlet.ask_to_leave(began + timeout_s)
        got_all = self.outlet.wait()
        assert time.monotonic() - began < timeout_s + 1
        return got_all


@pytest.fixture
def party(kit: Any) -> Iterator[Any]:
    """Makes parties, which leave at the end of the test at the latest."""
    made: list[Party] = []

    def make(port: int, **more: Any) -> Party:
        made.append(Party(kit, port, **more))
        return made[-1]

    yield make
    for one in made:
        one.outlet.ask_to_leave(time.monotonic() + 1)
        one.outlet.wait()


def test_an_address_without_a_viewer_is_reported_once(kit: Any, party: Any, caplog: pytest.LogCaptureFixture) -> None:
    lonely = party(kit.free_port())
    lonely.write(0, 100)
    time.sleep(0.5)  # several attempts

    assert not lonely.leave()
    assert (lonely.outlet.state, lonely.outlet.connects, lonely.outlet.was_reached) == (PeerState.AWAY, 0, False)
    told = [message for message in caplog.messages if "cannot be reached; retrying" in message]
    assert len(told) == 1


def test_a_peer_that_stays_silent_is_never_connected_to(kit: Any, party: Any) -> None:
    lonely = party(kit.silent_peer().port)
    lonely.write(0, 100)
    time.sleep(0.5)

    assert not lonely.leave()
    assert (lonely.outlet.state, lonely.outlet.connects) == (PeerState.AWAY, 0)


def test_a_viewer_that_starts_late_misses_nothing(kit: Any, party: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    late = party(port)
    late.write(0, 100)
    time.sleep(0.3)
    viewer = kit.viewer(tmp_path / "seen.rrd", port)
    late.write(100, 100)

    assert kit.eventually(lambda: viewer.rows()["first:values"] == 200)
    assert kit.eventually(lambda: viewer.rows()["first:about, static"] == 1)
    assert late.leave()


def test_a_viewer_that_appears_at_the_very_end_gets_everything(kit: Any, party: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    late = party(port)
    late.write(0, 100)
    time.sleep(0.5)
    viewer = kit.viewer(tmp_path / "seen.rrd", port)

    assert late.leave()
    assert kit.eventually(lambda: viewer.rows()["first:values"] == 100)


def test_a_viewer_that_was_killed_and_comes_back_gets_everything_again(kit: Any, party: Any, tmp_path: Path) -> None:
    first = kit.viewer(tmp_path / "first.rrd")
    watched = party(first.port)
    watched.write(0, 100)
    assert kit.eventually(lambda: first.rows()["first:values"] == 100)
    first.kill()
    watched.write(100, 100)
    assert kit.eventually(lambda: watched.outlet.state is PeerState.AWAY)
    second = kit.viewer(tmp_path / "second.rrd", first.port)
    assert kit.eventually(lambda: second.rows()["first:values"] == 200)
    watched.write(200, 100)

    assert watched.leave()
    assert kit.eventually(lambda: second.rows()["first:values"] == 300)
    assert watched.outlet.connects == 2
    assert not watched.snapshots_wanted.is_set()


def test_a_viewer_that_was_replaced_unnoticed_gets_everything(kit: Any, party: Any, tmp_path: Path) -> None:
    first = kit.viewer(tmp_path / "first.rrd")
    watched = party(first.port)
    watched.write(0, 100)
    assert kit.eventually(lambda: first.rows()["first:values"] == 100)
    first.kill()
    second = kit.viewer(tmp_path / "second.rrd", first.port)
    watched.write(100, 100)

    assert kit.eventually(lambda: second.rows()["first:values"] == 200)
    assert watched.leave()


def test_a_viewer_that_was_closed_is_not_waited_for(kit: Any, party: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    watched = party(viewer.port)
    watched.write(0, 100)
    assert kit.eventually(lambda: watched.outlet.was_reached)
    viewer.kill()

    began = time.monotonic()
    assert not watched.leave()
    assert time.monotonic() - began < 2
    assert watched.outlet.state is PeerState.AWAY


def test_a_suspended_viewer_is_sent_nothing_until_it_resumes(kit: Any, party: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    watched = party(viewer.port)
    watched.write(0, 100)
    assert kit.eventually(lambda: viewer.rows()["first:values"] == 100)
    viewer.pause()
    assert kit.eventually(lambda: watched.outlet.state is PeerState.ASLEEP)
    sent = watched.outlet.sender.sent
    for first in range(100, 1100, 100):
        watched.write(first, 100)
    time.sleep(0.5)
    assert watched.outlet.sender.sent == sent
    viewer.resume()

    assert kit.eventually(lambda: viewer.rows()["first:values"] == 1100)
    assert watched.leave()
    assert watched.outlet.connects == 1


def test_a_viewer_that_is_too_slow_misses_entries_and_needs_a_snapshot(kit: Any, party: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    watched = party(viewer.port, max_bytes=50_000)
    assert kit.eventually(lambda: watched.outlet.was_reached)
    viewer.pause()
    assert kit.eventually(lambda: watched.outlet.state is PeerState.ASLEEP)
    for first in range(0, 20_000, 1000):
        watched.write(first, 1000)
    viewer.resume()

    assert kit.eventually(lambda: viewer.rows()["first:values"] > 0)
    assert watched.snapshots_wanted.is_set()
    assert watched.outlet.skipped > 0
    assert watched.leave()
    # Every row was either skipped or received.
    assert viewer.rows()["first:values"] == 20_000 - 1000 * watched.outlet.skipped


def test_a_viewer_that_comes_after_entries_were_dropped_gets_the_rest(kit: Any, party: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    late = party(port, max_bytes=50_000)
    for first in range(0, 20_000, 1000):
        late.write(first, 1000)
    viewer = kit.viewer(tmp_path / "seen.rrd", port)

    assert kit.eventually(lambda: viewer.rows()["first:values"] == 3000)
    assert kit.eventually(lambda: viewer.rows()["first:about, static"] == 1)
    assert late.snapshots_wanted.is_set()
    assert late.outlet.skipped == 0
    assert late.leave()


def test_a_viewer_that_is_suspended_at_the_end_is_left_behind(
    kit: Any, party: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[object] = []
    # The real function cancels Rerun's flush at the exit of this process. test_crash.py tests it in child processes.
    monkeypatch.setattr("proofstream_rerun.outlets.peer.abandon_streams", left.append)
    viewer = kit.viewer(tmp_path / "seen.rrd")
    watched = party(viewer.port)
    watched.write(0, 100)
    assert kit.eventually(lambda: watched.outlet.was_reached)
    viewer.pause()
    watched.write(100, 100)

    assert not watched.leave(2.0)
    assert len(left) == 1
    assert watched.outlet.state is PeerState.ASLEEP
    viewer.resume()


def test_a_call_that_rerun_rejects_is_reported_and_does_not_hold_up_the_others(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong:
        size_bytes = 1

        def send(self, stream: Any) -> None:
            raise TypeError("no such colour")

    viewer = kit.viewer(tmp_path / "seen.rrd")
    path = tmp_path / "proof.rrd"
    outlets = kit.outlets(f"127.0.0.1:{viewer.port}", f"file:{path}")
    outlets.begin_recording(kit.recording())
    outlets.send_writes("first", [kit.Rows("values", 0, 1), Wrong(), kit.Rows("values", 1, 1)])
    outlets.close(5)

    assert kit.rows_of(path)["first:values"] == 2
    assert kit.eventually(lambda: viewer.rows()["first:values"] == 2)
    assert outlets.counters()["lost_writes"] == 2
    assert caplog.messages.count("rerun: Rerun rejected a call: TypeError: no such colour") == 2


def test_a_replay_is_held_up_until_the_viewer_has_caught_up(kit: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    outlets = kit.outlets(f"127.0.0.1:{viewer.port}", live=False, resend_mib=1)
    outlets.begin_recording(kit.recording())
    assert kit.eventually(lambda: outlets.counters()["writes"] > 0)
    for first in range(0, 2_000_000, 10_000):
        outlets.send_writes("first", [kit.Rows("values", first, 10_000)])
    outlets.close(5)

    assert "lost_batches" not in outlets.counters()
    assert kit.eventually(lambda: viewer.rows()["first:values"] == 2_000_000)


def test_after_a_gap_the_present_state_is_sent_again(kit: Any, tmp_path: Path) -> None:
    state = [0]
    recording = kit.recording(snapshot=lambda: [kit.Rows("state", state[0], 1)])
    port = kit.free_port()
    outlets = kit.outlets(f"127.0.0.1:{port}", resend_mib=1)
    outlets.begin_recording(recording)
    for first in range(0, 200_000, 10_000):
        outlets.send_writes("first", [kit.Rows("values", first, 10_000)])
    viewer = kit.viewer(tmp_path / "seen.rrd", port)
    state[0] = 7
    assert kit.eventually(lambda: (outlets.tick(), viewer.rows()["first:state"])[1] == 2)
    outlets.close(5)

    assert viewer.rows()["first:values"] < 200_000


def test_an_ipv6_address_works_from_end_to_end(kit: Any, tmp_path: Path) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        outlets = kit.outlets(f"[::1]:{server.getsockname()[1]}")
        guest, _ = server.accept()
        with guest:
            assert guest.recv(3) == b"PRI"
        outlets.close(2)
    assert outlets.counters()["lost_viewers"] == 1
