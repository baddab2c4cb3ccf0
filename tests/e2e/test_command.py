"""The command line as a user meets it: its messages, and its exit statuses."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data" / "wire"
GENUINE = Path(__file__).parents[1] / "data" / "genuine"
SMOL = DATA / "smollm2-135m-cpu.jsonl"


def one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("proofstream: error: ")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "Missing argument 'SOURCE'"),
        (["run", "none.jsonl"], "cannot read none.jsonl"),
        (["run", "ftp://host/x"], "no source is called 'ftp'"),
        (["run", str(SMOL), "--otlpp"], "No such option '--otlpp'"),
        (["run", str(SMOL), "--plugin", "nope"], "no plugin is named 'nope'"),
        (["run", str(SMOL), "--plugin", "otel", "--no-plugin", "otel"], "both asked for and switched off"),
        (["run", str(SMOL), "--set", "otel"], "not of the form plugin.key=value"),
        (["run", str(SMOL), "--set", "oetl.x=1"], "no plugin is named 'oetl'"),
        (["run", str(SMOL), "--otlp-file", "x", "--set", "otel.colour=1"], "otel.colour"),
        (["run", str(SMOL), "--otlp-file", "x", "--no-plugin", "otel"], "No such option '--otlp-file'"),
        (["run", str(SMOL), "--speed", "0"], "--speed"),
        (["run", str(SMOL), "--config", "none.toml"], "none.toml"),
        (["run", "tcp://192.0.2.1:4000"], "loopback"),
        (["run", "demo:nope"], "no demo model"),
        (["run", "demo:digits", "--speed", "2"], "demo:digits is live"),
        (
            ["run", str(SMOL), "--otlp", "localhost:4318"],
            "write http:// or https:// or grpc:// or grpcs:// before the address",
        ),
        (["run", str(SMOL), "--set", "otel.colour=1"], "otel.colour"),
        (["run", str(SMOL), "--no-plugin", "otl"], "no plugin is named 'otl'; did you mean otel?"),
        (["walk"], "No such command 'walk'"),
        (["demo", "nope"], "nope"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(proofstream_command: Any, words: list[str], says: str) -> None:
    result = proofstream_command(*words)
    assert result.status == 2
    assert says in one_line(result.err)
    assert result.out == ""


@pytest.mark.parametrize("words", [["run"], ["run", str(SMOL), "--nope"], ["run", str(SMOL), "--record"]])
def test_a_mistake_in_the_words_points_to_the_help(proofstream_command: Any, words: list[str]) -> None:
    result = proofstream_command(*words)
    assert result.status == 2
    assert result.err.splitlines()[-1] == "proofstream: hint: see: proofstream run --help"


def test_without_a_word_it_says_what_there_is(proofstream_command: Any) -> None:
    result = proofstream_command()
    assert (result.status, result.err) == (0, "")
    assert "Commands:" in result.out


def test_the_wrong_file_is_refused_line_by_line(proofstream_command: Any, tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl").write_text('{"resourceSpans":[]}\n')
    result = proofstream_command("run", "traces.jsonl")
    assert result.status == 1
    assert "line 1 refused: not an event: kinds begin with a capital letter, and this is 'resourceSpans'" in result.err


def said(result: Any) -> list[str]:
    """Return what the command itself says, without its first line, which names the source."""
    return [line for line in result.err.splitlines() if line.startswith("proofstream: ")][1:]


def test_a_file_of_another_form_is_named_once(proofstream_command: Any, tmp_path: Path) -> None:
    shutil.copy(GENUINE / "plonky3" / "full.stdout.txt", tmp_path / "full.txt")
    result = proofstream_command("run", "full.txt")
    assert result.status == 1
    named, total = said(result)
    reason = 'text of a tracing subscriber: only events are read, one JSON object a line, such as {"LayerEnd":{...}}'
    assert named == f"proofstream: full.txt: line 1 refused: {reason}"
    assert total == "proofstream: not delivered: 40 refused"


def test_a_damaged_file_is_one_line_and_status_1_and_costs_no_layer(proofstream_command: Any, tmp_path: Path) -> None:
    stored = bytearray(gzip.compress(SMOL.read_bytes()))
    stored[-8] ^= 1
    (tmp_path / "bad.jsonl.gz").write_bytes(stored)
    result = proofstream_command("run", "bad.jsonl.gz")
    assert result.status == 1
    assert "(211 of 211 layers" in result.err
    (line,) = said(result)
    place = f"bad.jsonl.gz is damaged at byte {len(stored) - 8}, in member 1"
    what = "its checksum is wrong; all of it was read, and some of it may be wrong"
    assert line == f"proofstream: not delivered: {place}: {what}"


def test_a_file_that_a_killed_writer_cut_is_said_and_status_0(proofstream_command: Any, tmp_path: Path) -> None:
    stored = gzip.compress(SMOL.read_bytes())
    (tmp_path / "cut.jsonl.gz").write_bytes(stored[:-4])
    result = proofstream_command("run", "cut.jsonl.gz")
    assert result.status == 0
    assert "(211 of 211 layers" in result.err
    (line,) = said(result)
    place = f"ends in the middle of its compressed data (byte {len(stored) - 4}, in member 1)"
    assert line == f"proofstream: cut.jsonl.gz {place}, as if its writer was killed; everything before that was read"


def test_help_names_every_flag_of_every_plugin(proofstream_command: Any) -> None:
    result = proofstream_command("run", "--help")
    assert result.status == 0
    for flag in ("--otlp", "--otlp-file", "--record", "--console / --no-console", "--speed", "--follow", "--once"):
        assert flag in result.out


@pytest.mark.parametrize(("listing", "key"), [("plugins", "name"), ("events", "kind"), ("sources", "source")])
def test_listings_for_people_and_for_programs(proofstream_command: Any, listing: str, key: str) -> None:
    rows = json.loads(proofstream_command(listing, "--json").out)
    shown = proofstream_command(listing)
    assert shown.status == 0
    assert len(rows) > 3
    for row in rows:
        assert row[key] in shown.out


def test_a_blocked_plugin_shows_as_disabled(proofstream_command: Any) -> None:
    rows = json.loads(proofstream_command("plugins", "--json", "--no-plugin", "demo").out)
    assert {r["name"]: r["status"] for r in rows}["demo"] == "disabled"


def test_an_aborted_proof_is_not_our_failure(proofstream_command: Any) -> None:
    result = proofstream_command("run", DATA / "aborted-then-next.jsonl")
    assert result.status == 0
    assert "aborted" in result.err


def test_quiet_says_only_what_went_wrong(proofstream_command: Any) -> None:
    good = proofstream_command("run", SMOL, "-q")
    assert (good.status, good.out, good.err) == (0, "", "")
    bad = proofstream_command("run", DATA / "malformed.jsonl", "--no-console", "-q")
    assert bad.status == 1
    assert "5 refused" in bad.err


def test_otlp_takes_the_next_word_only_if_it_is_an_endpoint(proofstream_command: Any) -> None:
    proofstream_command.env["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result = proofstream_command("run", "--otlp", f"http://127.0.0.1:{port}", DATA / "stark-without-proof.jsonl", "-q")
    assert result.status == 1
    assert "not delivered" in result.err
    assert "lost spans" in result.err


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": '"http://u:s3cret@127.0.0.1:9"'}, "OTEL_EXPORTER_OTLP_ENDPOINT: "),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:99999"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "),
        ({"OTEL_EXPORTER_OTLP_CLIENT_KEY": str(SMOL)}, "OTEL_EXPORTER_OTLP_CLIENT_KEY: "),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "udp"}, "OTEL_EXPORTER_OTLP_PROTOCOL: "),
    ],
)
def test_a_variable_that_cannot_be_right_ends_the_command_before_the_proof(
    proofstream_command: Any, environ: dict[str, str], named: str
) -> None:
    proofstream_command.env |= environ
    result = proofstream_command("run", SMOL, "--no-console", "--otlp")
    (line,) = result.err.splitlines()
    assert result.status == 2
    assert line.startswith(f"proofstream: error: {named}")
    assert "Error" not in line
    assert "s3cret" not in line


@pytest.mark.parametrize(
    "url",
    ["ftp://u:s3cret@127.0.0.1:9", '"http://u:s3cret@127.0.0.1:9"', "http://u:s3cret@127.0.0.1:abc", "http://[::1"],
)
def test_an_address_that_cannot_be_right_ends_the_command_before_the_proof(proofstream_command: Any, url: str) -> None:
    result = proofstream_command("run", SMOL, "--no-console", "--otlp", url)
    (line,) = result.err.splitlines()
    assert result.status == 2
    assert line.startswith("proofstream: error: --otlp: otel.endpoint: ")
    assert "Error" not in line
    assert "s3cret" not in line


def test_a_variable_whose_plugin_misses_a_package_is_told(proofstream_command: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["opentelemetry.sdk"] = None\n')
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    proofstream_command.env |= {"PYTHONPATH": path, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    result = proofstream_command("run", SMOL, "--no-console", "-q")
    assert result.status == 0
    assert result.err == (
        "proofstream: OTEL_EXPORTER_OTLP_ENDPOINT is set, and plugin otel cannot be used: "
        "needs opentelemetry.sdk, which is not installed (pip install 'proofstream[otel]')\n"
    )


@pytest.mark.parametrize(
    ("tracestate", "expected"),
    [
        ("vendor=1, other=2", "vendor=1,other=2"),
        (",".join(f"k{index}={'v' * 100}" for index in range(9)), ",".join(f"k{i}={'v' * 100}" for i in range(4))),
        ("", None),
        ("\u20ac", None),
    ],
)
def test_the_state_of_a_trace_goes_along_with_its_parent(
    proofstream_command: Any, spans_in: Any, tmp_path: Path, tracestate: str, expected: str | None
) -> None:
    proofstream_command.env |= {
        "TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "TRACESTATE": tracestate,
    }
    assert proofstream_command("run", "-", "--otlp-file", "o", "-q", stdin=SMOL.read_text()).status == 0
    found = {(span["traceId"], span.get("traceState")) for span in spans_in(tmp_path / "o") if span["name"] == "proof"}
    assert found == {("0af7651916cd43dd8448eb211c80319c", expected)}


def test_a_state_without_a_trace_is_left_out(proofstream_command: Any, spans_in: Any, tmp_path: Path) -> None:
    proofstream_command.env |= {"TRACESTATE": "vendor=1"}
    assert proofstream_command("run", "-", "--otlp-file", "o", "-q", stdin=SMOL.read_text()).status == 0
    assert {span.get("traceState") for span in spans_in(tmp_path / "o")} == {None}


def test_configuration_from_a_file(proofstream_command: Any, tmp_path: Path) -> None:
    (tmp_path / "proofstream.toml").write_text('[otel]\nfile = "from-config"\n')
    result = proofstream_command("run", SMOL, "--no-console", "--config", "proofstream.toml")
    assert result.status == 0
    assert "proofstream: settings from proofstream.toml\n" in result.err
    assert (tmp_path / "from-config" / "traces.jsonl").stat().st_size > 100_000


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_what_was_received(
    proofstream_command: Any, tmp_path: Path, spans_in: Any, number: int, status: int
) -> None:
    process = proofstream_command.start("run", "-", "--otlp-file", "out", "--record", "r.jsonl", "-v", stdin=-1)
    assert process.stdin is not None
    lines = SMOL.read_text().splitlines(keepends=True)
    process.stdin.write("".join(lines[:600]))
    process.stdin.flush()
    wait_for_text(tmp_path / "r.jsonl", "LayerEnd")
    began = time.monotonic()
    process.send_signal(number)
    _, err = wait_for_end(process)
    assert time.monotonic() - began < 10
    assert process.returncode == status, err
    spans = spans_in(tmp_path / "out")
    (proof,) = [s for s in spans if s["name"] == "proof"]
    assert proof["status"]["code"] == 2
    assert signal.Signals(number).name in proof["status"]["message"]
    recorded = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    # What plugins derived from the last events may follow the session's end.
    last = next(envelope for envelope in reversed(recorded) if envelope.get("origin") in (None, "producer", "host"))
    assert last["event"].keys() == {"SessionClosed"}


def wait_for_text(path: Path, text: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{text} never came to {path.name}")


def test_a_kill_leaves_every_file_readable(proofstream_command: Any, tmp_path: Path, spans_in: Any) -> None:
    process = proofstream_command.start("run", "-", "--otlp-file", "out", "--record", "r.jsonl", stdin=-1)
    assert process.stdin is not None
    process.stdin.write(SMOL.read_text())
    process.stdin.flush()
    wait_for_text(tmp_path / "r.jsonl", "ProofComplete")
    process.kill()
    process.communicate(timeout=20)
    spans_in(tmp_path / "out")
    result = proofstream_command("run", "r.jsonl", "--otlp-file", "again", "--no-console")
    assert result.status == 0, result.err
    spans = spans_in(tmp_path / "again")
    assert sum(s["name"].startswith("layer ") for s in spans) == 211


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("after_s", [0.2, 0.5, 0.9])
def test_a_kill_at_any_moment_of_a_replay(
    proofstream_command: Any, tmp_path: Path, spans_in: Any, suffix: str, after_s: float
) -> None:
    (tmp_path / "many.jsonl").write_text(SMOL.read_text() * 120)
    recording = tmp_path / f"r.jsonl{suffix}"
    process = proofstream_command.start(
        "run", "many.jsonl", "--otlp-file", "out", "--record", recording, "--no-console"
    )
    wait_until_it_holds(1, tmp_path / "out" / "traces.jsonl")
    # More than the session's first line: the two lanes are independent of each other.
    wait_until_it_holds(4096, recording)
    time.sleep(after_s)
    process.kill()
    process.communicate(timeout=20)
    written = spans_in(tmp_path / "out")
    assert all(span["traceId"] and span["name"] for span in written)
    result = proofstream_command("run", recording, "--otlp-file", "again", "--no-console")
    assert "Traceback" not in result.err
    replayed = {span["spanId"] for span in spans_in(tmp_path / "again")}
    # What was flushed of the recording is a good beginning: the layers in it are those of the run that was killed.
    layers = {span["spanId"] for span in written if span["name"].startswith("layer ")}
    assert replayed & layers


def wait_until_it_holds(size: int, path: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and path.stat().st_size >= size:
            return
        time.sleep(0.02)
    raise AssertionError(f"fewer than {size} bytes came into {path.name}")


WRITING = """
import os
from pathlib import Path
from proofstream import Artefact, Option, OptionKind, hookimpl

