"""For tests of plugins: envelopes from events, a host on the caller's thread, a recording plugin, a clock."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from proofstream.catalog import Catalog
from proofstream.envelopes import HOST, PRODUCER, Batch, Envelope
from proofstream.events import ProofEvent, SessionClosed, SessionOpened
from proofstream.hooks import Hooks
from proofstream.hookspecs import PluginContext, hookimpl
from proofstream.wire import Decoded, LineDecoder, encode_event

START_UNIX_NANO = 1_700_000_000_000_000_000
"""Where test time begins."""


class FixedClock:
    """A clock that moves only when told to. Call it for the time in nanoseconds."""

    def __init__(self, start: int = START_UNIX_NANO) -> None:
        self.now: int = start

    def __call__(self) -> int:
        """The time it stands at."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move it on."""
        self.now += round(seconds * 1e9)


class RecordingPlugin:
    """A plugin that keeps all it is given."""

    def __init__(self, name: str = "recording") -> None:
        self.name = name
        self.envelopes: list[Envelope] = []
        self.batches: list[int] = []
        self.context: PluginContext | None = None
        self.unconfigured: bool = False

    @property
    def events(self) -> list[ProofEvent]:
        """The events of `envelopes`."""
        return [e.event for e in self.envelopes]

    @property
    def kinds(self) -> list[str]:
        """The kinds of `envelopes`."""
        return [e.kind for e in self.envelopes]

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool | None:
        """Keep the context."""
        self.context = context
        return None

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[ProofEvent] | None:
        """Keep the envelopes and the batch's size."""
        self.envelopes.extend(batch)
        self.batches.append(len(batch))
        return None

    @hookimpl
    def proofstream_unconfigure(self) -> None:
        """Remember that it was called."""
        self.unconfigured = True


def read_stream(path: Path, catalog: Catalog | None = None) -> Iterator[Decoded]:
    """The lines of a stream; blank ones are passed over, and one that cannot be read raises WireError."""
    decoder = LineDecoder(catalog if catalog is not None else Catalog())
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield decoder.decode(line.strip())


def envelopes(
    events: Iterable[ProofEvent | Decoded],
    *,
    session_id: str = "test-session",
    start_unix_nano: int = START_UNIX_NANO,
    step_ns: int = 1_000_000,
    traceparent: str | None = None,
    close: bool = True,
) -> list[Envelope]:
    """Put events into envelopes `step_ns` apart, after a SessionOpened and, with `close`, before a SessionClosed."""
    opened = SessionOpened(source="test", time_source="envelope", traceparent=traceparent, resource={})
    closed = SessionClosed(outcome="ended", reason=None, refused=0)
    items: list[ProofEvent | Decoded] = [opened, *events, *([closed] if close else [])]
    made: list[Envelope] = []
    for seq, item in enumerate(items):
        decoded = item if isinstance(item, Decoded) else Decoded(event=item, raw=encode_event(item))
        made.append(
            Envelope(
                seq=seq,
                time_unix_nano=start_unix_nano + seq * step_ns,
                session_id=session_id,
                origin=HOST if isinstance(decoded.event, SessionOpened | SessionClosed) else PRODUCER,
                event=decoded.event,
                raw=decoded.raw,
                job_id=decoded.job_id,
                traceparent=decoded.traceparent,
            )
        )
    return made


class InlineHost:
    """Runs one plugin on the caller's thread: no lanes, no waiting, and an exception is the caller's.

    Attributes:
        derived: The events that the plugin returned or published so far.
        told: The lines that it told the user so far.

    Raises:
        PluginError: A hook of the plugin is misspelt, takes arguments that it is not given, or is not marked.
    """

    def __init__(
        self,
        plugin: Any,
        config: Mapping[str, Any] | None = None,
        *,
        asked: bool = True,
        live: bool = True,
        identity: Mapping[str, str] | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self.plugin = plugin
        self._hooks = Hooks(plugin, str(getattr(plugin, "name", type(plugin).__name__)))
        self.derived: list[ProofEvent] = []
        self.told: list[str] = []
        self.progressed: int = 0
        self.context: PluginContext = PluginContext(
            config=config or {},
            catalog=catalog if catalog is not None else Catalog(),
            publish=self.derived.append,
            progress=self._progress,
            tell=self.told.append,
            identity=identity or {"service.instance.id": "test-instance", "proofstream.version": "0"},
            asked=asked,
            live=live,
            log=logging.getLogger("proofstream.test"),
        )
        self._hooks.call("proofstream_configure", context=self.context)

    def _progress(self) -> None:
        self.progressed += 1

    def feed(self, batch: Iterable[Envelope], *, batch_size: int = 512) -> list[ProofEvent]:
        """Hand envelopes to the plugin, in batches of one session; returns the events derived from them."""
        derived: list[ProofEvent] = []
        for _, of_session in itertools.groupby(batch, key=lambda envelope: envelope.session_id):
            waiting = tuple(of_session)
            for start in range(0, len(waiting), batch_size):
                result = self._hooks.call("proofstream_consume", batch=waiting[start : start + batch_size])
                derived.extend(result or ())
        self.derived.extend(derived)
        return derived

    def tick(self) -> None:
        """Hand the plugin an empty batch, as an idle lane does."""
        self._hooks.call("proofstream_consume", batch=())

    def health(self) -> Mapping[str, int]:
        """What the plugin reports."""
        return self._hooks.call("proofstream_report_health") or {}

    def close(self, timeout_s: float = 5.0) -> None:
        """Unconfigure the plugin."""
        self._hooks.call("proofstream_unconfigure", timeout_s=timeout_s)
