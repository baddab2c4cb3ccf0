"""The plugin in its host: settings, refusals, the command with every kind of connection, and a session in a process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rerun.chunk import RrdReader

from proofstream import ConfigError, OptionKind, ProofAborted, ProofComplete, ProofStart, SumcheckRound
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_rerun import RerunPlugin
from proofstream_rerun.settings import Settings, read_settings

SESSION = """
import sys
import proofstream
from pathlib import Path
from proofstream.testing import read_stream
from proofstream_rerun import RerunPlugin

with proofstream.open_session(plugins=[RerunPlugin(connections=sys.argv[2:])]) as session:
    for decoded in read_stream(Path(sys.argv[1])):
        session.emit(decoded.event)
print("done", flush=True)
"""


def proofstream(kit: Any, *arguments: str | Path, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run the command on a stream without a console."""
    command = [sys.executable, "-m", "proofstream", "run", *map(str, arguments), "--no-plugin", "console"]
    return subprocess.run(command, env=kit.environ, capture_output=True, text=True, timeout=timeout_s, check=False)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the plugin's lines on standard error."""
    return [line for line in done.stderr.splitlines() if line.startswith("proofstream: rerun")]


def rounds_of(stream: Path) -> int:
    """Count the sumcheck rounds of a stream."""
    return sum(isinstance(decoded.event, SumcheckRound) for decoded in read_stream(stream))


def rounds_in(kit: Any, path: Path) -> int:
    """Count the sumcheck rounds of a recording."""
    return sum(count for name, count in kit.rows_of(path).items() if name.endswith(":gkr/rounds"))


def test_there_is_one_flag_that_may_be_repeated() -> None:
    (option,) = RerunPlugin().proofstream_options()
    assert (option.flag, option.key, option.kind) == ("--rerun", "connections", OptionKind.REPEATED)
    assert option.artefact is not None
    assert option.artefact.form.format(path="out/proof.rrd") == "file:out/proof.rrd"
    told = option.artefact.next_step.format(path="out/proof.rrd", folder="bin/")
    assert told == "look at it in 3D: bin/rerun out/proof.rrd"
    assert option.artefact.files == (".",)