class Plugin:
    autoload = False

    @hookimpl
    def proofstream_options(self):
        artefact = Artefact(name="notes.txt", next_step="read it: cat {path}")
        return [Option(flag="--notes", key="path", kind=OptionKind.VALUE, summary="s", artefact=artefact)]

    @hookimpl
    def proofstream_configure(self, context):
        if "NO_NOTES" in os.environ:
            raise OSError("no notes")
        self.file = open(context.config["path"], "x")

    @hookimpl
    def proofstream_consume(self, batch):
        self.file.writelines(f"{envelope.kind}\\n" for envelope in batch)

    @hookimpl
    def proofstream_unconfigure(self):
        self.file.close()
"""


def install(command: Any, folder: Path, name: str, body: str) -> None:
    """Install a plugin where the command finds it."""
    (folder / f"{name}_plugin.py").write_text(body)
    info = folder / f"{name}_plugin-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(f"[proofstream]\n{name} = {name}_plugin:Plugin\n")
    command.env["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [command.env.get("PYTHONPATH")])])


def test_a_command_turns_a_third_partys_artefact_on_and_goes_on_without_it(
    proofstream_command: Any, tmp_path: Path
) -> None:
    install(proofstream_command, tmp_path, "notes", WRITING)
    words = ("demo", "--no-console", "--no-plugin", "otel", "--no-plugin", "rerun")
    first = proofstream_command(*words)
    assert first.status == 0, first.err
    assert "ProofComplete" in (tmp_path / "proofstream-demo" / "notes.txt").read_text()
    assert "read it: cat proofstream-demo/notes.txt" in first.err
    again = proofstream_command(*words)
    assert again.status == 0, again.err
    assert "ProofComplete" in (tmp_path / "proofstream-demo" / "notes-2.txt").read_text()
    assert "read it: cat proofstream-demo/notes-2.txt" in again.err
    proofstream_command.env["NO_NOTES"] = "1"
    without = proofstream_command(*words)
    assert without.status == 0, without.err
    assert "proofstream: plugin notes (notes-plugin 2.0) is broken: OSError: no notes" in without.err
    assert "replay it: python -m proofstream run proofstream-demo/proof-3.jsonl" in without.err
    assert "cat proofstream-demo" not in without.err
    asked = proofstream_command(*words, "--notes", "proofstream-demo/notes.txt")
    assert asked.status == 2
    assert "no notes" in one_line(asked.err)


def test_a_command_whose_folder_cannot_be_made_keeps_nothing(proofstream_command: Any, tmp_path: Path) -> None:
    (tmp_path / "proofstream-demo").touch()
    result = proofstream_command("demo", "--no-console")
    assert result.status == 0, result.err
    assert "the results are not kept: cannot make proofstream-demo: Not a directory" in result.err


def test_a_run_ends_by_listing_what_it_wrote(proofstream_command: Any, tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    old.write_text("")
    words = ("run", SMOL, "--no-console", "--otlp-file", "new/otlp", "--record", "new/r.jsonl")
    result = proofstream_command(*words)
    assert result.status == 0, result.err
    heading, *lines = result.err.splitlines()[-3:]
    assert heading == "proofstream: the results, and what to do with them:"
    assert sorted(line.split()[0] for line in lines) == ["new/otlp", "new/r.jsonl"]
    quiet = proofstream_command("run", SMOL, "--record", "q.jsonl", "-q")
    assert (quiet.status, quiet.err) == (0, "")
    fresh = proofstream_command("run", SMOL, "--no-console", "--record", "old.jsonl")
    assert fresh.status == 0, fresh.err
    assert fresh.err.splitlines()[0] == "proofstream: old.jsonl exists, so this run writes old-2.jsonl"
    assert fresh.err.splitlines()[-1].split()[0] == "old-2.jsonl"
    assert old.read_text() == ""


def test_strict_ends_the_run_when_a_plugin_fails(proofstream_command: Any, tmp_path: Path) -> None:
    body = (
        "from proofstream import hookimpl\n"
        "class Plugin:\n"
        "    @hookimpl\n"
        "    def proofstream_consume(self, batch):\n"
        "        raise ValueError('cannot count')\n"
    )
    install(proofstream_command, tmp_path, "failing", body)
    lax = proofstream_command("run", SMOL, "--no-console", "--otlp-file", "out")
    assert lax.status == 1
    assert "plugin failing (failing-plugin 2.0) failed" in lax.err
    assert lax.err.count("cannot count") == 2  # once when it happened, once in the summary
    assert (tmp_path / "out" / "traces.jsonl").stat().st_size > 100_000
    process = proofstream_command.start("run", "-", "--no-console", "--strict", stdin=-1)
    assert process.stdin is not None
    process.stdin.write(SMOL.read_text().splitlines(keepends=True)[0])
    process.stdin.flush()
    _, err = wait_for_end(process)
    assert process.returncode == 1
    assert "failing" in err


def wait_for_end(process: Any) -> tuple[str, str]:
    """Wait while the pipe stays open: the command must end on its own."""
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    out, err = process.communicate(timeout=20)
    return str(out), str(err)


def test_a_listing_into_a_closed_pipe_does_not_complain(proofstream_command: Any) -> None:
    read, write = os.pipe()
    os.close(read)
    process = proofstream_command.start("events", "--json", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_the_demo_proves_and_leaves_its_results(proofstream_command: Any, tmp_path: Path, spans_in: Any) -> None:
    result = proofstream_command("demo")
    assert result.status == 0, result.err
    folder = tmp_path / "proofstream-demo"
    for path in ("proof.jsonl", "otlp"):
        assert f"proofstream-demo/{path}" in result.err
    spans = spans_in(folder / "otlp")
    (proof,) = [s for s in spans if s["name"] == "proof"]
    assert proof["status"].get("code", 0) != 2
    again = proofstream_command("demo", "transformer")
    assert again.status == 0, again.err
