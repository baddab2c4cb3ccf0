"""Runs a source with plugins from beginning to end: ``proofstream run`` without the command line.

The source runs on a thread of its own, so that a signal can stop this one at any moment.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofstream.config import Config
from proofstream.contracts import Source, SourceRequest, SourceType
from proofstream.errors import ProofstreamError, SourceError, UsageError, describe
from proofstream.feeds import HostFeed
from proofstream.forks import ending_forked_children
from proofstream.hookspecs import PROJECT
from proofstream.host import Host
from proofstream.intake import Wakeup
from proofstream.loader import Registry
from proofstream.report import Report
from proofstream.sources.builtin import named
from proofstream.threads import ThreadError, start_thread

EXIT_OK = 0
EXIT_UNDELIVERED = 1
EXIT_USAGE = 2

_STRICT = "a plugin failed, and --strict was given"

_log = logging.getLogger("proofstream.run")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """The source to run and the plugins to run it with.

    Attributes:
        registry: The plugins.
        config: The merged configuration.
        request: The source, and how to read it.
        asked: Plugins that must work.
        wanted: Plugins that are used if they can be.
        optional: Those of them that may fail although they have settings: a command turned them on by itself.
        say: Shows a line to the user; returns once it is written.
        tell: Shows a line to the user without waiting.
        traceback_hint: Says how to see the traceback of a plugin that failed.
    """

    registry: Registry
    config: Config
    request: SourceRequest
    asked: Sequence[str]
    wanted: Sequence[str]
    optional: Collection[str] = ()
    say: Callable[[str], None]
    tell: Callable[[str], None]
    traceback_hint: str


@dataclass(kw_only=True, slots=True)
class RunResult:
    """The end of a run.

    Attributes:
        report: The problems: what was not delivered.
        signal: The signal that ended it, or None.
        written: The results that were written, each with its next step.
        source_failed: Whether the source could not be read to its end.
    """

    report: Report
    signal: int | None = None
    written: Sequence[tuple[Path, str]] = ()
    source_failed: bool = False

    @property
    def exit_status(self) -> int:
        """0; 1 if something asked for was not delivered; or 128 plus the signal's number."""
        if self.signal is not None:
            return 128 + self.signal
        return EXIT_OK if self.report.ok else EXIT_UNDELIVERED


def find_source(registry: Registry, uri: str) -> SourceType:
    """Return the kind of source that a SOURCE argument names.

    Raises:
        UsageError: No plugin has a source of that scheme.
        PluginError: The plugin that has it cannot be used.
    """
    scheme = "-" if uri == "-" else uri.partition(":")[0] if ":" in uri else "file"
    found = registry.sources.get(scheme)
    if found is not None:
        source, owner = found
        if owner != PROJECT:
            registry.require(owner)
        return source
    # A path may hold a colon, and on some systems begins with a drive letter.
    if "://" not in uri and ("/" in uri or "." in uri or len(scheme) == 1):
        return registry.sources["file"][0]
    known = ", ".join(source.form for source, _ in registry.sources.values())
    raise UsageError(f"no source is called {scheme!r}", hint=f"sources: {known}")


