"""Recordings: replayed with their own sessions and times, even if the recorder was killed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from proofstream.envelope_log import EnvelopeLogWriter
from proofstream.envelopes import HOST, PRODUCER, Envelope
from proofstream.events import (
    GpuReading,
    GpuTelemetry,
    Log,
    LogLevel,
    PluginHealth,
    ProofEvent,
    SessionClosed,
    SessionOpened,
)
from proofstream.intervals import Closed, Interval
from proofstream.timelines import Timelines
from proofstream.wire import Decoded, encode_envelope, encode_event

WIRE = Path(__file__).parents[2] / "data" / "wire"
STREAMS = sorted(WIRE.glob("*.jsonl"))
ZST = pytest.param(
    ".zst",
    marks=pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the extra zst is not installed"),
)
BEGIN = 1_700_000_000_000_000_000


def as_envelopes(decoded: list[Decoded], session_id: str, time: int = BEGIN) -> list[Envelope]:
    """Makes envelopes of a session's events as the host does. An event without a time gets the next microsecond."""
    made: list[Envelope] = []
    for seq, item in enumerate(decoded):
        time = item.time_unix_nano if item.time_unix_nano is not None else time + 1000
        made.append(
            Envelope(
                seq=seq,
                time_unix_nano=time,
                session_id=session_id,
                origin=item.origin,
                event=item.event,
                raw=item.raw,
                job_id=item.job_id,
                traceparent=item.traceparent,
            )
        )
    return made


def host_event(event: ProofEvent) -> Decoded:
    return Decoded(event=event, raw=encode_event(event), origin=HOST)


def live(stream: Path, replay: Any) -> list[Envelope]:
    """Makes envelopes of a whole stream as the host does: opened, delivered, closed."""
    session = replay(stream).only
    opened = SessionOpened(source="live", time_source="reconstructed", traceparent=None, resource={"host.name": "x"})
    closed = SessionClosed(outcome="ended", reason=None, refused=0)
    return as_envelopes([host_event(opened), *session.decoded, host_event(closed)], session.session_id)


def intervals(envelopes: list[Envelope]) -> list[dict[str, Any]]:
    timelines = Timelines()
    changes = [change for envelope in envelopes for change in timelines.feed(envelope)]
    return [shown(change.interval) for change in changes if isinstance(change, Closed)]


def shown(interval: Interval) -> dict[str, Any]:
    plain = ("key", "ordinal", "session_id", "job_id", "start_unix_nano", "end_unix_nano", "rounds", "aborted_reason")
    facts = {name: getattr(interval, name) for name in (*plain, "start_seen", "end_seen", "layer_kind")}
    return facts | {"kind": interval.kind, "proof": interval.proof.ordinal if interval.proof else None}


def write(path: Path, envelopes: list[Envelope]) -> Path:
    writer = EnvelopeLogWriter(path)
    writer.append(envelopes)
    writer.close()
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ZST])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda p: p.stem)
def test_a_replayed_recording_gives_the_same_intervals(stream: Path, suffix: str, tmp_path: Path, replay: Any) -> None:
    lived = live(stream, replay)
    session = replay(write(tmp_path / f"r.jsonl{suffix}", lived)).only
    assert (session.session_id, session.recorded, session.time_source) == (lived[0].session_id, True, "envelope")
    assert session.opened_at == lived[0].time_unix_nano
    assert session.closed == [("ended", None)]
    assert session.refusals == []
    replayed = as_envelopes(session.decoded, session.session_id)
    assert replayed == lived
    assert intervals(replayed) == intervals(lived)


def test_an_aborted_stream_still_has_intervals_to_compare(replay: Any) -> None:
    found = intervals(live(WIRE / "aborted-then-next.jsonl", replay))
    assert any(interval["aborted_reason"] for interval in found)
    assert sum(interval["rounds"] for interval in found) > 0


def test_a_recording_that_breaks_off_is_a_lost_session(tmp_path: Path, replay: Any) -> None:
    lived = live(WIRE / "aborted-then-next.jsonl", replay)
    session = replay(write(tmp_path / "r.jsonl", lived[:100])).only
    assert len(session.decoded) == 100
    assert session.closed == [("lost", "the recording ends here")]


def test_a_cut_compressed_recording_says_so(tmp_path: Path, replay: Any) -> None:
    path = write(tmp_path / "r.jsonl.gz", live(WIRE / "smollm2-135m-cpu.jsonl", replay))
    path.write_bytes(path.read_bytes()[:-3000])
    session = replay(path).only
    assert session.closed[0][0] == "lost"
    assert "ends in the middle" in str(session.closed[0][1])


def log(text: str, session_id: str, seconds: float) -> Envelope:
    event = Log(level=LogLevel.Info, message=text)
    return Envelope(
        seq=0,
        time_unix_nano=BEGIN + round(seconds * 1e9),
        session_id=session_id,
        origin=PRODUCER,
        event=event,
        raw=encode_event(event),
    )


def opening(session_id: str, seconds: float) -> Envelope:
    event = SessionOpened(source="live", time_source="envelope", traceparent=None, resource={})
    return of_host(event, session_id, seconds)


def closing(session_id: str, seconds: float) -> Envelope:
    return of_host(SessionClosed(outcome="ended", reason=None, refused=0), session_id, seconds)


