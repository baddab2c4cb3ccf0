"""Watches the machine's GPUs while proofs run, and puts what their driver measures on the stream."""

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
    is_sheddable,
)

if TYPE_CHECKING:
    from proofstream_gpu.sampler import Sampler
    from proofstream_gpu.settings import Settings
    from proofstream_gpu.watch import Watch

_UNASKED_PROBE_S = 2.0


class GpuPlugin:
    """The plugin `gpu`.

    Attributes:
        requires: The modules that it needs.
        tick_s: How often it looks whether the driver still returns.

    Args:
        settings: Values of the configuration table `[gpu]`, which win over it.
    """

    requires: ClassVar[tuple[str, ...]] = ("pynvml",)
    tick_s: ClassVar[float] = 1.0

    def __init__(self, **settings: Any) -> None:
        self._given = settings
        self._context: PluginContext | None = None
        self._settings: Settings | None = None
        self._watch: Watch | None = None
        self._sampler: Sampler | None = None
        self._timelines = Timelines()
        self._said_lost_at: float | None = None

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """``--gpu`` and ``--no-gpu``."""
        summary = "Measure the GPUs of this machine while proofs run."
        return [Option(flag="--gpu", key="enabled", kind=OptionKind.SWITCH, summary=summary)]

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Look for the driver, and begin to sample; sit the run out where there is none, or where nothing is live."""
        from proofstream_gpu.nvml import Nvml
        from proofstream_gpu.sampler import Sampler
        from proofstream_gpu.settings import read_settings
        from proofstream_gpu.watch import Watch

        settings = read_settings({**context.config, **self._given})
        if not settings.enabled:
            return False
        if not context.live:
            if context.asked:
                raise ConfigError("gpu: this is a recording, and what the GPUs do now does not belong to it")
            return False
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
            sampler.stop(0)  # should the driver still come, nobody wants it any more
            raise PluginError(sampler.problem or f"the NVIDIA driver has not answered within {wait_s:g} s")
        if in_time:
            self._sampler = None
            return False
        # Some machines take long to wake their GPUs: sampling begins when they have.
        context.log.info("the NVIDIA driver has not answered yet")
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[GpuTelemetry] | None:
        """Follow the proofs, and see whether the driver still returns."""
        sampler = self._sampler
        if sampler is None:
            return None
        for envelope in batch:
            # Bulk neither begins nor ends a proof.
            if not is_sheddable(envelope.event):
                self._timelines.feed(envelope)
        sampler.set_proving(proving=bool(self._timelines.open_proofs))
        return self._look_after(sampler)

    def _look_after(self, sampler: Sampler) -> list[GpuTelemetry] | None:
        """Say that the devices are lost while the driver does not return, as often as it would be asked.

        Nobody must take old figures for new, and who hears nothing at all forgets that the devices are lost.
        """
        assert self._settings is not None
        assert self._watch is not None
        if sampler.busy_s() <= self._settings.hung_after_s:
            self._said_lost_at = None
            return None
        now = time.monotonic()
        if self._said_lost_at is None:
            self._log.warning("the NVIDIA driver does not return; the GPUs count as lost until it does")
        elif now - self._said_lost_at < sampler.interval_s:
            return None
        self._said_lost_at = now
        return [GpuTelemetry(devices=self._watch.lost_readings())]

    @property
    def _log(self) -> logging.Logger:
        return self._context.log if self._context is not None else logging.getLogger(__name__)

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """How many samples were taken, what of them could not be believed, and what was lost."""
        if self._sampler is None or self._watch is None:
            return {}
        return self._watch.counters() | {
            "failed_samples": self._sampler.failures,
            "driver_busy_s": int(self._sampler.busy_s()),
        }

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """Shut the driver down; one that does not return is left behind."""
        if self._sampler is not None and not self._sampler.stop(timeout_s * 0.5):
            self._log.warning("the NVIDIA driver does not return; it is left behind")