def test_settings_come_from_all_places_in_one_form() -> None:
    assert read_settings({}) == Settings()
    assert read_settings({"connections": "serve"}).connections == ("serve",)
    assert read_settings({"connections": ["serve", "file:a.rrd"]}).connections == ("serve", "file:a.rrd")
    assert read_settings({"resend_mib": "8"}).resend_mib == 8  # from the environment


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"connections": 7}, "rerun.connections: input should be a valid tuple"),
        ({"connections": ["serve", 7]}, "rerun.connections.1: input should be a valid string"),
        ({"application_id": ""}, "rerun.application_id: string should have at least 1 character"),
        ({"overwrite": "perhaps"}, "rerun.overwrite: input should be a valid boolean"),
        ({"resend_mib": 0}, "rerun.resend_mib: input should be greater than or equal to 1"),
        ({"connection": "serve"}, "rerun.connection: there is no such key; did you mean connections?"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_settings(table)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("amount", ["1", "1 GiB", "lots", "-1GiB", "1gib"])
def test_amounts_are_those_that_rerun_reads(amount: str) -> None:
    with pytest.raises(ConfigError, match=r"^rerun\.server_memory: "):
        read_settings({"server_memory": amount})


def test_it_sits_out_a_run_without_connections() -> None:
    host = InlineHost(RerunPlugin())
    host.feed(envelopes([]))
    assert host.health() == {}
    host.close()


def test_values_given_to_the_class_win_over_the_table(tmp_path: Path, kit: Any, smol: Path) -> None:
    host = InlineHost(RerunPlugin(connections=f"file:{tmp_path / 'own.rrd'}"), {"connections": "serve"}, live=False)
    host.feed(envelopes(read_stream(smol)))
    host.close()
    assert [path.name for path in tmp_path.iterdir()] == ["own.rrd"]


@pytest.mark.parametrize(
    ("connection", "problem"),
    [
        ("file:", "rerun: 'file:' is not a connection: it names no file"),
        ("file:/dev/null/x/proof.rrd", "rerun: file:/dev/null/x/proof.rrd: there is no folder /dev/null/x"),
        ("spawn", "rerun: spawn opens a window, and there is no screen (no DISPLAY)"),
    ],
)
def test_an_impossible_connection_is_refused_before_anything_is_drawn(
    kit: Any, monkeypatch: pytest.MonkeyPatch, connection: str, problem: str
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with kit.port_9876_unused(), pytest.raises(ConfigError) as raised:
        InlineHost(RerunPlugin(), {"connections": [connection]})
    assert str(raised.value) == problem
    assert raised.value.hint


def test_a_file_that_exists_is_kept_and_all_proofs_of_the_run_go_beside_it(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["proof.rrd", "proof-2.rrd"]
    for name in names:
        (tmp_path / name).write_text("of an earlier run")
    host = InlineHost(RerunPlugin(), {"connections": [f"file:{tmp_path / 'proof.rrd'}"]}, live=False)
    start = ProofStart(num_layers=1, model_name="m", backend="cpu", input_shape=(1, 1), output_shape=(1, 1))
    for session in ("one", "two"):
        host.feed(envelopes([start], session_id=session))
    host.close()
    assert [(tmp_path / name).read_text() for name in names] == ["of an earlier run"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "proof-3.rrd", "proof-4.rrd"])
    for name in ("proof-3.rrd", "proof-4.rrd"):
        assert kit.verify(tmp_path / name) == ""
    assert caplog.messages == []


@pytest.mark.parametrize("value", ["off", "OFF", "0", "false"])
def test_an_environment_that_switches_rerun_off_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("RERUN", value)
    with pytest.raises(ConfigError, match=f"RERUN={value} in the environment switches Rerun off"):
        InlineHost(RerunPlugin(), {"connections": [f"file:{tmp_path / 'proof.rrd'}"]})
    assert list(tmp_path.iterdir()) == []


def test_a_huge_number_of_layers_is_still_recorded(kit: Any, tmp_path: Path) -> None:
    path = tmp_path / "proof.rrd"
    host = InlineHost(RerunPlugin(connections=f"file:{path}"), live=False)
    start = ProofStart(num_layers=2**64 - 1, model_name="m", backend="cpu", input_shape=(1, 1), output_shape=(1, 1))
    host.feed(envelopes([start]))
    host.close()

    columns: dict[str, Any] = {}
    chunks: Any = RrdReader(path).stream()  # chunks hold pyarrow values, and pyarrow ships no types
    for chunk in chunks:
        columns |= chunk.to_record_batch().to_pydict()
    assert columns["layers"] == [[2**64 - 1]]


def test_a_mistake_ends_the_command_with_one_line_and_a_hint(kit: Any, smol: Path) -> None:
    done = proofstream(kit, smol, "--rerun", "spwan")

    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if "rerun" in line] == [
        "proofstream: error: rerun: 'spwan' is not a connection: spwan is not spawn, serve or file"
    ]
    assert "hint: did you mean spawn?" in done.stderr


def test_spawn_beside_a_file_is_given_up_with_one_line_and_counted(kit: Any, smol: Path, tmp_path: Path) -> None:
    kit.environ.pop("DISPLAY", None)
    kit.environ.pop("WAYLAND_DISPLAY", None)
    done = proofstream(kit, smol, "--rerun", "spawn", "--rerun", f"file:{tmp_path / 'proof.rrd'}")

    assert done.returncode == 1
    assert said(done)[0].startswith(
        "proofstream: rerun: spawn opens a window, and there is no screen (no DISPLAY); use "
    )
    assert "1 lost viewers" in done.stderr
    assert kit.verify(tmp_path / "proof.rrd") == ""


def test_the_command_writes_a_file_and_shows_it_at_the_same_time(kit: Any, smol: Path, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    path = tmp_path / "proof.rrd"
    done = proofstream(kit, smol, "--rerun", f"file:{path}", "--rerun", f"127.0.0.1:{viewer.port}", "--rerun", "serve")

    assert done.returncode == 0, done.stderr
    assert [line.rpartition(":")[0] for line in said(done)] == [
        "proofstream: rerun: until the replay has ended it can be watched: rerun --connect rerun+http://127.0.0.1"
    ]
    assert kit.verify(path) == ""
    assert rounds_in(kit, path) == rounds_of(smol)
    rows = kit.rows_of(path)
    assert kit.eventually(lambda: same_rows(viewer.rows(), rows))


def same_rows(some: Any, others: Any) -> bool:
    """Return whether both have the same rows, except for properties, which Rerun may split."""
    return all(some[name] == count for name, count in others.items() if "__properties" not in name)


def test_a_session_ends_in_time_whatever_the_viewers_do(kit: Any, smol: Path, tmp_path: Path) -> None:
    stopped = kit.viewer(tmp_path / "seen.rrd")
    stopped.pause()
    ports = [kit.free_port(), kit.silent_peer().port, stopped.port]
    path = tmp_path / "proof.rrd"
    began = time.monotonic()
    done = kit.run_python(SESSION, str(smol), f"file:{path}", *(f"127.0.0.1:{port}" for port in ports))

    assert time.monotonic() - began < 20  # imports, the session, five seconds to close, the interpreter's exit
    assert done.stdout == "done\n"
    assert done.returncode == 0
    assert kit.verify(path) == ""
    assert rounds_in(kit, path) == rounds_of(smol)


def test_several_proofs_of_one_session_are_several_recordings(kit: Any, tmp_path: Path) -> None:
    stream = Path(__file__).parents[2] / "data" / "wire" / "aborted-then-next.jsonl"
    host = InlineHost(RerunPlugin(connections=f"file:{tmp_path / 'proof.rrd'}"), live=False)
    host.feed(envelopes(read_stream(stream)))
    host.close()

    starts = sum(isinstance(decoded.event, ProofStart) for decoded in read_stream(stream))
    ends = sum(isinstance(decoded.event, ProofAborted | ProofComplete) for decoded in read_stream(stream))
    files = sorted(tmp_path.iterdir())
    assert len(files) == max(starts, ends) > 1
    assert len({kit.recordings_of(file)[0] for file in files}) == len(files)
    assert [kit.verify(file) for file in files] == [""] * len(files)
