"""Records a run as one JSON line for each envelope; a replay has the same times and trace ids."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from proofstream import (
    Artefact,
    Batch,
    Envelope,
    EnvelopeLogWriter,
    GpuTelemetry,
    Option,
    OptionKind,
    Output,
    PluginContext,
    PluginHealth,
    ProofstreamError,
    hookimpl,
)

if TYPE_CHECKING:
    from pathlib import Path

    from msgspec import Struct

    from proofstream_record.settings import Settings


class RecordPlugin:
    """The plugin `record`.

    If the file can no longer be written, the recording ends with one line in the log; later events count as lost.
    """

    # A tick flushes. Together with the log's own limit of half a second, a line waits for a second at most.
    tick_s = 0.5
    # A proof with a hole would replay as something that never happened.
    complete = True
    # Without a file there is nothing to do.
    needs_settings = True

    def __init__(self) -> None:
        self._writer: EnvelopeLogWriter | None = None
        self._log = logging.getLogger(__name__)
        self._received = 0
        self._told_full = False

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """Declare ``--record FILE``."""
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
                    files=(".",),
                ),
            )
        ]

    @hookimpl
    def proofstream_settings(self) -> type[Struct]:
        """Declare the keys of the table."""
        from proofstream_record.settings import Settings

        return Settings

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Read the settings and create the file; sit out the run if no file is named."""
        from proofstream_record.settings import read_settings  # Imported here to keep pydantic out of `--help`.

        settings = read_settings(context.config)
        if settings.path is None:
            return False
        self._log = context.log
        self._writer = _open_log(settings, reserved=context.outputs)
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Write the batch; a tick flushes."""
        if self._writer is None:
            return
        recorded = self._recorded(batch)
        self._received += len(recorded)
        try:
            self._writer.append(recorded)
            if not batch:
                self._writer.flush()
        except ProofstreamError as error:
            self._log.error("the recording ends here: %s", error)
        if self._writer.dropped and not self._told_full:
            self._told_full = True
            self._log.error("the recording ends here: %s has reached record.max_bytes", self._writer.path)

    def _recorded(self, batch: Batch) -> list[Envelope]:
        """Return what to record of a batch.

        Plugin health describes this run, not the proof. GPU samples before the first other event show an idle machine.
        """
        recorded = [envelope for envelope in batch if type(envelope.event) is not PluginHealth]
        if self._received:
            return recorded
        return list(itertools.dropwhile(lambda envelope: isinstance(envelope.event, GpuTelemetry), recorded))

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Count the events that were recorded, and those that were lost."""
        if self._writer is None:
            return {}
        lost = self._writer.lost + self._writer.dropped
        counters = {"recorded_events": self._received - lost}
        return counters | {"lost_events": lost} if lost else counters

    @hookimpl
    def proofstream_unconfigure(self) -> None:
        """Close the file."""
        if self._writer is None:
            return
        try:
            self._writer.close()
        except ProofstreamError as error:
            self._log.error("the recording may lack its end: %s", error)


def _open_log(settings: Settings, *, reserved: Mapping[Path, Output]) -> EnvelopeLogWriter:
    """Open the file, which was created for us unless it may replace another one.

    Raises:
        ProofstreamError: It cannot be written, or no fresh name beside it could help.
    """
    assert settings.path is not None
    overwrite = settings.overwrite or settings.path in reserved
    return EnvelopeLogWriter(settings.path, overwrite=overwrite, max_bytes=settings.max_bytes)
