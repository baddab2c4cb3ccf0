"""Python producers that end in every way: what they emitted is delivered, or a line says what is lost."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from proofstream import exits, open_session
from proofstream.notices import warn_user
from proofstream.testing import RecordingPlugin

PROVER = """
import atexit, os, signal, sys, threading, time
from proofstream import LayerKind, hookimpl, open_session

class Slow:
    name = "slow"
    def __init__(self, configure_s=0.0):
        self.configure_s = configure_s
    @hookimpl
    def proofstream_configure(self):
        time.sleep(self.configure_s)
    @hookimpl
    def proofstream_consume(self, batch):
        pass

def prove(session, number):
    with session.proof(model_name=f"m{number}", num_layers=1) as proof:
        with proof.layer(0, kind=LayerKind.MatMul) as layer:
            for index in range(5):
                layer.round(index, total_rounds=5)

def observed(*plugins, **config):
    config = {"record": {"path": "r.jsonl"}, "otel": {"file": "otlp"}, **config}
    return open_session(plugins=["record", "otel", *plugins], config=config)
"""


def run(
    code: str, folder: Path, *, close_timeout_s: float = 10.0, configure_timeout_s: float = 20.0
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROVER + code],
        cwd=folder,
        env={
            **os.environ,
            "PROOFSTREAM_CLOSE_TIMEOUT_S": str(close_timeout_s),
            "PROOFSTREAM_CONFIGURE_TIMEOUT_S": str(configure_timeout_s),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def recorded(folder: Path) -> Counter[str]:
    events = [json.loads(line)["event"] for line in (folder / "r.jsonl").read_text("utf-8").splitlines()]
    return Counter(kind for event in events for kind in event)


def spans(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in (folder / "otlp" / "traces.jsonl").read_text("utf-8").splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            found.update(span["name"] for scope in resource["scopeSpans"] for span in scope["spans"])
    return found


def assert_proofs(folder: Path, number: int) -> None:
    kinds = recorded(folder)
    assert (kinds["ProofStart"], kinds["SumcheckRound"], kinds["LayerEnd"]) == (number, 5 * number, number)
    assert (kinds["ProofComplete"], kinds["SessionClosed"]) == (number, 1)
    assert spans(folder)["proof"] == number


# The ends of a program


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError('boom')", 1),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); os.kill(os.getpid(), signal.SIGTERM)", 4),
    ],
)
def test_a_short_prover_that_just_ends_loses_nothing(tmp_path: Path, end: str, status: int) -> None:
    done = run(f"prove(observed(), 1)\n{end}", tmp_path)

    assert_proofs(tmp_path, 1)
    assert done.returncode == status
    assert "proofstream:" not in done.stderr


def test_the_record_says_that_an_exception_ended_the_prover(tmp_path: Path) -> None:
    run("prove(observed(), 1)\nraise ValueError('boom')", tmp_path)

    assert '"SessionClosed":{"outcome":"interrupted","reason":"ValueError: boom"' in (tmp_path / "r.jsonl").read_text()


@pytest.mark.parametrize(
    "later",
    [
        "threading.Thread(target=later).start()",
        "from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(1); pool.submit(later)",
        "from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(1); later(); pool.submit(int)",
    ],
)
def test_threads_that_outlive_the_main_one_are_heard_to_their_end(tmp_path: Path, later: str) -> None:
    code = f"""
session = observed()
prove(session, 1)
def later():
    time.sleep(1.5)
    prove(session, 2)
{later}
"""
    done = run(code, tmp_path)

    assert_proofs(tmp_path, 2)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plugin_may_still_be_getting_ready(tmp_path: Path) -> None:
    done = run("prove(observed(Slow(2.0)), 1)", tmp_path, close_timeout_s=1.0)

    assert_proofs(tmp_path, 1)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plugin_that_is_not_ready_in_time_is_named(tmp_path: Path) -> None:
    done = run("prove(observed(Slow(60.0)), 1)", tmp_path, close_timeout_s=1.0, configure_timeout_s=4.0)

    assert_proofs(tmp_path, 1)
    assert done.stderr.splitlines() == [
        "proofstream: not delivered: plugin slow did not finish in time and was abandoned"
    ]


def test_plugins_may_use_threads_and_pools_until_they_are_closed(tmp_path: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
class Pooled:
    name = "pooled"
    @hookimpl
    def proofstream_configure(self):
        self.pool = ThreadPoolExecutor(2)
        self.kinds = []
    @hookimpl
    def proofstream_consume(self, batch):
        time.sleep(0.1)
        self.kinds += [self.pool.submit(str, envelope.kind) for envelope in batch]
    @hookimpl
    def proofstream_unconfigure(self):
        thread = threading.Thread(target=lambda: self.kinds.append(self.pool.submit(str, "end")))
        thread.start()
        thread.join()
        print(sum(kind.result() == "ProofComplete" for kind in self.kinds), self.kinds[-1].result())
prove(observed(Pooled()), 1)
"""
    done = run(code, tmp_path)

    assert (done.stdout, done.stderr) == ("1 end\n", "")


