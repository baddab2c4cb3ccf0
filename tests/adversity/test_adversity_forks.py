"""Processes that fork while they are observed: nothing hangs, and what a child emits arrives or is said to be lost."""

from __future__ import annotations

import json
import pickle
import socket
from pathlib import Path

import pytest
from provers import assert_proofs, recorded, run, spans

from proofstream import open_session

IN_CHILD = (
    "proofstream: not delivered: {} and what follows: this is the child of a fork, and the session is its parent's; "
    "call open_session in the child"
)

# Prints how many of the children did not end in time.
AWAIT = """
def await_children(pids):
    deadline = time.monotonic() + 30.0
    while pids and time.monotonic() < deadline:
        pids = [pid for pid in pids if not os.waitpid(pid, os.WNOHANG)[0]]
        time.sleep(0.01)
    print("hang", len(pids), flush=True)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
"""

# The time of a fork


@pytest.mark.parametrize("forking", ["fork_all()", "t = threading.Thread(target=fork_all); t.start(); t.join()"])
def test_no_child_hangs_however_soon_the_process_forks(tmp_path: Path, forking: str) -> None:
    code = f"""
{AWAIT}
def fork_all():
    pids = []
    for _ in range(24):
        pid = os.fork()
        if not pid:
            import opentelemetry.sdk.metrics, opentelemetry.sdk.trace, requests, rerun
            os._exit(0)
        pids.append(pid)
        time.sleep(0.005)
    await_children(pids)
session = observed("rerun", rerun={{"connections": ["file:r.rrd"]}})
prove(session, 1)
{forking}
"""
    done = run(code, tmp_path)

    assert (done.stdout, done.stderr) == ("hang 0\n", "")
    assert_proofs(tmp_path, 1)


def test_no_child_hangs_while_another_thread_opens_a_session(tmp_path: Path) -> None:
    code = f"""
{AWAIT}
opening = threading.Thread(target=lambda: prove(observed(), 1))
opening.start()
pids = []
while opening.is_alive():
    pid = os.fork()
    if not pid:
        open_session(plugins=[])
        os._exit(0)
    pids.append(pid)
    time.sleep(0.01)
await_children(pids)
"""
    done = run(code, tmp_path)

    assert (done.stdout, done.stderr) == ("hang 0\n", "")
    assert_proofs(tmp_path, 1)


