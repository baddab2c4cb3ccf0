"""Takes samples on a thread of its own: often while a proof runs, seldom while none does, and at each change.

The driver may take its time, or never return; nobody waits for this thread longer than is said.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from proofstream import GpuTelemetry
from proofstream_gpu.driver import DriverUnavailable
from proofstream_gpu.watch import Watch

_LEAST_APART_S = 0.1


class Sampler:
    """Samples and hands over what it got.

    Args:
        watch: The devices.
        publish: Takes the samples; called on the sampler's thread.
        interval_s: Seconds between two samples while a proof runs.
        idle_interval_s: Seconds between two samples while none does.
        log: Where to say that sampling failed.

    Attributes:
        ready: Set when the driver was probed.
        problem: Why there is nothing to sample, once that is known.
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
        """Shut the driver down; returns whether that was done in time."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def set_proving(self, *, proving: bool) -> None:
        """Say whether a proof runs; a change takes a sample at once."""
        if proving != self._proving:
            self._proving = proving
            self._wake.set()

    def busy_s(self) -> float:
        """For how many seconds the driver has been asked without returning."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def interval_s(self) -> float:
        """Seconds between two samples at present."""
        return self._interval_s if self._proving else self._idle_interval_s

    @property
    def failures(self) -> int:
        """Samples that could not be taken at all."""
        return self._failures

    def _run(self) -> None:
        try:
            self._watch.open()
        except DriverUnavailable as error:
            self._give_up(str(error))
            return
        except Exception as error:  # noqa: BLE001 - foreign code over a foreign library; whoever waits must be told
            self._give_up(f"the NVIDIA driver could not be asked: {type(error).__name__}: {error}")
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
        except Exception as error:  # noqa: BLE001 - as above; the next sample may be better
            self._failures += 1
            if self._failures == 1:
                self._log.warning("the GPUs could not be sampled: %s: %s", type(error).__name__, error)
        finally:
            self._busy_since = None

    def _rest(self, begun: float, interval_s: float) -> None:
        """Until the next sample is due, or a proof begins or ends, or it is over."""
        self._wake.wait(max(0.0, begun + interval_s - time.monotonic()))
        self._wake.clear()
        # Proofs may follow one another faster than there is anything to see.
        while not self._stopping and (left := begun + _LEAST_APART_S - time.monotonic()) > 0:
            time.sleep(left)
