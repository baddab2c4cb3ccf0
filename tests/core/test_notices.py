"""What a program hears of its session that has not set logging up, and what one hears that has."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import io, logging, sys, time
import proofstream
from proofstream import LayerKind, Log, LogLevel, hookimpl, open_session

class Broken:
    @hookimpl
    def proofstream_configure(self):
        raise ValueError("no such device")
    @hookimpl
    def proofstream_consume(self, batch): ...

class Failing:
    @hookimpl
    def proofstream_consume(self, batch):
        raise ValueError("no such device")

class Fine:
    @hookimpl
    def proofstream_consume(self, batch): ...

def prove(session, **names):
    with session.proof(num_layers=1, **names) as proof, proof.layer(0, kind=LayerKind.MatMul):
        pass

class Heard(io.TextIOBase):
    def __init__(self):
        self.lines = []
    def write(self, text):
        self.lines += text.splitlines()

    def soon(self):
        \"\"\"Wait until something was said.\"\"\"
        deadline = time.monotonic() + 20
        while not self.lines and time.monotonic() < deadline:
            time.sleep(0.01)
        return list(self.lines)

stderr, sys.stderr = sys.stderr, Heard()
heard = sys.stderr
"""
LOGGING = 'logging.basicConfig(format="LOG %(message)s", stream=heard)\n'


def run(code: str, folder: Path) -> list[str]:
    """Run a program and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + code], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("plugin", "line"),
    [
        ("Broken()", "not delivered: plugin Broken broken: ValueError: no such device"),
        ("Failing()", "plugin Failing failed and is disabled: ValueError: no such device"),
    ],
)
@pytest.mark.parametrize("logging", [False, True])
def test_a_plugin_that_cannot_work_is_said_at_once_and_once(
    plugin: str, line: str, logging: bool, tmp_path: Path
) -> None:
    code = f"""
session = open_session(plugins=[{plugin}, Fine()])
prove(session)
print(*heard.soon(), sep="\\n")
report = session.close()
print(len(heard.lines), report.ok, len(report.problems), report.problems == session.problems)
"""
    said, summary = run((LOGGING if logging else "") + code, tmp_path)
    assert said == f"{'LOG' if logging else 'proofstream:'} {line} (the logger proofstream shows where at level DEBUG)"
    assert summary == "1 False 1 True"


def test_a_plugin_that_was_given_and_has_nothing_to_do_is_said_at_once(tmp_path: Path) -> None:
    code = """
class Idle(Fine):
    @hookimpl
    def proofstream_configure(self):
        return False
session = open_session(plugins=[Idle()])
print(*heard.soon(), sep="\\n")
print(session.close().problems, len(heard.lines))
"""
    line = "plugin Idle was asked for and had nothing to do"
    assert run(code, tmp_path) == [f"proofstream: not delivered: {line}", f"{[line]} 1"]


def test_a_plugin_that_was_named_and_cannot_work_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    code = """
session = open_session(plugins=["record"], config={"record": {"path": "taken/r.jsonl"}})
print(*heard.soon(), sep="\\n")
print(session.problems == [heard.lines[0].removeprefix("proofstream: not delivered: ")])
session.close()
print(len(heard.lines))
"""
    line, problems, count = run(code, tmp_path)
    assert line.startswith("proofstream: not delivered: plugin record (proofstream ")
    assert (problems, count) == ("True", "1")


@pytest.mark.parametrize("logging", [False, True])
def test_a_receiver_that_is_away_is_said_at_once_and_the_losses_at_the_end(logging: bool, tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    code = f"""
session = open_session(
    plugins=["otel"], config={{"otel": {{"endpoint": "http://127.0.0.1:{port}", "metrics": False, "logs": False}}}}
)
prove(session)
print(*heard.soon(), sep="\\n")
report = session.close()
print(*heard.lines[1:], sep="\\n")
print(report.problems)
"""
    first, *rest, problems = run((LOGGING if logging else "") + code, tmp_path)
    start = "LOG" if logging else "proofstream:"
    assert first.startswith(
        f"{start} traces are not delivered to http://127.0.0.1:{port}/v1/traces: Connection refused"
    )
    assert len(rest) == 1
    assert rest[0].startswith(f"{start} not delivered: plugin otel (proofstream ")
    assert ": 3 lost spans" in problems


def test_refused_events_are_said_with_their_reasons_and_counted_at_the_end(tmp_path: Path) -> None:
    code = """
session = open_session(plugins=[Fine()])
for number in range(100):
    session.emit(Log(level="Info", message=number))
for number in range(100):
    session.emit(Log(level=f"word-{number}", message="x"))
    session.emit(None)
