"""Takes samples on its own thread: often while a proof runs, rarely otherwise, and at once when this changes.

The driver may be slow or never return. Therefore every wait for this thread has a timeout.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from proofstream import GpuTelemetry, safe_text
from proofstream_gpu.driver import DriverUnavailable
from proofstream_gpu.watch import Watch

_LEAST_APART_S = 0.1
"""Least time between two samples. Short proofs may follow one another faster than figures change."""

_LONGEST_REASON = 1000


class Sampler:
    """Samples the devices and publishes the samples.

    Args:
        watch: The devices.
        publish: Receives the samples; called on the sampler's thread.
        interval_s: Seconds between two samples while a proof runs.
        idle_interval_s: Seconds between two samples while no proof runs.
        log: Receives messages about failures.

    Attributes:
        ready: Set once the driver has been probed.
        problem: Why the devices cannot be sampled, once this is known.
    """

    def __init__(
        self,
        watch: Watch,
        publish: Callable[[GpuTelemetry], None],
        *,
        interval_s: float,
        idle_interval_s: float,
        log: logging.Logger,
    ) -> None:
        self.ready: threading.Event = threading.Event()
        self.problem: str | None = None
        self._watch = watch
        self._publish = publish
        self._interval_s = interval_s
        self._idle_interval_s = idle_interval_s
        self._log = log
        self._wake = threading.Event()
        self._proving = False
        self._stopping = False
        self._busy_since: float | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="proofstream-gpu", daemon=True)

    def start(self) -> None:
        """Probe the driver and begin to sample."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Shut the driver down; return whether this finished in time."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def set_proving(self, *, proving: bool) -> None:
        """Set whether a proof runs; a change takes a sample at once."""
        if proving != self._proving:
            self._proving = proving
            self._wake.set()

    def busy_s(self) -> float:
        """Return for how many seconds the current call of the driver has run; 0 if no call runs."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def interval_s(self) -> float:
        """The current number of seconds between two samples."""
        return self._interval_s if self._proving else self._idle_interval_s

    @property
    def failures(self) -> int:
        """The number of samples that failed completely."""
        return self._failures

    def _run(self) -> None:
        try:
            self._watch.open()
        except DriverUnavailable as error:
            self._give_up(str(error))
            return
        except Exception as error:  # noqa: BLE001 - third-party code may raise anything, and `ready` must be set
            self._give_up(f"the NVIDIA driver could not be asked: {_described(error)}")
            return
        self.ready.set()
        proved = False
        while not self._stopping:
            proving = self._proving
            begun = time.monotonic()
            self._sample(look_again=proving and not proved)
            self._rest(begun, self._interval_s if proving else self._idle_interval_s)
            proved = proving
        self._watch.close()

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        self._log.info("GPUs are not measured: %s", problem)
        self.ready.set()

    def _sample(self, *, look_again: bool) -> None:
        self._busy_since = time.monotonic()
        try:
            if look_again:
                self._watch.look_again()
            self._publish(self._watch.sample())
        except Exception as error:  # noqa: BLE001 - as above; the next sample may succeed
            self._failures += 1
            if self._failures == 1:
                self._log.warning("the GPUs could not be sampled: %s", _described(error))
        finally:
            self._busy_since = None

    def _rest(self, begun: float, interval_s: float) -> None:
        """Wait until the next sample is due, a proof starts or ends, or the sampler stops."""
        self._wake.wait(max(0.0, begun + interval_s - time.monotonic()))
        self._wake.clear()
        while not self._stopping and (left := begun + _LEAST_APART_S - time.monotonic()) > 0:
            time.sleep(left)


def _described(error: Exception) -> str:
    return safe_text(f"{type(error).__name__}: {error}", _LONGEST_REASON)
