"""Files: unreadable, compressed and cut ones, times of bare lines, pace."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import socket
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from proofstream.errors import SourceError, UsageError
from proofstream.timeline import LONGEST_BELIEVABLE_MS

WIRE = Path(__file__).parents[2] / "data" / "wire"
STREAMS = sorted(WIRE.glob("*.jsonl"))
SMOLLM = WIRE / "smollm2-135m-cpu.jsonl"
ZST = pytest.param(
    ".zst",
    marks=pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the extra zst is not installed"),
)


def pack(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".zst":
        import zstandard

        path.write_bytes(zstandard.ZstdCompressor().compress(content))
    else:
        path.write_bytes(content)
    return path


def lines_of(session: Any) -> list[bytes]:
    return [item.raw + b"\n" for item in session.decoded if item.origin == "producer"]


@pytest.mark.parametrize("uri", ["{path}", "file:{path}", "file://{path}"])
def test_a_path_is_read_with_or_without_scheme(uri: str, tmp_path: Path, start: Any) -> None:
    path = tmp_path / "a b.jsonl"
    path.write_bytes(SMOLLM.read_bytes())
    shown = str(path).replace(" ", "%20") if "//" in uri else str(path)
    running = start(uri.format(path=shown))
    running.join()
    assert running.feed.delivered == 2076
    assert running.feed.only.source == str(path)


def test_a_missing_file_is_one_clear_line(tmp_path: Path, replay: Any) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*nothing.jsonl: No such file or directory") as caught:
        replay(tmp_path / "nothing.jsonl")
    assert caught.value.hint == "to wait for a file that does not exist yet: --follow"
    with pytest.raises(SourceError, match="No such file or directory") as caught:
        replay(tmp_path / "nothing.jsonl.gz")
    assert caught.value.hint is None


@pytest.mark.parametrize("uri", ["", "file:", "file://"])
def test_an_empty_path_is_one_clear_line(uri: str, open_source: Any) -> None:
    with pytest.raises(UsageError, match=r"^SOURCE names no file"):
        open_source(uri)


def test_a_folder_is_one_clear_line(tmp_path: Path, replay: Any) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*: it is a folder$"):
        replay(tmp_path)


def test_a_file_without_permission_is_one_clear_line(
    tmp_path: Path, replay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.jsonl"
    path.write_bytes(b"")
    path.chmod(0)
    if os.access(path, os.R_OK):
        # Root may read every file, so the system's answer is simulated.
        def refuse(*_: object) -> int:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceError, match=r"cannot read .*secret.jsonl: Permission denied$"):
        replay(path)


def test_a_socket_given_as_a_file_says_how_to_listen(tmp_path: Path, replay: Any) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{tmp_path}/s.sock")
        with pytest.raises(SourceError, match="cannot read") as caught:
            replay(tmp_path / "s.sock")
    assert caught.value.hint == f"to listen on a socket: unix:{tmp_path}/s.sock"


def test_zst_without_its_package_says_what_to_install(
    tmp_path: Path, open_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "x.jsonl.zst").write_bytes(bytes.fromhex("28b52ffd") + bytes(9))
    with pytest.raises(SourceError, match="zstandard is missing") as caught:
        open_source(tmp_path / "x.jsonl.zst")
    assert caught.value.hint == "pip install 'proofstream[zst]'"


def test_an_empty_file_is_an_empty_session(tmp_path: Path, replay: Any) -> None:
    session = replay(pack(tmp_path / "empty.jsonl", b"")).only
    assert session.decoded == []
    assert session.closed == [("ended", None)]


@pytest.mark.parametrize("suffix", ["", ".gz", ZST])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda p: p.stem)
def test_compressed_files_give_the_same_events(stream: Path, suffix: str, tmp_path: Path, replay: Any) -> None:
    path = pack(tmp_path / f"s.jsonl{suffix}", stream.read_bytes())
    os.utime(path, ns=(0, stream.stat().st_mtime_ns))
    plain, packed = replay(stream).only, replay(path).only
    assert packed.decoded == plain.decoded
    assert packed.session_id == plain.session_id
    assert packed.closed == [("ended", None)]
    assert max(packed.chunks) <= 512


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_all_members_of_one_file_are_read(suffix: str, tmp_path: Path, replay: Any) -> None:
    one = pack(tmp_path / f"one{suffix}", SMOLLM.read_bytes()).read_bytes()
    path = tmp_path / f"two.jsonl{suffix}"
    path.write_bytes(one * 2)
    assert len(replay(path).only.decoded) == 2 * 2076


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_a_cut_file_is_read_up_to_the_cut_and_says_so_once(suffix: str, tmp_path: Path, replay: Any) -> None:
    path = pack(tmp_path / f"cut.jsonl{suffix}", SMOLLM.read_bytes() * 3)
    path.write_bytes(path.read_bytes()[:-2000])
    session = replay(path).only
    assert 500 < len(session.decoded) < 3 * 2076
    assert session.refusals == []
    ((outcome, reason),) = session.closed
    assert outcome == "lost"
    assert "ends in the middle of its compressed data" in str(reason)
    assert None not in session.times


@pytest.mark.parametrize("keep", [0, 1, 12, 40])
@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_a_file_that_is_cut_before_its_first_line_ends_is_an_error(
    suffix: str, keep: int, tmp_path: Path, start: Any
) -> None:
    path = pack(tmp_path / f"cut.jsonl{suffix}", SMOLLM.read_bytes())
    path.write_bytes(path.read_bytes()[:keep])
    running = start(path)
    with pytest.raises(SourceError, match=r"its compressed data .*: not one event of it can be read$"):
        running.join()
    assert running.feed.sessions == []


def test_refused_lines_before_the_cut_are_counted_too(tmp_path: Path, start: Any) -> None:
    path = pack(tmp_path / "cut.jsonl.gz", b"no json\n" * 3 + os.urandom(100_000).hex().encode())
    path.write_bytes(path.read_bytes()[:-2000])
    running = start(path)
    with pytest.raises(SourceError, match="not one event of it can be read"):
        running.join()
    assert len(running.feed.only.refusals) == 3
    assert running.feed.only.closed[0][0] == "lost"


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_a_cut_file_is_announced(suffix: str, tmp_path: Path, replay: Any) -> None:
    path = pack(tmp_path / f"cut.jsonl{suffix}", SMOLLM.read_bytes() * 3)
    path.write_bytes(path.read_bytes()[:-2000])
    feed = replay(path)
    assert feed.announced == [
        f"{feed.only.closed[0][1]}, as if its writer was killed; everything before that was read",
    ]


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_a_damaged_file_is_read_up_to_the_damage_and_fails(suffix: str, tmp_path: Path, start: Any) -> None:
    path = pack(tmp_path / f"bad.jsonl{suffix}", SMOLLM.read_bytes())
    good = path.read_bytes()
    path.write_bytes(good + b"\xffgarbage")
    running = start(path)
    with pytest.raises(SourceError, match=rf"is damaged at byte {len(good)}: what follows") as caught:
        running.join()
    session = running.feed.only
    assert len(session.decoded) == 2076
    assert session.closed == [("lost", str(caught.value))]
    assert session.refusals == []
    assert running.feed.announced == []


def test_a_wrong_checksum_costs_no_layer(tmp_path: Path, start: Any) -> None:
    path = pack(tmp_path / "bad.jsonl.gz", SMOLLM.read_bytes())
    stored = bytearray(path.read_bytes())
    stored[-8] ^= 1
    path.write_bytes(stored)
    running = start(path)
    with pytest.raises(SourceError, match="its checksum is wrong"):
        running.join()
    assert lines_of(running.feed.only) == SMOLLM.read_bytes().splitlines(keepends=True)
    assert running.feed.only.kinds[-1] == "ProofComplete"


def test_a_line_that_damage_cuts_off_is_not_refused(tmp_path: Path, start: Any) -> None:
    begin = zlib.compressobj(wbits=31)
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(begin.compress(SMOLLM.read_bytes()[:20_000]) + begin.flush(zlib.Z_SYNC_FLUSH) + b"\xff" * 10)
    running = start(path)
    with pytest.raises(SourceError, match="is damaged"):
        running.join()
    assert running.feed.only.decoded
    assert running.feed.only.refusals == []


@pytest.mark.parametrize("name", ["small.jsonl.gz", "small.log"])
def test_a_small_damaged_file_is_called_damaged_although_nothing_of_it_can_be_read(
    name: str, tmp_path: Path, start: Any
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"x")[:10] + b"\xff" * 20)
    running = start(path)
    with pytest.raises(SourceError, match="is damaged at byte 10, in member 1: it cannot be unpacked"):
        running.join()
    assert running.feed.only.closed[0][0] == "lost"


@pytest.mark.parametrize("packed_suffix", [".gz", ZST])
@pytest.mark.parametrize("name", ["s.jsonl", "s.log.1", "s.gz", "s.zst"])
def test_the_first_bytes_say_that_a_file_is_compressed(
    packed_suffix: str, name: str, tmp_path: Path, replay: Any
) -> None:
    packed = pack(tmp_path / f"original{packed_suffix}", SMOLLM.read_bytes()).rename(tmp_path / name)
    os.utime(packed, ns=(0, SMOLLM.stat().st_mtime_ns))
    assert replay(packed).only.decoded == replay(SMOLLM).only.decoded


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_a_plain_file_that_is_named_as_compressed_is_read(suffix: str, tmp_path: Path, replay: Any) -> None:
    path = tmp_path / f"plain.jsonl{suffix}"
    path.write_bytes(SMOLLM.read_bytes())
    session = replay(path).only
    assert len(session.decoded) == 2076
    assert session.closed == [("ended", None)]


def test_a_named_pipe_is_read_as_lines_arrive(tmp_path: Path, start: Any, eventually: Any) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    running = start(path)
    lines = SMOLLM.read_bytes().splitlines(keepends=True)
    with path.open("wb", buffering=0) as pipe:
        # A line written between opening and reading counts as earlier, which adds a log event. So filter by origin.
        pipe.write(lines[0])
        eventually(lambda: running.feed.sessions and lines_of(running.feed.only) == lines[:1])
        pipe.write(lines[1] + lines[2])
        eventually(lambda: lines_of(running.feed.only) == lines[:3])
    running.join()
    session = running.feed.only
    assert session.time_source == "arrival"
    assert session.opened_at == session.times[0] < session.times[-2] == session.times[-1] - 1


# Times of bare lines


@pytest.mark.parametrize("stream", STREAMS, ids=lambda p: p.stem)
def test_bare_files_get_the_same_times_and_id_again(stream: Path, replay: Any) -> None:
    first, second = replay(stream).only, replay(stream).only
    assert first.time_source == "reconstructed"
    assert first.session_id == second.session_id
    assert first.decoded == second.decoded
    mtime = stream.stat().st_mtime_ns
    assert first.times[-1] == max(first.times) == mtime
    assert first.opened_at == min(first.times)


def test_another_time_or_content_is_another_session(tmp_path: Path, replay: Any) -> None:
    path = pack(tmp_path / "a.jsonl", SMOLLM.read_bytes())
    before = replay(path).only.session_id
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    moved = replay(path).only.session_id
    mtime = path.stat().st_mtime_ns
    path.write_bytes(SMOLLM.read_bytes() + b"\n")
    os.utime(path, ns=(0, mtime))
    assert len({before, moved, replay(path).only.session_id}) == 3


LAYER_START = (
    '{"LayerStart":{"layer_idx":%d,"kind":"MatMul","input_shape":[1,1],"output_shape":[1,1],"trace_cost":1,'
    '"claim_value_approx":0.5,"gpu_device":null}}'
)
LAYER_END = (
    '{"LayerEnd":{"layer_idx":%d,"kind":"Sumcheck","final_claim_value_approx":0.5,'
    '"duration_ms":%d,"rounds_completed":0}}'
)


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines))
    os.utime(path, ns=(0, 10**18))
    return path


def test_overlapping_layers_last_as_long_as_they_report(tmp_path: Path, replay: Any) -> None:
    lines = [
        LAYER_START % 1,
        LAYER_START % 2,
        LAYER_END % (1, 100),
        LAYER_END % (2, 50),
        LAYER_START % 3,
        LAYER_END % (3, 7),
    ]
    times = replay(write_lines(tmp_path / "x.jsonl", lines)).only.times
    assert [(t - 10**18) // 10**6 for t in times] == [-107, -107, -7, -57, -7, 0]


def test_an_unbelievable_duration_counts_as_zero(tmp_path: Path, replay: Any) -> None:
    lines = [LAYER_START % 1, LAYER_END % (1, LONGEST_BELIEVABLE_MS + 1), LAYER_START % 0, LAYER_END % (0, 5)]
    times = replay(write_lines(tmp_path / "x.jsonl", lines)).only.times
    assert [t - 10**18 for t in times] == [-5 * 10**6 - 1, -5 * 10**6, -5 * 10**6, 0]


def test_no_time_is_before_the_epoch(tmp_path: Path, replay: Any) -> None:
    path = write_lines(tmp_path / "x.jsonl", [LAYER_END % (0, LONGEST_BELIEVABLE_MS)] * 200)
    session = replay(path).only
    assert min(session.times) == session.opened_at == 0
    assert max(session.times) == 10**18


# Pace


def envelope_lines(seconds: list[float], session: str = "s") -> list[str]:
    event = {"Log": {"level": "Info", "message": "x"}}
    times = [10**18 + round(s * 1e9) for s in seconds]
    return [json.dumps({"v": 1, "seq": 0, "time_unix_nano": t, "session_id": session, "event": event}) for t in times]


def test_speed_paces_by_the_events_own_times(tmp_path: Path, replay: Any) -> None:
    path = write_lines(tmp_path / "x.jsonl", envelope_lines([0, 0, 3, 3, 6]))
    session = replay(path, speed=10.0).only
    assert session.chunks == [2, 2, 1]
    first, second, third = session.delivered_at
    assert second - first >= 0.29
    assert third - first >= 0.59


def test_a_paced_replay_stops_at_once(tmp_path: Path, start: Any, eventually: Any) -> None:
    running = start(write_lines(tmp_path / "x.jsonl", envelope_lines([0, 10_000_000])), speed=0.001)
    eventually(lambda: running.feed.delivered == 1)
    assert running.stop() < 1
    assert running.feed.only.closed == [("interrupted", None)]


def test_a_host_that_stops_ends_the_replay(tmp_path: Path, start: Any, eventually: Any) -> None:
    running = start(write_lines(tmp_path / "x.jsonl", envelope_lines([0, 1000])), speed=1.0)
    eventually(lambda: running.feed.delivered == 1)
    running.feed.stopping = True
    running.join(1.0)
    assert running.feed.only.closed == [("interrupted", None)]


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_speed_is_a_usage_error(speed: float, open_source: Any) -> None:
    with pytest.raises(UsageError, match="--speed"):
        open_source(SMOLLM, speed=speed)


@pytest.mark.parametrize("uri", ["-", "tcp://127.0.0.1:0", "unix:x.sock"])
@pytest.mark.parametrize("flags", [{"follow": True}, {"speed": 2.0}], ids=str)
def test_flags_for_files_are_refused_elsewhere(uri: str, flags: dict[str, Any], open_source: Any) -> None:
    with pytest.raises(UsageError, match="is for files"):
        open_source(uri, **flags)


@pytest.mark.parametrize("uri", ["-", "x.jsonl"])
def test_once_is_refused_for_sources_without_connections(uri: str, open_source: Any) -> None:
    with pytest.raises(UsageError, match="--once is for sockets"):
        open_source(uri, once=True)


def test_a_named_pipe_cannot_be_paced(tmp_path: Path, start: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="has its own pace"):
        start(tmp_path / "pipe", speed=2.0).join()
