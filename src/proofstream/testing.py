"""Helps to test plugins: envelopes from events, hosts with and without threads, a recording plugin, a clock."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofstream.catalog import Catalog
from proofstream.envelopes import HOST, PRODUCER, Batch, Envelope
from proofstream.errors import UsageError
from proofstream.events import PluginHealth, ProofEvent, SessionClosed, SessionOpened
from proofstream.hooks import Hooks, each_of
from proofstream.hookspecs import PluginContext, hookimpl
from proofstream.reservations import Reservations
from proofstream.wire import Decoded, LineDecoder, encode_event

if TYPE_CHECKING:
    from proofstream.contracts import Option
    from proofstream.feeds import HostFeed
    from proofstream.host import Host
    from proofstream.report import Report

START_UNIX_NANO = 1_700_000_000_000_000_000
"""The time at which tests begin, in nanoseconds since the epoch."""

_CHUNK = 256
_POLL_S = 0.005


class FixedClock:
    """A clock that moves only when told to. Call it to get the time in nanoseconds."""

    def __init__(self, start: int = START_UNIX_NANO) -> None:
        self.now: int = start

    def __call__(self) -> int:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now += round(seconds * 1e9)


class RecordingPlugin:
    """A plugin that keeps everything that it is given."""

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
        """Remember the call."""
        self.unconfigured = True


def read_stream(path: Path, catalog: Catalog | None = None) -> Iterator[Decoded]:
    """Yield the lines of a stream, without blank ones; raise WireError for a line that cannot be read."""
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
                parent_job_id=decoded.parent_job_id,
                time_source=decoded.time_source,
                traceparent=decoded.traceparent,
                model_name=decoded.model_name,
            )
        )
    return made


class InlineHost:
    """Runs one plugin on the caller's thread: no lanes, no waiting, and an exception is the caller's.

    Attributes:
        derived: The events that the plugin returned or published so far.
        told: The lines that it told the user so far.
        is_idle: Whether it sits the run out, because configure returned False; it is then given nothing.

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
        name = self._hooks.name
        options: list[Option] = self._hooks.declare("proofstream_options")
        self._reservations = Reservations(((option, name) for option in options), {name: config or {}})
        self.context: PluginContext = PluginContext(
            config=self._reservations.table_of(name),
            catalog=catalog if catalog is not None else Catalog(),
            publish=self.derived.append,
            progress=self._progress,
            tell=self.told.append,
            identity=identity or {"service.instance.id": "test-instance", "proofstream.version": "0"},
            asked=asked,
            live=live,
            log=logging.getLogger("proofstream.test"),
            outputs=self._reservations.outputs_of(name),
        )
        try:
            self.is_idle: bool = not self._hooks.configure(self.context)
        except BaseException:
            self._reservations.release(name)
            raise

    def _progress(self) -> None:
        self.progressed += 1

    def feed(self, batch: Iterable[Envelope], *, batch_size: int = 512) -> list[ProofEvent]:
        """Pass envelopes to the plugin, in batches of one session; return the events derived from them."""
        derived: list[ProofEvent] = []
        if self.is_idle:
            return derived
        for _, of_session in itertools.groupby(batch, key=lambda envelope: envelope.session_id):
            waiting = tuple(of_session)
            for start in range(0, len(waiting), batch_size):
                result = self._hooks.call("proofstream_consume", batch=waiting[start : start + batch_size])
                derived.extend(() if result is None else each_of(result, "proofstream_consume", of="events"))
        self.derived.extend(derived)
        return derived

    def tick(self) -> None:
        """Pass the plugin an empty batch, as an idle lane does."""
        if not self.is_idle:
            self._hooks.call("proofstream_consume", batch=())

    def health(self) -> Mapping[str, int]:
        """Return the counters that the plugin reports."""
        return self._hooks.report_health()

    def close(self, timeout_s: float = 5.0) -> None:
        """Unconfigure the plugin."""
        self._hooks.call("proofstream_unconfigure", timeout_s=timeout_s)
        self._reservations.release(self._hooks.name)


