"""Samples this machine's GPUs while proofs run, and publishes the driver's figures as events."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from proofstream import (
    Batch,
    ConfigError,
    GpuTelemetry,
    Option,
    OptionKind,
    PluginContext,
    PluginError,
    Timelines,
    hookimpl,
)

if TYPE_CHECKING:
    from msgspec import Struct

    from proofstream_gpu.sampler import Sampler
    from proofstream_gpu.settings import Settings
    from proofstream_gpu.watch import Watch

_UNASKED_PROBE_S = 2.0
"""How long startup waits for the driver if the user did not ask for the plugin."""


class GpuPlugin:
    """The plugin `gpu`.

    Attributes:
        requires: The modules that it needs.
        tick_s: How often it checks that the driver still responds, in seconds.

    Args:
        settings: Values that override the configuration table `[gpu]`.
    """

    requires: ClassVar[tuple[str, ...]] = ("pynvml",)
    tick_s: ClassVar[float] = 1.0
    # What begins or ends a proof, and what shows that one goes on whose beginning was not seen.
    only_publishes: ClassVar[bool] = True
    wants: ClassVar[tuple[str, ...]] = (
        "LayerEnd",
        "LayerStart",
        "PhaseEnd",
        "PhaseStart",
        "ProofAborted",
        "ProofComplete",
        "ProofStart",
    )

    def __init__(self, **settings: Any) -> None:
        self.given_settings = settings
        self._context: PluginContext | None = None
        self._settings: Settings | None = None
        self._watch: Watch | None = None
        self._sampler: Sampler | None = None
        self._timelines = Timelines()
        self._said_lost_at: float | None = None

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """Declare ``--gpu`` and ``--no-gpu``."""
        summary = "Measure the GPUs of this machine while proofs run."
        return [Option(flag="--gpu", key="enabled", kind=OptionKind.SWITCH, summary=summary)]

    @hookimpl
    def proofstream_settings(self) -> type[Struct]:
        """Declare the keys of the table."""
        from proofstream_gpu.settings import Settings

        return Settings

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Find the driver and start sampling; sit out the run if no driver is found or the source is not live."""
        from proofstream_gpu.presence import NO_DRIVER, is_surely_missing
        from proofstream_gpu.settings import read_settings

        settings = read_settings({**context.config, **self.given_settings})
        if not settings.enabled:
            return False
        if not context.live:
            if context.asked:
                raise ConfigError("gpu: this is a recording, and the GPUs' present figures do not belong to it")
            return False
        if not context.asked and is_surely_missing():
            context.log.info("GPUs are not measured: %s", NO_DRIVER)
            return False
        from proofstream_gpu.nvml import Nvml
        from proofstream_gpu.sampler import Sampler
        from proofstream_gpu.watch import Watch

        self._context, self._settings = context, settings
        self._watch = Watch(
            Nvml(pcie=settings.pcie), devices=settings.devices, retry_s=settings.retry_s, log=context.log
        )
        self._sampler = Sampler(
            self._watch,
            context.publish,
            interval_s=settings.interval_s,
            idle_interval_s=settings.idle_interval_s,
            log=context.log,
        )
        self._sampler.start()
        return self._is_there(self._sampler, context, settings)

    def _is_there(self, sampler: Sampler, context: PluginContext, settings: Settings) -> bool:
        wait_s = settings.probe_timeout_s if context.asked else min(_UNASKED_PROBE_S, settings.probe_timeout_s)
        in_time = sampler.ready.wait(wait_s)
        if in_time and sampler.problem is None:
            return True
        if context.asked:
            sampler.stop(0)  # The driver may still respond; the sampler then shuts it down by itself.
            raise PluginError(sampler.problem or f"the NVIDIA driver has not answered within {wait_s:g} s")
        if in_time:
            self._sampler = None
            return False
        # Some machines take long to wake their GPUs. Sampling begins when the driver answers.
        context.log.info("the NVIDIA driver has not answered yet")
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[GpuTelemetry] | None:
        """Follow the proofs, and check that the driver still responds."""
        sampler = self._sampler
        if sampler is None:
            return None
        for envelope in batch:
            self._timelines.feed(envelope)
        sampler.set_proving(proving=bool(self._timelines.open_proofs))
        return self._look_after(sampler)

    def _look_after(self, sampler: Sampler) -> list[GpuTelemetry] | None:
        """Report the devices as lost while the driver does not respond, at the interval of the samples.

        Without these reports, consumers would take old figures for new. The reports repeat, because a consumer drops a
        device that is silent for too long.
        """
        assert self._settings is not None
        assert self._watch is not None
        if sampler.busy_s() <= self._settings.hung_after_s:
            self._said_lost_at = None
            return None
        now = time.monotonic()
        if self._said_lost_at is None:
            self._log.warning("the NVIDIA driver does not respond; the GPUs count as lost until it does")
        elif now - self._said_lost_at < sampler.interval_s:
            return None
        self._said_lost_at = now
        return [GpuTelemetry(devices=self._watch.lost_readings())]

    @property
    def _log(self) -> logging.Logger:
        return self._context.log if self._context is not None else logging.getLogger(__name__)

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Count devices, samples, implausible values and losses."""
        if self._sampler is None or self._watch is None:
            return {}
        return self._watch.counters() | {
            "failed_samples": self._sampler.failures,
            "driver_busy_s": int(self._sampler.busy_s()),
        }

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """Shut the driver down; abandon it if it does not respond."""
        if self._sampler is not None and not self._sampler.stop(timeout_s * 0.5):
            self._log.warning("the NVIDIA driver does not respond; it is abandoned")
