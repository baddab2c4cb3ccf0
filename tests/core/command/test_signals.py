"""The first signal asks, the second one ends, and a forked child's signals are its own."""

from __future__ import annotations

import subprocess
import sys

FORKING = """
import os, signal, threading, time
from proofstream.command.process import on_signals

heard = []
on_signals(heard.append)

def lane():
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        os._exit(0)
    os.waitpid(child, 0)

thread = threading.Thread(target=lane)
thread.start()
thread.join()
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.5)
print("after the first:", heard, flush=True)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(30)
"""


def test_a_signal_that_a_forked_child_gets_as_well_counts_once() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "after the first: [2]\n", "")