class PluginHost:
    """Runs plugins as a run does: each on its lane, fed by the bus, configured first and unconfigured at the end.

    It reads no configuration file and no environment variable. The pytest fixture `proofstream_host` makes such hosts
    and closes them after the test.

    Args:
        plugins: Instances of plugins, and names of installed ones.
        config: Configuration tables by plugin name.
        live: False to replay: then recorded events of these plugins are left out, since they derive them again.
        host_settings: The host's own keys, such as `lane_capacity`.

    Attributes:
        envelopes: Everything that a further plugin beside them got so far.
        told: The lines that the plugins told the user so far.

    Raises:
        ConfigError: A plugin does not accept its table.
        PluginError: A plugin could not be loaded or configured.
        UsageError: No plugin has a table's name, or something in `plugins` is not a plugin.
    """

    def __init__(
        self,
        *plugins: object,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        live: bool = True,
        host_settings: Mapping[str, Any] | None = None,
    ) -> None:
        # `proofstream.testing` loads no more than `proofstream` until a host is made.
        from proofstream.config import Config, HostSettings
        from proofstream.config_table import read_table
        from proofstream.feeds import HostFeed
        from proofstream.host import Host
        from proofstream.loader import Selection, load

        self._watcher = RecordingPlugin("proofstream-test")
        names = frozenset(plugin for plugin in plugins if isinstance(plugin, str))
        instances = [plugin for plugin in plugins if not isinstance(plugin, str)]
        registry = load(Selection(asked=names, allowed=frozenset()), instances=[*instances, self._watcher])
        given = [name for name, record in registry.records.items() if record.hooks and record.hooks.plugin in instances]
        tables = config or {}
        unknown = sorted(tables.keys() - {*given, *names})
        if unknown:
            raise UsageError(f"config has a table {unknown[0]!r}", hint=f"plugins: {', '.join((*given, *names))}")
        self.told: list[str] = []
        self._host: Host = Host(
            registry=registry,
            config=Config.of(tables, host=read_table(HostSettings, host_settings or {})),
            asked=[*given, *names, self._watcher.name],
            live=live,
            may_be_idle=True,
            tell=self.told.append,
        )
        self._feed: HostFeed = HostFeed(self._host, waits=True, tell=self.told.append)
        self._sessions = itertools.count(1)
        self._report: Report | None = None
        self._host.start()
        try:
            self._host.wait_configured()
        except BaseException:
            self._host.close()
            raise

    @property
    def envelopes(self) -> list[Envelope]:
        """Everything that a further plugin beside them got so far, except the plugins' health."""
        return [envelope for envelope in self._watcher.envelopes if not isinstance(envelope.event, PluginHealth)]

    @property
    def derived(self) -> list[ProofEvent]:
        """The events that the plugins returned or published so far."""
        return [envelope.event for envelope in self.envelopes if envelope.origin not in (HOST, PRODUCER)]

    @property
    def health(self) -> dict[str, PluginHealth]:
        """The condition of each plugin, by name; its own counters are final once the host is closed."""
        return {lane.name: lane.health() for lane in self._host.lanes if lane.name != self._watcher.name}

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._report is not None

    def feed(
        self, events: Iterable[ProofEvent | Decoded] | Path, *, session_id: str | None = None, close: bool = True
    ) -> list[ProofEvent]:
        """Feed one session and wait until it is consumed; return the events that were derived meanwhile.

        Args:
            events: The session's events, one millisecond apart from `START_UNIX_NANO` on; or a file, which is read as
                ``proofstream run`` reads it, with all its sessions.
            session_id: The session's id; one of its own by default.
            close: Whether the session ends after its events.

        Raises:
            SourceError: The file cannot be read.
            TimeoutError: A plugin made no progress for `progress_timeout_s`.
        """
        before = len(self.derived)
        if isinstance(events, Path):
            self._read(events)
        else:
            self._deliver(events, session_id or f"test-session-{next(self._sessions)}", close=close)
        self._host.drain()
        busy = [lane.name for lane in self._host.lanes if not lane.is_at_rest]
        if busy:
            raise TimeoutError(f"{', '.join(busy)}: no progress for {self._host.settings.progress_timeout_s:g} s")
        return self.derived[before:]

    def _read(self, path: Path) -> None:
        from proofstream.contracts import SourceRequest

        source, _ = self._host.registry.sources["file"]
        source.open(SourceRequest(uri=str(path))).run(self._feed)

    def _deliver(self, events: Iterable[ProofEvent | Decoded], session_id: str, *, close: bool) -> None:
        session = self._feed.open_session(source="test", time_source="envelope", session_id=session_id, recorded=True)
        made = envelopes(events, session_id=session_id, close=close)
        for start in range(0, len(made), _CHUNK):
            session.deliver([_decoded(envelope) for envelope in made[start : start + _CHUNK]])
        if close:
            session.close()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
        """Wait for something that a plugin does later, such as on a tick or on a thread of its own.

        Raises:
            TimeoutError: The condition did not come true in time.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_s:g} s in vain")
            time.sleep(_POLL_S)

    def close(self, timeout_s: float | None = None) -> Report:
        """Unconfigure the plugins and return the report. Calling it again returns the same report.

        Its `problems` has one line for each thing that was not delivered, `refused` counts invalid events, and `ok` is
        true if there are neither.
        """
        if self._report is None:
            self._report = self._host.close(timeout_s)
        return self._report


def _decoded(envelope: Envelope) -> Decoded:
    return Decoded(
        event=envelope.event,
        raw=envelope.raw,
        time_unix_nano=envelope.time_unix_nano,
        origin=envelope.origin,
        job_id=envelope.job_id,
        parent_job_id=envelope.parent_job_id,
        time_source=envelope.time_source,
        traceparent=envelope.traceparent,
        model_name=envelope.model_name,
    )
