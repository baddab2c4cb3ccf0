"""A Ctrl-C while the command is still being imported ends it without a word."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from proofstream.command.process import handle_interrupts
from proofstream_start import end_quietly

INTERRUPTED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == when:
            os.kill(os.getpid(), signal.SIGINT)

when, sys.argv = sys.argv[1], ["proofstream", "plugins"]
sys.meta_path.insert(0, Finder())
from proofstream_start import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "name", ["proofstream", "proofstream.events", "proofstream.command.cli", "click", "proofstream_otel", "msgspec"]
)
def test_whatever_is_being_imported(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, name], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.fixture
def own_handler() -> Iterator[None]:
    """Puts the handler of these tests back."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_handler")
def test_one_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_quietly()
    handle_interrupts()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("own_handler")
def test_afterwards_it_raises_again() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_quietly()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    handle_interrupts()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
