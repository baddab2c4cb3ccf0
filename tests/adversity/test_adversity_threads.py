"""Processes that get no more threads: the prover goes on, and one line says what is not observed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from provers import recorded, run

# Lets only so many threads start, as a limit of the system does. The one for processes does not bind root.
LIMIT = """
import _thread, sys, threading
def limit_threads(most, *, once=False):
    started = 0
    def limited(start):
        def limited_start(*args, **kwargs):
            nonlocal started
            started += 1
            if started == most + 1 or (started > most and not once):
                raise RuntimeError("can't start new thread")
            return start(*args, **kwargs)
        return limited_start
    for module, name in (
        (threading, "_start_new_thread"), (threading, "_start_joinable_thread"), (_thread, "start_new_thread")
    ):
        if hasattr(module, name):
            setattr(module, name, limited(getattr(module, name)))
"""
NOTHING = (
    "proofstream: nothing is observed: no thread can be started: can't start new thread "
    "(see `ulimit -u`, and the limit of the container or the service on tasks)"
)


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("most", range(4))
def test_a_prover_goes_on_unobserved(tmp_path: Path, most: int, once: bool) -> None:
    code = f"""
{LIMIT}
limit_threads({most}, once={once})
with observed() as session:
    prove(session, 1)
    assert not session.flush(60.0)
    assert not session.is_closed
assert session.is_closed
started = time.monotonic()
atexit.register(lambda: print("took", time.monotonic() - started < 5.0, threading.active_count()))
"""
    done = run(code, tmp_path)

    assert done.stderr.splitlines() == [NOTHING]
    assert done.stdout == "took True 1\n"
    assert list(tmp_path.glob("r*.jsonl")) == []


def test_a_plugin_that_gets_no_thread_is_named_and_others_go_on(tmp_path: Path) -> None:
    code = f"""
{LIMIT}
limit_threads(4)
prove(observed(otel={{"endpoint": "http://127.0.0.1:9"}}), 1)
"""
    (line,) = run(code, tmp_path).stderr.splitlines()

    assert line.startswith("proofstream: not delivered: plugin otel (proofstream ")
    assert "broken: RuntimeError: can't start new thread" in line
    assert recorded(tmp_path)["ProofComplete"] == 1


def test_a_console_that_gets_no_thread_is_named(tmp_path: Path) -> None:
    code = f"""
{LIMIT}
limit_threads(3)
prove(open_session(plugins=["console"]), 1)
"""
    (line,) = run(code, tmp_path).stderr.splitlines()

    assert line.startswith("proofstream: not delivered: plugin console (proofstream ")


@pytest.mark.parametrize("source", ["-", "in.jsonl"])
@pytest.mark.parametrize("most", range(7))
def test_the_command_ends_with_one_line(tmp_path: Path, wire_data: Path, most: int, source: str) -> None:
    stream = next(iter(sorted(wire_data.glob("*.jsonl")))).read_bytes()
    (tmp_path / "in.jsonl").write_bytes(stream)
    code = f"{LIMIT}\nlimit_threads({most})\nfrom proofstream_start import main\nsys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", source, "--no-console", "--otlp-file", "out"],
        cwd=tmp_path,
        input=stream,
        capture_output=True,
        timeout=60,
        check=False,
    )

    said = done.stderr.decode().splitlines()
    assert done.returncode in (1, 2)
    assert sum("can't start new thread" in line for line in said) == 1
    assert not any("Traceback" in line for line in said)