def of_host(event: ProofEvent, session_id: str, seconds: float) -> Envelope:
    return Envelope(
        seq=0,
        time_unix_nano=BEGIN + round(seconds * 1e9),
        session_id=session_id,
        origin=HOST,
        event=event,
        raw=encode_event(event),
    )


def test_interleaved_sessions_are_separated_in_order(tmp_path: Path, replay: Any) -> None:
    lines = [
        opening("a", 0),
        log("a0", "a", 0),
        log("b0", "b", 1),
        log("b1", "b", 2),
        log("a1", "a", 3),
        closing("b", 4),
        log("late", "b", 5),
    ]
    feed = replay(write(tmp_path / "r.jsonl", lines))
    a, b = feed.sessions
    assert [a.session_id, b.session_id] == ["a", "b"]
    assert a.kinds == ["SessionOpened", "Log", "Log"]
    assert b.kinds == ["Log", "Log", "SessionClosed", "Log"]
    assert b.opened_at == BEGIN + 10**9
    assert a.closed == [("lost", "the recording ends here")]
    assert b.closed == [("ended", None)]


def test_a_session_that_never_said_that_it_begins_need_not_say_that_it_ends(tmp_path: Path, replay: Any) -> None:
    """A program may write envelopes for their times alone. Such a file is no recording that broke off."""
    feed = replay(write(tmp_path / "r.jsonl", [log("a0", "a", 0), opening("b", 1), log("b0", "b", 2)]))
    assert [session.closed for session in feed.sessions] == [[("ended", None)], [("lost", "the recording ends here")]]


def test_thousands_of_ended_sessions_are_closed_early(tmp_path: Path, replay: Any) -> None:
    lines = [e for i in range(600) for e in (log("x", f"s{i}", i), closing(f"s{i}", i))]
    feed = replay(write(tmp_path / "r.jsonl", lines))
    assert len(feed.sessions) == 600
    assert all(session.closed == [("ended", None)] and len(session.decoded) == 2 for session in feed.sessions)


def test_recorded_health_of_plugins_is_skipped(tmp_path: Path, replay: Any) -> None:
    health = PluginHealth(
        plugin="otel",
        status="failed",
        reason="x",
        depth=0,
        delivered=0,
        dropped={},
        counters={"lost_spans": 3},
        lag_s=0.0,
    )
    lines = as_envelopes([host_event(health), host_event(Log(level=LogLevel.Info, message="x"))], "s")
    assert replay(write(tmp_path / "r.jsonl", lines)).only.kinds == ["Log"]


def telemetry(session_id: str, seconds: float) -> Envelope:
    event = GpuTelemetry(devices=[GpuReading(id="GPU-1", state="ok")])
    return Envelope(
        seq=0,
        time_unix_nano=BEGIN + round(seconds * 1e9),
        session_id=session_id,
        origin="gpu",
        event=event,
        raw=encode_event(event),
    )


def test_telemetry_without_a_session_belongs_to_the_one_around_it(tmp_path: Path, replay: Any) -> None:
    lines = [
        telemetry("host-1", 0),
        log("a0", "a", 1),
        telemetry("host-1", 2),
        log("b0", "b", 3),
        telemetry("a", 4),
        telemetry("host-1", 5),
        closing("a", 6),
        closing("b", 7),
        telemetry("host-1", 8),
    ]
    feed = replay(write(tmp_path / "r.jsonl", lines))
    a, b = feed.sessions
    assert a.kinds == ["Log", "GpuTelemetry", "GpuTelemetry", "GpuTelemetry", "SessionClosed"]
    assert a.times == [BEGIN + seconds * 10**9 for seconds in (1, 2, 4, 5, 6)]
    assert b.kinds == ["Log", "SessionClosed", "GpuTelemetry"]
    assert [session.closed for session in feed.sessions] == [[("ended", None)]] * 2


def test_a_bare_line_among_envelopes_belongs_to_the_one_before(tmp_path: Path, replay: Any) -> None:
    bare = encode_event(Log(level=LogLevel.Info, message="bare"))
    lines = [b"no json", encode_envelope(log("first", "a", 1)), bare, encode_envelope(log("second", "a", 2)), bare]
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(b"\n".join(lines))
    session = replay(path).only
    assert session.times == [BEGIN + 10**9] * 2 + [BEGIN + 2 * 10**9] * 2
    assert [refused.line for refused in session.refusals] == [1]


def test_envelopes_without_a_session_form_one_session_with_their_times(tmp_path: Path, replay: Any) -> None:
    path = tmp_path / "e.jsonl"
    line = '{"v":1,"time_unix_nano":%d,"event":{"Log":{"level":"Info","message":"x"}}}\n'
    path.write_text(line % 10**18 + line % (10**18 + 5) + '{"Log":{"level":"Info","message":"bare"}}\n')
    session = replay(path).only
    assert (session.recorded, session.time_source, session.opened_at) == (False, "envelope", 10**18)
    assert session.times == [10**18, 10**18 + 5, 10**18 + 5]
    assert session.closed == [("ended", None)]


def test_unknown_kinds_fields_and_words_survive_a_recording(tmp_path: Path, replay: Any) -> None:
    lived = live(WIRE / "serde-all-variants.jsonl", replay)
    raws = [line for line in (WIRE / "serde-all-variants.jsonl").read_bytes().splitlines() if line]
    session = replay(write(tmp_path / "r.jsonl", lived)).only
    assert [d.raw for d in session.decoded[1:-1]] == raws
