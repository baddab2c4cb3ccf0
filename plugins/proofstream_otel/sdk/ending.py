"""Shuts providers down within a deadline, and abandons those that take longer."""

from __future__ import annotations

import atexit
import threading
import time
from typing import Any


class Ending:
    """The end of one provider.

    Its thread starts at once, because none can be started while the interpreter exits, and the SDK's shutdown takes as
    long as its exporters do: half a minute, if a receiver does not answer.
    """

    def __init__(self, provider: Any, name: str) -> None:
        self._shutdown = provider.shutdown
        # The SDK would shut it down when the process exits, and wait: also in the children of a fork.
        atexit.unregister(provider.shutdown)
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"proofstream-sdk-{name}", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Let it begin."""
        self._begun.set()

    def wait_until(self, deadline: float) -> bool:
        """Wait for its end until `deadline`, by the monotonic clock. Return whether it has ended."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._begun.wait()
        self._shutdown()
