"""The envelope log: it is readable again whatever happens to the writer, the disk or the file."""

from __future__ import annotations

import importlib.util
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from proofstream.envelope_log import FLUSH_AFTER_S, EnvelopeLogWriter, LogError, read_envelope_log
from proofstream.envelopes import Envelope
from proofstream.errors import SourceError
from proofstream.events import Log, LogLevel, PhaseStart
from proofstream.testing import envelopes, read_stream
from proofstream.wire import Decoded, Refusal, encode_envelope

WIRE = Path(__file__).parents[1] / "data" / "wire"
ZST = pytest.param(
    ".zst",
    marks=pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the extra zst is not installed"),
)
SUFFIXES = ["", ".gz", ZST]


@pytest.fixture(scope="module")
def lived() -> list[Envelope]:
    return envelopes(read_stream(WIRE / "smollm2-135m-cpu.jsonl"))


def read(path: Path) -> list[Decoded]:
    items = list(read_envelope_log(path))
    assert all(isinstance(item, Decoded) for item in items)
    return [item for item in items if isinstance(item, Decoded)]


def facts(items: list[Decoded] | list[Envelope]) -> list[tuple[object, ...]]:
    return [
        (
            i.event,
            i.raw,
            i.job_id,
            i.parent_job_id,
            i.time_unix_nano,
            i.time_source,
            i.session_id,
            i.origin,
            i.traceparent,
        )
        for i in items
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_appended_envelopes_are_read_back(suffix: str, tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "new" / "folders" / f"log.jsonl{suffix}"
    writer = EnvelopeLogWriter(path)
    writer.append(lived)
    writer.close()
    writer.close()
    assert facts(read(path)) == facts(lived)
    assert (writer.dropped, writer.lost) == (0, 0)


def test_jobs_and_the_sources_of_times_are_read_back(tmp_path: Path) -> None:
    raw = b'{"PhaseStart":{"name":"commit"}}'
    inner = Envelope(
        seq=0,
        time_unix_nano=7,
        time_source="reconstructed",
        session_id="s",
        origin="producer",
        event=PhaseStart(name="commit"),
        raw=raw,
        job_id="proof-2",
        parent_job_id="proof-1",
    )
    writer = EnvelopeLogWriter(tmp_path / "log.jsonl")
    writer.append([inner])
    writer.close()
    assert facts(read(tmp_path / "log.jsonl")) == facts([inner])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_flushes_at_the_end_of_a_layer_and_on_request(suffix: str, tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    writer = EnvelopeLogWriter(path, clock=lambda: 0.0)
    first_end = next(i for i, envelope in enumerate(lived) if envelope.kind == "LayerEnd")
    start = next(i for i, envelope in enumerate(lived) if envelope.kind == "ProofStart") + 1
    writer.append(lived[start:first_end])
    assert read(path) == []
    writer.append(lived[first_end : first_end + 1])
    assert facts(read(path)) == facts(lived[start : first_end + 1])
    writer.append(lived[first_end + 1 : first_end + 3])
    assert len(read(path)) == first_end + 1 - start
    writer.flush()
    assert facts(read(path)) == facts(lived[start : first_end + 3])
    writer.close()


@pytest.mark.parametrize("kind", ["SessionOpened", "ProofStart"])
def test_the_first_lines_are_flushed_at_once(kind: str, tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "log.jsonl"
    with closing(EnvelopeLogWriter(path, clock=lambda: 0.0)) as writer:
        writer.append([next(envelope for envelope in lived if envelope.kind == kind)])
        assert len(read(path)) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_line_that_has_waited_long_is_flushed_with_the_next_one(
    suffix: str, tmp_path: Path, lived: list[Envelope]
) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    rounds = [envelope for envelope in lived if envelope.kind == "SumcheckRound"]
    now = 100.0
    kept: list[int] = []
    with closing(EnvelopeLogWriter(path, clock=lambda: now)) as writer:
        for envelope in rounds[:12]:
            writer.append([envelope])
            kept.append(len(read(path)))
            now += FLUSH_AFTER_S / 4
    # The first of five lines is as old as allowed when the fifth comes.
    assert kept == [0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]
    assert facts(read(path)) == facts(rounds[:12])


def test_the_age_of_flushed_lines_does_not_matter(tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "log.jsonl"
    now = 0.0
    with closing(EnvelopeLogWriter(path, clock=lambda: now)) as writer:
        writer.append(lived[:1])
        now = 1000.0
        writer.append([next(envelope for envelope in lived if envelope.kind == "SumcheckRound")])
        assert len(read(path)) == 1


def test_a_line_as_long_as_the_buffer_does_not_wait(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    long = next(e for e in envelopes([Log(level=LogLevel.Info, message="x" * 2**16)]) if e.kind == "Log")
    with closing(EnvelopeLogWriter(path, clock=lambda: 0.0)) as writer:
        for count in (1, 2, 3):
            writer.append([long])
            assert len(read(path)) == count


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o600), (0o277, 0o400)])
def test_a_log_is_private(umask: int, mode: int, suffix: str, tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    before = os.umask(umask)
    try:
        with closing(EnvelopeLogWriter(path, overwrite=True)) as writer:
            writer.append(lived[:3])
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert len(read(path)) == 3


def test_the_folders_of_a_log_are_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folders" / "log.jsonl"
    with closing(EnvelopeLogWriter(path)):
        modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)]
    assert modes == [0o700, 0o700]


def test_errors_show_a_path_as_one_harmless_line(tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "\x1b]52;c;aGk=\x07\nlog\u202e.jsonl"
    shown = f"{tmp_path}/␛]52;c;aGk=␇␊log�.jsonl"
    writer = EnvelopeLogWriter(path)
    writer.append(lived[:3])
    with pytest.raises(LogError) as existing:
        EnvelopeLogWriter(path)
    with pytest.raises(LogError) as impossible:
        EnvelopeLogWriter(path / "log.jsonl")
    path.unlink()
    with pytest.raises(LogError) as removed:
        writer.close()
    assert [str(error.value) for error in (existing, impossible, removed)] == [
        f"{shown} exists and is not overwritten",
        f"cannot write {shown}/log.jsonl: Not a directory",
        f"{shown} was removed while it was written",
    ]


KILLED = """
import os, signal, sys
from pathlib import Path
from proofstream.envelope_log import EnvelopeLogWriter
from proofstream.testing import envelopes, read_stream

lived = envelopes(read_stream(Path(sys.argv[2])))
writer = EnvelopeLogWriter(Path(sys.argv[1]))
ends = [i for i, envelope in enumerate(lived) if envelope.kind == "LayerEnd"]
for begin in range(0, 1500, 7):
    writer.append(lived[begin : begin + 7])
    if any(begin <= end < begin + 7 for end in ends):
        print(begin + 7, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_killed_writer_leaves_everything_flushed(suffix: str, tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    command = [sys.executable, "-c", KILLED, str(path), str(WIRE / "smollm2-135m-cpu.jsonl")]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert killed.returncode == -9, killed.stderr
    flushed = int(killed.stdout.split()[-1])
    found = read(path)
    assert flushed > 1400
    assert len(found) >= flushed
    assert facts(found) == facts(lived[: len(found)])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_log_cut_anywhere_is_readable_up_to_the_cut(suffix: str, tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    writer = EnvelopeLogWriter(path)
    for begin in range(0, 300, 10):
        writer.append(lived[begin : begin + 10])
        writer.flush()
    writer.close()
    whole = path.read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:size])
        items = list(read_envelope_log(path))
        good = [item for item in items if isinstance(item, Decoded)]
        assert facts(good) == facts(lived[: len(good)])
        # A partial line at the end is refused in a plain log, but not in a compressed one, which is known to be cut.
        assert len(items) - len(good) <= (0 if suffix else 1)


def read_to_the_end(path: Path) -> tuple[list[Decoded | Refusal], str]:
    """Read a log. Returns all that came out, and the error that followed."""
    items: list[Decoded | Refusal] = []
    try:
        items.extend(read_envelope_log(path))
    except SourceError as error:
        return items, str(error)
    return items, ""


def written(path: Path, lived: list[Envelope]) -> bytes:
    writer = EnvelopeLogWriter(path)
    writer.append(lived)
    writer.close()
    return path.read_bytes()


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_a_log_that_was_cut_is_said_to_be_so(
    suffix: str, tmp_path: Path, lived: list[Envelope], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    whole = written(path, lived[:100])
    assert len(read(path)) == 100
    assert caplog.messages == []
    path.write_bytes(whole[:-1])
    assert len(read(path)) == 100
    (said,) = caplog.messages
    assert f"{path} ends in the middle of its compressed data (byte {len(whole) - 1}" in said


@pytest.mark.parametrize("suffix", [".gz", ZST])
def test_a_damaged_log_gives_all_that_is_good_and_then_the_place_of_the_damage(
    suffix: str, tmp_path: Path, lived: list[Envelope]
) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    whole = written(path, lived[:100])
    path.write_bytes(whole + b"more")
    items, error = read_to_the_end(path)
    assert facts([item for item in items if isinstance(item, Decoded)]) == facts(lived[:100])
    assert error.startswith(f"{path} is damaged at byte {len(whole)}: ")
    second = bytearray(whole)
    second[len(second) // 2] ^= 0xFF
    path.write_bytes(whole + second)
    items, error = read_to_the_end(path)
    good = [item for item in items[:100] if isinstance(item, Decoded)]
    assert facts(good) == facts(lived[:100])
    assert f"{path} is damaged at byte " in error
    assert " 2: " in error


def test_a_log_with_a_wrong_checksum_gives_all_of_it(tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "log.jsonl.gz"
    whole = bytearray(written(path, lived))
    whole[-5] ^= 1
    path.write_bytes(whole)
    items, error = read_to_the_end(path)
    assert facts([item for item in items if isinstance(item, Decoded)]) == facts(lived)
    assert "in member 1: its checksum is wrong" in error


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_size_limit_holds_and_dropped_envelopes_are_counted(
    suffix: str, tmp_path: Path, lived: list[Envelope]
) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    bound = 20_000
    writer = EnvelopeLogWriter(path, max_bytes=bound)
    for begin in range(0, len(lived), 50):
        writer.append(lived[begin : begin + 50])
    writer.close()
    end_marker = 32 if suffix else 0
    assert bound / 2 < path.stat().st_size <= bound + end_marker
    found = read(path)
    assert len(found) + writer.dropped == len(lived)
    assert writer.dropped > 0
    assert facts(found) == facts(lived[: len(found)])


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Simulates a disk that is full once a file has this many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_one_clear_error_and_the_rest_is_counted(
    suffix: str, tmp_path: Path, lived: list[Envelope]
) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    writer = EnvelopeLogWriter(path)
    limit = 80_000 if suffix else 150_000
    errors: list[str] = []
    with largest_file(limit):
        for begin in range(0, len(lived), 10):
            try:
                writer.append(lived[begin : begin + 10])
            except LogError as error:
                errors.append(str(error))
        writer.close()
    assert errors == [f"cannot write {path}: File too large"]
    found = read(path)
    assert found
    assert facts(found) == facts(lived[: len(found)])
    assert writer.lost == len(lived) - len(found)
    assert 0 < path.stat().st_size <= limit


def test_a_full_disk_within_one_large_batch_counts_all_of_it(tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "log.jsonl"
    writer = EnvelopeLogWriter(path)
    with largest_file(100_000):
        with pytest.raises(LogError):
            writer.append(lived)
        writer.close()
    found = read(path)
    assert 0 < len(found) < len(lived)
    assert writer.lost == len(lived) - len(found)


def test_a_full_disk_at_the_size_limit_is_counted_once(tmp_path: Path, lived: list[Envelope]) -> None:
    writer = EnvelopeLogWriter(tmp_path / "log.jsonl", max_bytes=20_000)
    with largest_file(10_000), pytest.raises(LogError):
        writer.append(lived)
    writer.close()
    assert writer.lost == len(lived)
    assert writer.dropped == 0
    assert read(tmp_path / "log.jsonl") == []


def test_a_recording_is_not_overwritten_unless_requested(tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("precious")
    with pytest.raises(LogError, match="exists and is not overwritten") as caught:
        EnvelopeLogWriter(path)
    assert caught.value.hint is not None
    assert path.read_text() == "precious"
    writer = EnvelopeLogWriter(path, overwrite=True)
    writer.append(lived[:3])
    writer.close()
    assert len(read(path)) == 3


def test_a_log_that_cannot_be_created_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(LogError, match=r"^cannot write .*: Not a directory$|^cannot write .*: File exists$"):
            EnvelopeLogWriter(tmp_path / "file" / "log.jsonl", overwrite=overwrite)
        with pytest.raises(LogError):
            EnvelopeLogWriter(tmp_path, overwrite=overwrite)


def test_zst_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(LogError, match="zstandard is missing") as caught:
        EnvelopeLogWriter(tmp_path / "log.jsonl.zst")
    assert caught.value.hint == "pip install 'proofstream[zst]'"
    assert list(tmp_path.iterdir()) == []


def test_unreadable_lines_are_refused_and_the_rest_is_read(tmp_path: Path, lived: list[Envelope]) -> None:
    path = tmp_path / "log.jsonl"
    good = encode_envelope(lived[5])
    path.write_bytes(b"\n".join([good, good[:40], b"", good.replace(b'"v":1', b'"v":9'), good]))
    items = list(read_envelope_log(path))
    assert [item.line for item in items if isinstance(item, Refusal)] == [2, 4]
    assert len(items) == 4


def test_a_missing_log_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        list(read_envelope_log(tmp_path / "none.jsonl"))