class Run:
    """One run of one source. `stop` may be called from a signal handler.

    Raises:
        UsageError: The source or an option is not acceptable.
        PluginError: A plugin that was asked for cannot be used.
        SourceError: The source cannot be opened.
    """

    def __init__(self, what: RunRequest) -> None:
        what = dataclasses.replace(what, request=named(what.request))
        self._what = what
        self._type = find_source(what.registry, what.request.uri)
        if self._type.live and what.request.speed is not None:
            raise UsageError(f"--speed paces a recording; {what.request.uri} is live")
        _check_pause(what.request)
        self._source: Source = self._open()
        # Not an Event: a signal handler sets it, and an Event's lock may be held by the very thread that it interrupts.
        self._ended = Wakeup()
        self._error: ProofstreamError | None = None
        self._signal: int | None = None
        self._signalled_at = 0.0
        self._cut_short = False
        self._feed: HostFeed | None = None

    def _open(self) -> Source:
        uri = self._what.request.uri
        try:
            source = self._type.open(self._what.request)
        except (ProofstreamError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a third-party source may raise anything, also a Rust panic
            _log.debug("source %s could not be opened", uri, exc_info=True)
            raise self._failed(f"{uri} cannot be opened", error) from None
        if not all(callable(getattr(source, method, None)) for method in ("run", "stop")):
            raise SourceError(f"{uri} cannot be opened: `open` returned {type(source).__name__}, without run and stop")
        return source

    def _failed(self, what: str, error: BaseException) -> SourceError:
        return SourceError(f"{what}: {describe(error)}", hint=self._what.traceback_hint or None)

    def stop(self, signal: int) -> None:
        """End the run soon, because of a signal. May be called from its handler."""
        self._signal, self._signalled_at = signal, time.monotonic()
        self._interrupt(_by(signal))
        self._ended.set()

    def _interrupt(self, reason: str) -> None:
        if self._feed is not None:
            self._feed.interrupted = reason
            self._feed.stopping = True

    def run(self) -> RunResult:
        """Run until the source ends or the run is stopped; then let the plugins finish."""
        what = self._what
        host = Host(
            registry=what.registry,
            config=what.config,
            asked=what.asked,
            wanted=what.wanted,
            optional=what.optional,
            live=self._type.live or what.request.follow,
            tell=what.tell,
            traceback_hint=what.traceback_hint,
        )
        host.start()
        try:
            host.wait_configured(stopping=lambda: self._signal is not None)
        except ProofstreamError:
            host.close()
            raise
        self._introduce(host)
        name = what.request.model_name
        self._feed = HostFeed(host, waits=self._type.waits, tell=what.tell, model_name=name)
        if self._signal is None:
            self._run_source(host, self._feed)
        outcome = self._outcome(host)
        if self._signal is not None:
            _log.info("signal %d: finishing", self._signal)
        if self._signal is None:
            host.drain(stopping=lambda: self._signal is not None or self._must_end(host))
        report = host.close(self._time_left(host), outcome=outcome[0], reason=outcome[1])
        if self._error is not None:
            report.problems.insert(0, str(self._error))
        if self._cut_short:
            report.problems.insert(0, f"the rest of {what.request.uri}: the run ended early ({_STRICT})")
        return RunResult(
            report=report,
            signal=self._signal,
            written=host.written,
            source_failed=self._error is not None and self._signal is None,
        )

    def _introduce(self, host: Host) -> None:
        """Say what is read with which plugins, and where that will be seen if nobody watches a terminal."""
        what, names = self._what, host.introduced
        flags = sorted(option.flag for option, _ in what.registry.options.values() if option.artefact is not None)
        keeping = f" (to keep them: {', '.join(flags)})" if flags else ""
        what.say(f"reading {what.request.uri} with {', '.join(names) or 'no plugin'}")
        if not names:
            what.say(f"the events are read, and neither shown nor kept{keeping}")
        elif host.live and not _has_terminal() and host.shows_only:
            what.say(f"the events are shown as lines here, and not kept{keeping}")

    def _run_source(self, host: Host, feed: HostFeed) -> None:
        thread = threading.Thread(target=self._read, args=(feed,), name="proofstream-source", daemon=True)
        try:
            start_thread(thread)
        except ThreadError:
            host.close()
            raise
        while not self._ended.wait(0.1):
            if self._must_end(host):
                self._cut_short = True
                self._interrupt(_STRICT)
                break
        feed.stopping = True
        self._stop_source()
        thread.join(1.0)
        if isinstance(self._error, UsageError | SourceError) and not host.sessions_opened:
            host.close()
            raise self._error

    def _stop_source(self) -> None:
        try:
            self._source.stop()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a third-party source may raise anything; the plugins must still finish
            _log.warning("%s could not be stopped: %s", self._what.request.uri, describe(error))

    def _read(self, feed: HostFeed) -> None:
        try:
            with ending_forked_children():
                self._source.run(feed)
        except BaseException as error:  # noqa: BLE001 - a third-party source may raise anything; it ends the run, reported
            self._error = error if isinstance(error, ProofstreamError) else self._failed("the source failed", error)
            _log.debug("source %s failed", self._what.request.uri, exc_info=True)
        finally:
            self._ended.set()

    def _time_left(self, host: Host) -> float:
        """Return the seconds that plugins have to finish; after a signal, stopping the source has used some of them."""
        spent = 0.0 if self._signal is None else time.monotonic() - self._signalled_at
        return max(0.0, host.settings.close_timeout_s - spent)

    def _must_end(self, host: Host) -> bool:
        return self._what.config.host.strict and host.failed is not None

    def _outcome(self, host: Host) -> tuple[str, str | None]:
        if self._signal is not None:
            return "interrupted", _by(self._signal)
        if self._error is not None:
            return "lost", str(self._error)
        if self._must_end(host):
            return "interrupted", _STRICT
        return "ended", None


def _check_pause(request: SourceRequest) -> None:
    if request.max_pause_s is None:
        return
    if request.speed is None:
        raise UsageError("--max-pause shortens the pauses of --speed, and without that there are none")
    if not request.max_pause_s >= 0:
        raise UsageError(f"--max-pause {request.max_pause_s}: must be a number of seconds")


def _has_terminal() -> bool:
    try:
        return os.isatty(2)
    except OSError:
        return False


def _by(number: int) -> str:
    name = signal.Signals(number).name
    return "by Ctrl-C (SIGINT)" if number == signal.SIGINT else f"by {name}"
