"""A fake host for sources. It keeps everything they deliver, by session."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from proofstream.catalog import Catalog
from proofstream.contracts import Source, SourceRequest
from proofstream.events import ProofEvent
from proofstream.sources.builtin import builtin_sources
from proofstream.wire import Decoded, Refusal

DEADLINE_S = 10.0


class FakeSession:
    """One session, with everything that a source delivered to it."""

    def __init__(
        self,
        *,
        session_id: str,
        source: str,
        time_source: str,
        opened_at: int | None,
        opened_time_source: str | None,
        time_resolution_ns: int | None,
        recorded: bool,
    ) -> None:
        self.session_id = session_id
        self.source = source
        self.time_source = time_source
        self.opened_at = opened_at
        self.opened_time_source = opened_time_source
        self.time_resolution_ns = time_resolution_ns
        self.recorded = recorded
        self.decoded: list[Decoded] = []
        self.dropped: Counter[str] = Counter()
        self.chunks: list[int] = []
        self.refusals: list[Refusal] = []
        self.closed: list[tuple[str, str | None]] = []
        self.delivered_at: list[float] = []

    def deliver(self, chunk: Sequence[Decoded]) -> None:
        assert not self.closed
        self.decoded.extend(chunk)
        self.chunks.append(len(chunk))
        self.delivered_at.append(time.monotonic())

    def drop_bulk(self, counts: Mapping[str, int]) -> None:
        assert not self.closed
        self.dropped.update(counts)

    def emit(self, event: ProofEvent) -> None:
        raise AssertionError(f"a source emitted {event}")

    def refuse(self, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    def close(self, outcome: str = "ended", reason: str | None = None) -> None:
        self.closed.append((outcome, reason))

    @property
    def kinds(self) -> list[str]:
        return [type(d.event).__name__ for d in self.decoded]

    @property
    def times(self) -> list[int | None]:
        return [d.time_unix_nano for d in self.decoded]

    @property
    def time_sources(self) -> list[str | None]:
        """Where each event's time comes from, if not from where the session's times come."""
        return [d.time_source for d in self.decoded]


class FakeFeed:
    """A host that keeps everything."""

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []
        self.announced: list[str] = []
        self.stopping = False
        self.overloaded = False
        self.congested = False
        self.backlog_bytes = 64 * 2**20
        self._lock = threading.Lock()

    def open_session(
        self,
        *,
        source: str,
        time_source: str,
        session_id: str | None = None,
        opened_at: int | None = None,
        opened_time_source: str | None = None,
        time_resolution_ns: int | None = None,
        recorded: bool = False,
    ) -> FakeSession:
        with self._lock:
            session = FakeSession(
                session_id=session_id if session_id is not None else f"fresh-{len(self.sessions)}",
                source=source,
                time_source=time_source,
                opened_at=opened_at,
                opened_time_source=opened_time_source,
                time_resolution_ns=time_resolution_ns,
                recorded=recorded,
            )
            self.sessions.append(session)
        return session

    def announce(self, text: str) -> None:
        self.announced.append(text)

    @property
    def only(self) -> FakeSession:
        (session,) = self.sessions
        return session

    @property
    def delivered(self) -> int:
        return sum(len(session.decoded) for session in self.sessions)


class Running:
    """A source that runs on its own thread."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.feed = FakeFeed()
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.source.run(self.feed)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    @property
    def address(self) -> str:
        """The address that it listens on. Waits until it does."""
        eventually(lambda: self.feed.announced or self.error)
        if self.error is not None:
            raise self.error
        return self.feed.announced[0].removeprefix("listening on ")

    def join(self, timeout_s: float = DEADLINE_S) -> None:
        """Wait until the source ends, and raise its error if it has one."""
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), "the source did not end"
        if self.error is not None:
            raise self.error

    def stop(self) -> float:
        """Stop the source. Returns how many seconds that took."""
        begun = time.monotonic()
        self.source.stop()
        self.join()
        return time.monotonic() - begun


def eventually(condition: Callable[[], object], timeout_s: float = DEADLINE_S) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(0.01)


def open_source(uri: object, **flags: Any) -> Source:
    """Open one of the core's sources as the command does."""
    request = SourceRequest(uri=str(uri), **flags)
    scheme = "-" if request.uri == "-" else request.uri.partition(":")[0]
    types = {t.scheme: t for t in builtin_sources(Catalog())}
    return types.get(scheme, types["file"]).open(request)


def replay(path: Path, **flags: Any) -> FakeFeed:
    """Read a file to its end."""
    feed = FakeFeed()
    open_source(path, **flags).run(feed)
    return feed


@pytest.fixture(name="open_source")
def open_source_fixture() -> Callable[..., Source]:
    """Opens one of the core's sources by its URI and flags."""
    return open_source


@pytest.fixture(name="replay")
def replay_fixture() -> Callable[..., FakeFeed]:
    """Reads a file to its end. Returns the fake host that received it."""
    return replay


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., None]:
    """Waits until a condition holds."""
    return eventually


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Starts sources, and stops them at the end of the test."""
    started: list[Running] = []

    def begin(what: str | Path | Source, **flags: Any) -> Running:
        running = Running(open_source(what, **flags) if isinstance(what, str | Path) else what)
        started.append(running)
        return running

    yield begin
    for running in started:
        running.source.stop()
        running.thread.join(DEADLINE_S)
        assert not running.thread.is_alive()