def test_an_event_after_the_end_is_said(tmp_path: Path) -> None:
    done = run("session = observed(); atexit.register(lambda: [prove(session, n) for n in (1, 2)])", tmp_path)

    assert done.stderr.splitlines() == [
        "proofstream: not delivered: ProofStart and what follows: emitted after the session was closed at exit"
    ]


def test_several_sessions_are_closed_in_the_time_of_one(tmp_path: Path) -> None:
    code = """
for name in ("one", "two", "three"):
    slow = Slow(60.0)
    slow.name = name
    open_session(plugins=[slow])
started = time.monotonic()
atexit.register(lambda: print(time.monotonic() - started))
"""
    done = run(code, tmp_path, close_timeout_s=3.0, configure_timeout_s=0.1)

    assert 3.0 < float(done.stdout) < 6.0
    assert len(done.stderr.splitlines()) == 3


def test_a_broken_plugin_and_refused_events_are_said(tmp_path: Path) -> None:
    code = "session = observed(otel={'file': '/dev/null/x'}); prove(session, 1); session.emit(None)"
    done = run(code, tmp_path)

    assert recorded(tmp_path)["ProofComplete"] == 1
    said = done.stderr.splitlines()
    assert len(said) == 2
    assert said[0].startswith("proofstream: not delivered: plugin otel (proofstream ")
    assert said[1] == "proofstream: not delivered: 1 refused (the logger proofstream.session says why)"


def test_a_plugin_that_has_settings_and_cannot_work_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken.jsonl").touch()
    code = "prove(open_session(config={'record': {'path': 'taken.jsonl'}}), 1)"
    (line,) = run(code, tmp_path).stderr.splitlines()

    assert line.startswith("proofstream: not delivered: plugin record (proofstream ")
    assert "taken.jsonl exists and is not overwritten" in line


def test_a_plugin_that_has_settings_and_misses_a_package_is_said(tmp_path: Path) -> None:
    code = """
sys.modules["opentelemetry.sdk"] = None
prove(open_session(config={"otel": {"file": "otlp"}}), 1)
"""
    (line,) = run(code, tmp_path).stderr.splitlines()

    assert line.startswith("proofstream: plugin otel (proofstream ")
    assert " has settings and is missing: " in line


def test_without_plugins_nothing_is_said(tmp_path: Path) -> None:
    code = "session = open_session(plugins=[]); session.emit(None); atexit.register(session.emit, None)"
    done = run(code, tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_lost_is_said_once_and_by_logging_where_that_is_set_up(tmp_path: Path) -> None:
    code = """
import logging
logging.basicConfig(format="LOG %(message)s")
prove(observed(otel={"file": "/dev/null/x"}), 1)
"""
    done = run(code, tmp_path)

    assert [line[:24] for line in done.stderr.splitlines() if "delivered" in line] == ["LOG not delivered: plugi"]


def test_a_user_who_turns_warnings_off_sees_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("proofstream"), "propagate", False)
    warn_user("lost")
    assert capsys.readouterr().err == "proofstream: lost\n"
    logging.disable(logging.WARNING)
    try:
        warn_user("lost")
    finally:
        logging.disable(logging.NOTSET)
    assert capsys.readouterr().err == ""


# Ctrl-C while closing


def interrupt_after(opcodes: int) -> None:
    """Raise KeyboardInterrupt in this thread when so many instructions of proofstream have run."""
    left = opcodes

    def trace(frame: object, event: str, _arg: object) -> object:
        nonlocal left
        if "proofstream" not in frame.f_code.co_filename:  # type: ignore[attr-defined]
            return None
        frame.f_trace_opcodes = True  # type: ignore[attr-defined]
        left -= event == "opcode"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.long])])
def test_a_ctrl_c_at_any_instruction_of_close_costs_nothing(stride: int) -> None:
    interrupted = 0
    for opcodes in range(0, 400, stride):
        plugin = RecordingPlugin()
        session = open_session(plugins=[plugin])
        try:
            interrupt_after(opcodes)
            session.close()
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        exits.close_hosts()  # as at exit
        assert session.is_closed
        assert plugin.unconfigured
        assert plugin.kinds.count("SessionClosed") == 1, f"interrupted after {opcodes} instructions"
    assert interrupted > 10