session.emit_if(lambda: Log(level=LogLevel.Info))
session.flush()
print(*heard.lines, sep="\\n")
report = session.close()
print(heard.lines[-1], len(heard.lines), report)
"""
    *reasons, last = run(code, tmp_path)
    assert "proofstream: python: Log event refused: Expected `str`, got `int` - at `$.message`" in reasons
    assert "proofstream: python: NoneType event refused: NoneType is not an event" in reasons
    (made,) = (line for line in reasons if "emit_if" in line)
    assert "emit_if event refused: TypeError: Missing required argument 'message' (at <string>:" in made
    assert len(reasons) == len(set(reasons)) <= 20
    assert last == f"proofstream: not delivered: 201 refused {len(reasons) + 1} Report(problems=[], refused=201)"


def test_blocks_that_do_not_tell_what_happened_are_said(tmp_path: Path) -> None:
    code = """
session = open_session(plugins=[Fine()])
with session.proof(num_layers=1, job_id="x"):
    for _ in range(3):
        with session.proof(num_layers=1, job_id="x") as inner:
            pass
for _ in range(3):
    with inner.layer(0, kind=LayerKind.MatMul):
        pass
prove(session, job_id="x")
print(*heard.lines, sep="\\n")
session.close()
"""
    assert run(code, tmp_path) == [
        "proofstream: python: two proofs with the job id 'x' are open at once, and mix; give each its own",
        "proofstream: python: a layer begins after the block of its proof was left, and is no part of the proof",
    ]


def test_what_is_emitted_after_the_end_is_said_once(tmp_path: Path) -> None:
    code = """
session = open_session(plugins=[Fine()])
with session.proof(num_layers=1):
    session.close()
for _ in range(3):
    prove(session)
session.close()
print(*heard.lines, sep="\\n")
"""
    assert run(code, tmp_path) == [
        "proofstream: not delivered: ProofComplete and what follows: emitted after the session was closed"
    ]


def test_what_a_thread_emits_while_the_session_closes_is_said_once(tmp_path: Path) -> None:
    code = """
import threading
class Slow(Fine):
    @hookimpl
    def proofstream_unconfigure(self, timeout_s):
        emitter.join()
def emit():
    while not session.is_closed:
        time.sleep(0.001)
    prove(session)
session = open_session(plugins=[Slow(), "record"], config={"record": {"path": "r.jsonl"}})
emitter = threading.Thread(target=emit)
emitter.start()
print(session.close().problems)
print(*heard.lines, sep="\\n")
"""
    assert run(code, tmp_path) == [
        "[]",
        "proofstream: not delivered: ProofStart and what follows: emitted after the session was closed",
    ]


def test_a_session_in_which_all_went_well_says_nothing(tmp_path: Path) -> None:
    code = """
with open_session(plugins=[Fine(), "record"], config={"record": {"path": "r.jsonl"}}) as session:
    prove(session)
    print(session.problems)
print(session.close(), session.close().ok, proofstream.current_session().close().ok, heard.lines)
"""
    assert run(code, tmp_path) == ["[]", "Report(problems=[], refused=0) True True []"]


def test_a_configuration_that_disables_older_loggers_does_not_silence_us(tmp_path: Path) -> None:
    code = """
import logging.config
session = open_session(plugins=[Fine()])
logging.config.dictConfig({
    "version": 1,
    "formatters": {"f": {"format": "LOG %(message)s"}},
    "handlers": {"h": {"class": "logging.StreamHandler", "stream": heard, "formatter": "f"}},
    "root": {"handlers": ["h"]},
})
session.emit(None)
print(*heard.soon(), sep="\\n")
session.close()
print(*heard.lines[1:], sep="\\n")
"""
    assert run(code, tmp_path) == [
        "LOG python: NoneType event refused: NoneType is not an event",
        "LOG not delivered: 1 refused",
    ]


def test_an_application_may_ask_for_silence(tmp_path: Path) -> None:
    code = """
logging.getLogger("proofstream").setLevel(logging.CRITICAL)
session = open_session(plugins=[Broken()])
prove(session)
session.close()
print(heard.lines)
"""
    assert run(code, tmp_path) == ["[]"]


def test_a_handler_of_one_plugins_logger_is_enough(tmp_path: Path) -> None:
    code = """
logging.getLogger("proofstream.plugin.otel").addHandler(logging.StreamHandler(heard))
logging.getLogger("proofstream.plugin.otel").warning("to that handler")
logging.getLogger("proofstream.plugin.rerun").warning("to\\x1b[31m everybody")
logging.getLogger("proofstream.plugin.rerun").warning("%d", "no number")
logging.getLogger("proofstream.plugin.rerun").info("to nobody")
print(heard.lines)
"""
    assert run(code, tmp_path) == [repr(["to that handler", "proofstream: to\N{SYMBOL FOR ESCAPE}[31m everybody"])]
