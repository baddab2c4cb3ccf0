"""The plugin `record`: its files, when it flushes, and its messages when it cannot write."""

from __future__ import annotations

import importlib.util
import logging
import resource
from pathlib import Path
from typing import Any

import pytest

from proofstream import (
    ConfigError,
    Decoded,
    Envelope,
    GpuReading,
    GpuTelemetry,
    Log,
    LogLevel,
    OptionKind,
    PluginHealth,
    ProofstreamError,
    read_envelope_log,
)
from proofstream.envelope_log import FLUSH_AFTER_S
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_record import RecordPlugin

WIRE = Path(__file__).parents[2] / "data" / "wire"
ZST = pytest.param(
    ".zst",
    marks=pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the extra zst is not installed"),
)


def host_for(path: Path, **config: Any) -> InlineHost:
    return InlineHost(RecordPlugin(), {"path": str(path), **config})


def recorded(path: Path) -> list[Decoded]:
    items = list(read_envelope_log(path))
    assert all(isinstance(item, Decoded) for item in items)
    return [item for item in items if isinstance(item, Decoded)]


def stream(name: str = "smollm2-135m-cpu") -> list[Envelope]:
    return envelopes(read_stream(WIRE / f"{name}.jsonl"))


@pytest.mark.parametrize("suffix", ["", ".gz", ZST])
def test_everything_is_recorded_unchanged(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"r.jsonl{suffix}"
    lived = stream()
    host = host_for(path)
    host.feed(lived)
    host.close()
    assert [(d.raw, d.time_unix_nano, d.session_id, d.origin) for d in recorded(path)] == [
        (e.raw, e.time_unix_nano, e.session_id, e.origin) for e in lived
    ]
    assert host.health() == {"recorded_events": len(lived)}
    assert host.derived == []


def test_the_health_of_plugins_is_not_recorded(tmp_path: Path) -> None:
    health = PluginHealth(
        plugin="x", status="ready", reason=None, depth=0, delivered=0, dropped={}, counters={}, lag_s=0.0
    )
    host = host_for(tmp_path / "r.jsonl")
    host.feed(envelopes([health, Log(level=LogLevel.Info, message="x"), health]))
    host.close()
    assert [type(d.event).__name__ for d in recorded(tmp_path / "r.jsonl")] == ["SessionOpened", "Log", "SessionClosed"]


@pytest.mark.parametrize("kind", ["LayerEnd", "ProofComplete", "SessionClosed"])
def test_it_is_flushed_when_a_piece_of_work_is_done(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofstream.envelope_log.FLUSH_AFTER_S", 1000.0)
    path = tmp_path / "r.jsonl"
    lived = stream()
    rounds = [envelope for envelope in lived if envelope.kind == "SumcheckRound"][:2]
    host = host_for(path)
    host.feed(rounds, batch_size=1)
    before = len(recorded(path))
    host.feed([next(envelope for envelope in lived if envelope.kind == kind)])
    after = len(recorded(path))
    host.close()
    assert (before, after) == (0, 3)


def test_a_tick_flushes(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    host = host_for(path)
    host.feed([next(envelope for envelope in stream() if envelope.kind == "SumcheckRound")])
    assert recorded(path) == []
    # A line waits for a tick or for the log's own limit: for a second at most.
    assert RecordPlugin.tick_s + FLUSH_AFTER_S <= 1.0
    host.tick()
    assert len(recorded(path)) == 1
    host.close()


def test_a_recording_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("precious")
    host = host_for(path)
    host.feed(stream()[:3])
    host.close()
    assert path.read_text() == "precious"
    assert len(recorded(tmp_path / "r-2.jsonl")) == 3
    host_for(path, overwrite=True).close()
    assert path.read_text() == "precious"
    host = host_for(path, overwrite=True)
    host.feed(stream()[:3])
    host.close()
    assert len(recorded(path)) == 3


def test_two_runs_never_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first = host_for(path, overwrite=True)
    first.feed(stream()[:3])
    with pytest.raises(ProofstreamError, match=f"^another run is writing {path}\n"):
        host_for(path, overwrite=True)
    first.close()
    assert len(recorded(path)) == 3


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/dev/null", "cannot write /dev/null: it exists and is not a regular file"),
        ("{folder}", "cannot write {folder}: it exists and is not a regular file"),
        ("{folder}/file/below", "cannot write {folder}/file/below: Not a directory"),
    ],
)
def test_what_is_no_file_is_refused_in_one_line(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProofstreamError) as raised:
        host_for(Path(path.format(folder=tmp_path)))
    assert str(raised.value) == says.format(folder=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_run_that_received_nothing_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    host_for(path).close()
    assert not path.exists()


def test_gpu_samples_are_recorded_only_after_another_event(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    sample = GpuTelemetry(devices=[GpuReading(id="GPU-1", state="ok")])
    alone = [envelope for envelope in envelopes([sample], close=False) if envelope.event is sample]
    host = host_for(path)
    host.feed(alone)
    host.close()
    assert not path.exists()
    assert host.health() == {"recorded_events": 0}

    host = host_for(path)
    host.feed([*alone, *envelopes([sample, sample])])
    host.close()
    kinds = [type(decoded.event).__name__ for decoded in recorded(path)]
    assert kinds == ["SessionOpened", "GpuTelemetry", "GpuTelemetry", "SessionClosed"]


def test_the_bound_is_counted_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lived = stream()
    host = host_for(tmp_path / "r.jsonl", max_bytes=150_000)
    with caplog.at_level(logging.ERROR):
        host.feed(lived, batch_size=100)
        host.close()
    found = len(recorded(tmp_path / "r.jsonl"))
    assert host.health() == {"recorded_events": found, "lost_events": len(lived) - found}
    assert found > 0
    assert [record.getMessage() for record in caplog.records] == [
        f"the recording ends here: {tmp_path}/r.jsonl has reached record.max_bytes"
    ]


def test_a_full_disk_is_counted_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lived = stream()
    host = host_for(tmp_path / "r.jsonl")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
    try:
        with caplog.at_level(logging.ERROR):
            host.feed(lived, batch_size=100)
            host.tick()
            host.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    found = len(recorded(tmp_path / "r.jsonl"))
    assert host.health() == {"recorded_events": found, "lost_events": len(lived) - found}
    assert found > 0
    assert [record.getMessage() for record in caplog.records] == [
        f"the recording ends here: cannot write {tmp_path}/r.jsonl: File too large"
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"path": "x", "colour": 1}, "record.colour: there is no such key; known are max_bytes, overwrite, path"),
        ({"path": ""}, "record.path: it must name a file"),
        ({"path": "-"}, "record.path: it must name a file"),
        ({"path": "x", "max_bytes": 0}, "record.max_bytes: input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_configuration_is_one_clear_line(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        InlineHost(RecordPlugin(), config)
    assert str(caught.value) == message


def test_the_flag_sets_the_path_and_has_an_artefact() -> None:
    (option,) = RecordPlugin().proofstream_options()
    assert (option.flag, option.key, option.kind) == ("--record", "path", OptionKind.VALUE)
    assert option.artefact is not None
    assert option.artefact.name == "proof.jsonl"
    assert option.artefact.next_step.format(path="P", command="C") == "replay it: C run P"


@pytest.mark.parametrize("config", [{}, {"overwrite": True}])
def test_it_sits_out_a_run_that_is_not_recorded(config: dict[str, Any], tmp_path: Path) -> None:
    plugin = RecordPlugin()
    host = InlineHost(plugin, config)
    assert plugin.proofstream_configure(host.context) is False
    plugin.proofstream_consume(tuple(stream()))
    plugin.proofstream_unconfigure()
    assert plugin.proofstream_report_health() == {}