def test_a_ctrl_c_while_plugins_finish_is_raised_after_they_have_finished(tmp_path: Path) -> None:
    code = """
import _thread
session = observed(Slow(0.5))
prove(session, 1)
threading.Timer(0.1, _thread.interrupt_main).start()
try:
    session.close()
except KeyboardInterrupt:
    print("interrupted", session.is_closed)
"""
    done = run(code, tmp_path)

    assert_proofs(tmp_path, 1)
    assert (done.stdout, done.stderr) == ("interrupted True\n", "")


def test_a_ctrl_c_shortens_the_wait_and_a_second_one_ends_it(tmp_path: Path) -> None:
    code = """
import _thread
session = observed(Slow(60.0))
prove(session, 1)
for seconds in (0.2, 0.5)[:TIMES]:
    threading.Timer(seconds, _thread.interrupt_main).start()
started = time.monotonic()
try:
    session.close()
except KeyboardInterrupt:
    print(time.monotonic() - started)
"""
    waited: list[float] = []
    for times in ("1", "2"):
        folder = tmp_path / times
        folder.mkdir()
        done = run(code.replace("TIMES", times), folder, close_timeout_s=50.0)
        waited.append(float(done.stdout))
        assert_proofs(folder, 1)
        assert done.stderr.splitlines() == [
            "proofstream: not delivered: plugin slow did not finish in time and was abandoned"
        ]
    assert 2.0 < waited[0] < 20.0
    assert waited[1] < 2.0


# Forked children


def test_a_forked_child_waits_for_nothing(tmp_path: Path) -> None:
    code = """
import multiprocessing
def child(started):
    with session:
        assert not session.flush(60.0)
        prove(session, 2)
        session.emit_if(lambda: 1 / 0)
    session.close()
    assert session.is_closed
    os._exit(0 if time.monotonic() - started < 5.0 else 2)

class Capturing(Slow):
    @hookimpl
    def proofstream_capture(self):
        print("captured", os.getpid() == parent, flush=True)

parent = os.getpid()
session = observed(Capturing())
prove(session, 1)
forked = os.fork()
if not forked:
    child(time.monotonic())
print("child", os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]), flush=True)
worker = multiprocessing.get_context("fork").Process(target=prove, args=(session, 3))
worker.start()
worker.join(10.0)
print("worker", worker.exitcode)
"""
    done = run(code, tmp_path)

    assert done.stdout.splitlines() == ["captured True", "captured True", "child 0", "worker 0"]
    assert done.stderr == ""
    assert_proofs(tmp_path, 1)


def test_a_worker_that_opens_a_session_of_its_own_and_just_returns_loses_nothing(tmp_path: Path) -> None:
    code = """
import multiprocessing
worker = multiprocessing.get_context("fork").Process(target=lambda: prove(observed(), 1))
worker.start()
worker.join(30.0)
print("worker", worker.exitcode)
"""
    done = run(code, tmp_path)

    assert (done.stdout, done.stderr) == ("worker 0\n", "")
    assert_proofs(tmp_path, 1)


@pytest.mark.parametrize("hook", ["configure", "consume", "unconfigure"])
@pytest.mark.parametrize(("then", "status"), [("return", 0), ("raise ValueError", 1)])
def test_the_child_of_a_plugin_that_forks_on_its_lane_ends(tmp_path: Path, hook: str, then: str, status: int) -> None:
    code = f"""
class Forking:
    name = "forking"
    @hookimpl
    def proofstream_consume(self, batch):
        pass
    @hookimpl
    def proofstream_{hook}(self):
        child = os.fork()
        if not child:
            {then}
        deadline = time.monotonic() + 20.0
        ended = (0, 0)
        while not ended[0] and time.monotonic() < deadline:
            ended = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if ended[0]:
            print(os.waitstatus_to_exitcode(ended[1]), flush=True)
        else:
            os.kill(child, signal.SIGKILL)
with observed(Forking()) as session:
    prove(session, 1)
    session.flush(20.0)
"""
    done = run(code, tmp_path)

    assert set(done.stdout.split()) == {str(status)}
    assert done.stderr == ""
    assert_proofs(tmp_path, 1)


def test_a_host_whose_end_takes_too_long_lets_its_caller_go(monkeypatch: pytest.MonkeyPatch) -> None:
    from proofstream import host

    def stop(_host: host.Host, _report: object) -> None:
        time.sleep(4.0)

    monkeypatch.setattr(host.Host, "_stop", stop)
    session = open_session(plugins=[RecordingPlugin()])
    started = time.monotonic()
    session.close(0.1)
    assert time.monotonic() - started < 3.5