POOLS = {
    "Pool": "with multiprocessing.get_context(METHOD).Pool(3) as pool: pool.map(work, range(3))",
    "Executor": "with ProcessPoolExecutor(3, multiprocessing.get_context(METHOD)) as pool: [*pool.map(work, range(3))]",
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_that_start_right_after_the_session_observe_themselves(tmp_path: Path, pool: str, method: str) -> None:
    code = f"""
from concurrent.futures import ProcessPoolExecutor
def work(number):
    with observed_in(str(number)) as session:
        prove(session, number)
if __name__ == "__main__":
    with observed() as session:
        prove(session, 1)
        {POOLS[pool].replace("METHOD", repr(method))}
"""
    done = run(code, tmp_path)

    assert (done.stdout, done.stderr) == ("", "")
    for folder in (tmp_path, *(tmp_path / str(number) for number in range(3))):
        assert_proofs(folder, 1)


def test_a_fork_does_not_wait_for_a_plugin_that_hangs(tmp_path: Path) -> None:
    code = """
from proofstream import forks
class Stuck(Slow):
    @hookimpl
    def proofstream_consume(self, batch):
        time.sleep(60.0)
session = open_session(plugins=[Stuck()])
prove(session, 1)
session.flush(0.5)
for _ in range(3):
    started = time.monotonic()
    if not os.fork():
        os._exit(0)
    print(time.monotonic() - started < forks.WORK_S + 2.0)
os._exit(0)
"""
    done = run(code, tmp_path)

    assert done.stdout.split() == ["True"] * 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("proofstream: a process was forked while plugin slow was busy, ")


@pytest.mark.parametrize("endpoint", ["http://localhost:9", "grpc://localhost:9"])
def test_threads_of_plugins_import_nothing_once_the_plugins_are_ready(tmp_path: Path, endpoint: str) -> None:
    code = f"""
class Imports:
    found = []
    def find_spec(self, name, path=None, target=None):
        self.found.append((threading.current_thread().name, name))
session = open_session(plugins=["otel", "rerun", "record", "console"], config={{
    "otel": {{"endpoint": {endpoint!r}}},
    "rerun": {{"connections": ["file:r.rrd", "serve:{free_port()}"]}},
    "record": {{"path": "r.jsonl"}},
}})
lanes = {{thread.name for thread in threading.enumerate() if thread.name.startswith("proofstream-")}}
prove(session, 1)
assert session.flush(30.0)
imports = Imports()
sys.meta_path.insert(0, imports)
prove(session, 2)
session.close(2.0)
print([found for found in imports.found if found[0].startswith("proofstream-") and found[0] not in lanes])
"""
    done = run(code, tmp_path)

    assert done.stdout == "[]\n"
    assert "broken" not in done.stderr


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# In the child


def test_a_forked_child_waits_for_nothing(tmp_path: Path) -> None:
    code = """
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
    assert done.stderr.splitlines() == [IN_CHILD.format("ProofStart")] * 2
    assert_proofs(tmp_path, 1)


def test_a_worker_that_opens_a_session_of_its_own_and_just_returns_loses_nothing(tmp_path: Path) -> None:
    code = """
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


def test_the_session_that_is_current_in_a_child_says_once_that_it_goes_nowhere(tmp_path: Path) -> None:
    code = """
session = observed()
if not os.fork():
    assert current_session() is session
    assert session.is_closed
    started = time.monotonic()
    assert not current_session().flush(60.0)
    current_session().emit_if(lambda: None)
    prove(current_session(), 2)
    assert time.monotonic() - started < 5.0
    os._exit(0)
os.wait()
prove(session, 1)
"""
    done = run(code, tmp_path)

    assert done.stderr.splitlines() == [IN_CHILD.format("an event")]
    assert_proofs(tmp_path, 1)


@pytest.mark.parametrize("scope", ["process", "context"])
def test_a_child_in_the_middle_of_a_proof_may_observe_itself(tmp_path: Path, scope: str) -> None:
    code = f"""
parents = open_session(plugins=["record", "otel"], scope={scope!r}, config={{
    "record": {{"path": "r.jsonl"}}, "otel": {{"file": "otlp"}},
}})
with parents.proof(num_layers=1) as proof, proof.layer(0, kind=LayerKind.MatMul) as layer:
    child = os.fork()
    if not child:
        with observed_in("child") as own:
            assert current_session() is own
            prove(current_session(), 1)
        assert current_session() is parents
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    for index in range(5):
        layer.round(index, total_rounds=5)
"""
    done = run(code, tmp_path)

    # That the parent's blocks end in the child, too, is worth no warning.
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert_proofs(tmp_path, 1)
    assert_proofs(tmp_path / "child", 1)
    ids = {process_of(tmp_path), process_of(tmp_path / "child")}
    assert len(ids) == 2


def process_of(folder: Path) -> tuple[str, str]:
    resource = json.loads((folder / "otlp" / "traces.jsonl").read_text("utf-8").splitlines()[0])["resourceSpans"][0]
    values = {item["key"]: item["value"]["stringValue"] for item in resource["resource"]["attributes"]}
    return values["process.pid"], values["service.instance.id"]


def test_a_session_that_is_sent_to_another_process_says_what_to_do() -> None:
    with open_session(plugins=[]) as session, pytest.raises(TypeError, match="call open_session there"):
        pickle.dumps(session)


# Workers that never close


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("parent", ["observed", "not observed"])
def test_a_worker_that_never_closes_its_session_loses_nothing(tmp_path: Path, method: str, parent: str) -> None:
    code = f"""
def just_return():
    prove(observed_in("returns"), 1)
def leave():
    prove(observed_in("leaves"), 1)
    sys.exit(0)
def outlive():
    session = observed_in("outlives")
    prove(session, 1)
    def later():
        time.sleep(1.5)
        prove(session, 2)
    threading.Thread(target=later).start()
if __name__ == "__main__":
    if {parent == "observed"}:
        prove(observed(), 1)
    workers = [multiprocessing.get_context({method!r}).Process(target=f) for f in (just_return, leave, outlive)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30.0)
        print(worker.exitcode)
"""
    done = run(code, tmp_path)

    assert (done.stdout.split(), done.stderr) == (["0"] * 3, "")
    assert_proofs(tmp_path / "returns", 1)
    assert_proofs(tmp_path / "leaves", 1)
    assert_proofs(tmp_path / "outlives", 2)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_workers_of_a_pool_that_is_closed_lose_nothing(tmp_path: Path, method: str) -> None:
    code = f"""
def begin():
    observed_in(f"worker-{{os.getpid()}}")
def work(number):
    prove(current_session(), number)
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2, begin, maxtasksperchild=2) as pool:
        pool.map(work, range(4), chunksize=1)
        pool.close()
        pool.join()
"""
    done = run(code, tmp_path)

    assert (done.stdout, done.stderr) == ("", "")
    folders = list(tmp_path.glob("worker-*"))
    assert len(folders) >= 2
    assert sum(recorded(folder)["ProofComplete"] for folder in folders) == 4
    assert sum(spans(folder)["proof"] for folder in folders) == 4
