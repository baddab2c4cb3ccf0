"""Python producers that end in every way: what they emitted is delivered, or a line says what is lost."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import pytest
from provers import assert_proofs, recorded, run

from proofstream import exits, open_session
from proofstream.notices import warn_user
from proofstream.testing import RecordingPlugin

UNOBSERVED = (
    "proofstream: nothing is observed: no thread can be started: can't create new thread at interpreter shutdown"
)
"""What Python 3.12.0 and 3.12.1 answer, which start no thread once the main thread has ended."""


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
    ("end", "reason"),
    [
        ("raise ValueError('boom')", "ValueError: boom"),
        ("sys.exit('no luck')", "SystemExit: no luck"),
        ("signal.raise_signal(signal.SIGINT)", "KeyboardInterrupt"),
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        "prove_in_part(observed())",
        "t = threading.Thread(target=prove_in_part, args=(observed(),)); t.start(); t.join()",
        "asyncio.run(in_a_task(observed()))",
    ],
)
def test_a_proof_in_which_the_prover_dies_is_aborted_and_says_why(
    tmp_path: Path, around: str, end: str, reason: str
) -> None:
    if "signal" in end and not around.startswith("prove"):
        end = "raise KeyboardInterrupt"  # no signal's handler raises there
    code = f"""
import asyncio
def prove_in_part(session):
    with session.proof(num_layers=1):
        {end}
async def in_a_task(session):
    with session.proof(num_layers=1):
        await asyncio.sleep(0)
        {end}
{around}
"""
    done = run(code, tmp_path)

    assert recorded(tmp_path)["ProofComplete"] == 0
    assert f'"ProofAborted":{{"reason":"{reason}"' in (tmp_path / "r.jsonl").read_text()
    assert f'"message":"{reason}' in (tmp_path / "otlp" / "traces.jsonl").read_text()
    assert "proofstream:" not in done.stderr


@pytest.mark.parametrize("end", ["", "raise ValueError('boom')"])
def test_a_proof_that_is_never_left_ends_with_the_session(tmp_path: Path, end: str) -> None:
    done = run(f"session = observed(); proof = session.proof(num_layers=1); proof.__enter__()\n{end}", tmp_path)

    trace = (tmp_path / "otlp" / "traces.jsonl").read_text()
    assert f'"message":"the session {"was interrupted: ValueError: boom" if end else "ended before it did"}' in trace
    assert "proofstream:" not in done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "thread = threading.Thread(target=lambda: prove(observed(), 1)); thread.start(); thread.join()",
        "import asyncio\nasync def main(): await asyncio.to_thread(prove, observed(), 1)\nasyncio.run(main())",
        "prove(observed(), 1); threading.Thread(target=time.sleep, args=(60.0,), daemon=True).start()",
        "session = observed(); threading.Thread(target=lambda: [time.sleep(1.0), prove(session, 1)]).start()",
    ],
)
def test_it_does_not_matter_where_a_session_is_opened_and_used(tmp_path: Path, code: str) -> None:
    done = run(code, tmp_path)

    assert_proofs(tmp_path, 1)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_session_that_an_exit_handler_opens_must_be_closed(tmp_path: Path) -> None:
    done = run("atexit.register(lambda: prove(observed(), 1))", tmp_path)

    (line,) = done.stderr.splitlines()
    assert line.startswith(("proofstream: a session that is opened while the process exits must be closed", UNOBSERVED))


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
    said = sorted(done.stderr.splitlines())
    assert len(said) == 3
    assert said[0] == "proofstream: not delivered: 1 refused"
    assert said[1].startswith("proofstream: not delivered: plugin otel (proofstream ")
    assert said[2] == "proofstream: python: NoneType event refused: NoneType is not an event"


def test_a_plugin_that_has_settings_and_cannot_work_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken.jsonl").mkdir()
    code = "prove(open_session(config={'record': {'path': 'taken.jsonl'}}), 1)"
    (line,) = run(code, tmp_path).stderr.splitlines()

    assert line.startswith("proofstream: not delivered: plugin record (proofstream ")
    assert (
        "cannot write taken.jsonl: it exists and is not a regular file (name a file in it: taken.jsonl/proof.jsonl)"
        in line
    )


def test_a_plugin_that_has_settings_and_misses_a_package_is_said(tmp_path: Path) -> None:
    code = """
sys.modules["opentelemetry.sdk"] = None
prove(open_session(config={"otel": {"file": "otlp"}}), 1)
"""
    (line,) = run(code, tmp_path).stderr.splitlines()

    assert line.startswith("proofstream: plugin otel (proofstream ")
    assert " has settings and is missing: " in line


def test_an_endpoint_whose_plugin_misses_a_package_is_said(tmp_path: Path) -> None:
    code = """
sys.modules["opentelemetry.sdk"] = None
os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://127.0.0.1:1"
prove(open_session(), 1)
"""
    (line,) = run(code, tmp_path).stderr.splitlines()

    assert line == (
        "proofstream: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, and plugin otel cannot be used: "
        "needs opentelemetry.sdk, which is not installed (pip install 'proofstream[otel]')"
    )


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


def test_a_host_whose_end_takes_too_long_lets_its_caller_go(monkeypatch: pytest.MonkeyPatch) -> None:
    from proofstream import host

    def stop(_host: host.Host, _report: object) -> None:
        time.sleep(4.0)

    monkeypatch.setattr(host.Host, "_stop", stop)
    session = open_session(plugins=[RecordingPlugin()])
    started = time.monotonic()
    session.close(0.1)
    assert time.monotonic() - started < 3.5
