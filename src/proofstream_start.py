"""Starts the command. Beside the package, because a Ctrl-C is to be quiet also while the package is imported.

Importing takes tenths of a second on a busy machine. A KeyboardInterrupt in the middle of it would show a page of
Python's internals to somebody who only changed their mind.
"""

from __future__ import annotations

import gc
import signal
import sys


def end_quietly() -> None:
    """Let a Ctrl-C end the process without a word, until the command sees to it. An ignored one stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> int:
    """Run the command line of this process and return the exit status."""
    end_quietly()
    gc.disable()  # what is imported stays, so looking for garbage among it is of no use
    from proofstream.command.early import begin_reading  # only now

    begin_reading(sys.argv[1:])
    from proofstream.command.cli import main as run  # what it imports takes longer than a layer

    gc.freeze()
    gc.enable()
    return run()
