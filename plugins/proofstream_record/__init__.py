"""Records a run: every envelope as one JSON line, to be replayed with the same times and the same trace ids."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from proofstream import (
    Artefact,
    Batch,
    Envelope,
    EnvelopeLogWriter,
    GpuTelemetry,
    Option,
    OptionKind,
    PluginContext,
    PluginHealth,
    ProofstreamError,
    hookimpl,
)


class RecordPlugin:
    """The plugin `record`.

    A recording that cannot be written on ends there, with one line in the log; what is missing is counted as lost.
    """

    tick_s = 1.0

    def __init__(self) -> None:
        self._writer: EnvelopeLogWriter | None = None
        self._log = logging.getLogger(__name__)
        self._received = 0
        self._told_full = False

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """``--record FILE``."""
        return [
            Option(
                flag="--record",
                key="path",
                kind=OptionKind.VALUE,
                summary="Record everything into FILE, which `proofstream run` replays; also .gz and .zst.",
                metavar="FILE",
                artefact=Artefact(
                    name="proof.jsonl",
                    next_step="replay it: {command} run {path}",
                    settings={"overwrite": True},
                ),
            )
        ]

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Read the settings and make the file; sit the run out if no file is named."""
        from proofstream_record.settings import read_settings  # pydantic is not for `--help`

        settings = read_settings(context.config)
        if settings.path is None:
            return False
        self._log = context.log
        self._writer = EnvelopeLogWriter(settings.path, overwrite=settings.overwrite, max_bytes=settings.max_bytes)
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Write the batch; an idle tick flushes."""
        if self._writer is None:
            return
        recorded = [envelope for envelope in batch if self._is_recorded(envelope)]
        try:
            self._writer.append(recorded)
            if not batch:
                self._writer.flush()
        except ProofstreamError as error:
            self._log.error("the recording ends here: %s", error)
        if self._writer.dropped and not self._told_full:
            self._told_full = True
            self._log.error("the recording ends here: %s has reached record.max_bytes", self._writer.path)

    def _is_recorded(self, envelope: Envelope) -> bool:
        """Not the health of plugins, which is this run's own; nor what GPUs did before there was anything else."""
        event = envelope.event
        if isinstance(event, PluginHealth) or (isinstance(event, GpuTelemetry) and not self._received):
            return False
        self._received += 1
        return True

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """How many events are recorded, and how many could not be."""
        if self._writer is None:
            return {}
        lost = self._writer.lost + self._writer.dropped
        counters = {"recorded_events": self._received - lost}
        return counters | {"lost_events": lost} if lost else counters

    @hookimpl
    def proofstream_unconfigure(self) -> None:
        """End the file."""
        if self._writer is None:
            return
        try:
            self._writer.close()
        except ProofstreamError as error:
            self._log.error("the recording may lack its end: %s", error)
