"""Starts the command. Beside the package, because a Ctrl-C is to be quiet also while the package is imported.

Importing takes tenths of a second on a busy machine. A KeyboardInterrupt in the middle of it would show a page of
Python's internals to somebody who only changed their mind.
"""

from __future__ import annotations

import signal


def end_quietly() -> None:
    """Let a Ctrl-C end the process without a word, until `handle_interrupts`. One that is ignored stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def handle_interrupts() -> None:
    """Let a Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> int:
    """Run the command line of this process and return the exit status."""
    end_quietly()
    from proofstream.__main__ import main as run  # only now

    return run()
