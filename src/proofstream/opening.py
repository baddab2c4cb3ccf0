"""Opens a session inside a Python process."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from proofstream import exits
from proofstream.errors import UsageError, in_parentheses
from proofstream.forks import IMPORTS_S, apart_from_forks
from proofstream.notices import warn_once, warn_user
from proofstream.report import Report
from proofstream.session import Session, enter, is_latest, unobserved_session
from proofstream.threads import ThreadError
from proofstream.visible_devices import device_environment
from proofstream.waiting import wait_until

if TYPE_CHECKING:
    from proofstream.config import Config
    from proofstream.host import Host
    from proofstream.loader import PluginRecord, Registry

Plugins: TypeAlias = Sequence[str | object] | None
Tables: TypeAlias = Mapping[str, Mapping[str, Any]] | None
Scope: TypeAlias = Literal["process", "context"]


def open_session(
    *,
    plugins: Plugins = None,
    config: Tables = None,
    source: str = "python",
    scope: Scope = "process",
) -> Session:
    """Start observing: make a host with plugins and a session that is current until it is closed.

    This does not wait for the plugins to get ready. Use the session in a ``with`` block, or call its `close`; otherwise
    it is closed when the program ends, or when a later session has taken its place and nothing refers to it any more.
    What was asked for and cannot be delivered is logged as a warning, and written to standard error if the application
    has not set logging up.

    Args:
        plugins: Names of plugins, or instances of plugins; by default, all installed ones that are used unasked.
        config: Configuration tables by plugin name, and ``host``; they win over file and environment.
        source: The name that is shown as the events' source.
        scope: `process`: the session is current in every thread; `context`: in this context (task, thread) only.

    Raises:
        UsageError: Something in `plugins` is not a plugin.
        PluginError: A plugin that was named or given is not installed, misses a package, or is broken.
        ConfigError: Something in `config`, or in what a plugin's constructor was given, is not acceptable. Mistakes in
            files and in the environment are warnings: they are left out.
    """
    return _start(plugins, config, source, scope, _caller()).enter()


def open_session_async(
    *,
    plugins: Plugins = None,
    config: Tables = None,
    source: str = "python",
    scope: Scope = "process",
) -> SessionOpening:
    """Open a session as `open_session` does, on a thread, so that an event loop goes on meanwhile.

    Use it as ``async with open_session_async(...) as session``, which also closes the session on a thread, or as
    ``session = await open_session_async(...)``. The session is then current in the task that waits for it.
    The arguments and the errors are those of `open_session`.
    """
    place = _caller()
    return SessionOpening(lambda: _start(plugins, config, source, scope, place))


class SessionOpening:
    """A session that is being opened on a thread: await it, or use it in an ``async with`` block."""

    def __init__(self, start: Callable[[], _Opened | _Unobserved]) -> None:
        self._start = start
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, Any, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio  # which a program with an event loop has imported already

        session, self._session = self._session, None
        if session is not None:
            # If the task is cancelled meanwhile, the closing goes on.
            await asyncio.to_thread(session.__exit__, kind, error, traceback)

    async def _open(self) -> Session:
        import asyncio

        # The thread gets a copy of this context, so plugins capture from it; what it sets itself is lost with the copy.
        starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        try:
            opened = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_give_up)
            raise
        return opened.enter()


def _give_up(starting: Any) -> None:
    """Close what was opened for a task that was cancelled meanwhile."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().begin_close("nothing waited for it any more")


def _start(plugins: Plugins, config: Tables, source: str, scope: Scope, place: _Place) -> _Opened | _Unobserved:
    exits.watch_process()
    _wait_for_forgotten()
    opened = _open(plugins, config, source, scope, place)
    if exits.NO_LATE_THREADS:
        opened.wait_configured()
    return opened


@apart_from_forks("open_session", IMPORTS_S)
def _open(plugins: Plugins, config: Tables, source: str, scope: Scope, place: _Place) -> _Opened | _Unobserved:
    # Imported here, because it takes a third of the time that `import proofstream` may take.
    from proofstream.config import load_config
    from proofstream.host import Host
    from proofstream.loader import Selection, entry_points, load, names_of

    if isinstance(plugins, str):
        raise UsageError(f"plugins is {plugins!r}; it must be a list", hint=f"plugins=[{plugins!r}]")
    found = entry_points()
    names = [p for p in plugins or () if isinstance(p, str)]
    instances = [p for p in plugins or () if not isinstance(p, str)]
    merged = load_config(plugins=names_of(found, instances), environ=os.environ, call=config, lenient=True)
    allowed = merged.host.plugins if plugins is None else ()
    selection = Selection(asked=frozenset(names), allowed=None if allowed is None else frozenset(allowed))
    registry = load(selection, found=found, instances=instances)
    merged.settle(registry)
    asked = [*names, *registry.given]
    for name in asked:
        registry.require(name)
    used_unasked = registry.enabled(by_command=False) if plugins is None and merged.host.plugin_autoload else []
    automatic = [name for name in used_unasked if registry.records[name].status.is_usable]
    _warn_of_unused(registry, merged, config or {}, used=(*asked, *used_unasked), unasked=used_unasked)
    opened = _Opened(place, process_wide=scope == "process")
    is_observed = bool(asked or automatic)  # without plugins, events go nowhere by intention
    host = Host(
        registry=registry,
        config=merged,
        asked=asked,
        wanted=automatic,
        on_end=opened.tell_end if is_observed else None,
        on_useless=opened.tell_useless if is_observed else None,
    )
    try:
        host.start()
    except ThreadError as error:
        return _Unobserved(source, f"nothing is observed: {error}{in_parentheses(error.hint)}")
    exits.warn_if_too_late()
    opened.begin(host, source)
    return opened


class _Unobserved:
    """Stands in for an opened session that could not be observed, which is said once."""

    def __init__(self, source: str, problem: str) -> None:
        warn_user(problem)
        self._session = unobserved_session(source, problem)

    def enter(self) -> Session:
        return self._session

    def wait_configured(self) -> None:
        """Return: nothing gets ready."""

    def begin_close(self, because: str) -> None:
        self._session.close(reason=because)


class _Opened:
    """A session that has a host to itself. Owns both, and closes them.

    Nothing but the code that opened the session holds the object that `enter` returns. So it is noticed when that code
    holds it no more: when a cell of a notebook is run again, for instance, which binds its variable to a new session. A
    session that was never held is the process's, though: `current_session` returns it.

    Args:
        place: Where it was opened.
        process_wide: Whether it is current in the whole process.
    """

    host: Host
    session: Session

    def __init__(self, place: _Place, *, process_wide: bool) -> None:
        self.place = place
        self._process_wide = process_wide
        self._held: weakref.ref[Session] | None = None
        self._was_held = False
        self._leave: Callable[[], None] = lambda: None
        self._said: set[str] = set()
        self._closed_because: str | None = None

    def begin(self, host: Host, source: str) -> None:
        """Begin the session, whose host has started."""
        self.host = host
        self.session = host.new_session(source=source, owner=self)
        host.announce(self.session, time_source="envelope", in_process=True, resource=device_environment(os.environ))

    def wait_configured(self) -> None:
        """Wait until the plugins are ready, or have had their time for that."""
        deadline = time.monotonic() + self.host.settings.configure_timeout_s
        wait_until(lambda: self.host.is_configured, deadline=deadline)

    def enter(self) -> Session:
        """Make the session current, and return it as the caller is to hold it."""
        held = self.session.twin()
        self._held = weakref.ref(held, self._let_go)
        if self._process_wide:
            _close_forgotten(self.place)
            _process_wide.append(self)
            find: Callable[[], Session] = self._find
        else:

            def find() -> Session:
                return held

        self._leave = enter(self.session.session_id, find, process_wide=self._process_wide)
        return held

    def _find(self) -> Session:
        held = None if self._held is None else self._held()
        return self.session if held is None else held

    @property
    def is_held(self) -> bool:
        """Whether the code that opened the session holds it."""
        return self._held is not None and self._held() is not None

    def is_forgotten_by(self, place: _Place) -> bool:
        """Return whether nothing will close the session any more, now that the code at a place opens another one."""
        if self.is_held or self.place.shown != place.shown:
            return False
        return self._was_held or self.place.is_run_again_as(place)

    def _let_go(self, _: object) -> None:
        """Close the session if nothing can reach it; in whatever code happened to drop it, so without a lock."""
        if self.session.is_closed:
            return
        self._was_held = _caller() != self.place  # otherwise, the line that opened it has dropped it
        if not self._process_wide:
            self.begin_close("nothing refers to it any more")
        elif not is_latest(self.session.session_id):
            self.begin_close("nothing refers to it any more, and a later session has taken its place")

    def begin_close(self, because: str) -> None:
        """Begin to close the session, without waiting, unless it is closed."""
        if not self.session.is_closed:
            self._closed_because = because
            _ending.append(self)
            self._end_being_current()
            self.host.begin_close(reason=because)

    def _end_being_current(self) -> None:
        self.host.warn_of_late_events("emitted after the session was closed")
        self._leave()
        with contextlib.suppress(ValueError):
            _process_wide.remove(self)

    # As the session's owner

    def capture(self) -> Mapping[str, object]:
        return self.host.capture()

    def flush(self, timeout_s: float) -> bool:
        return self.host.flush(timeout_s)

    @property
    def problems(self) -> list[str]:
        return self.host.problems

    def close_session(self, session: Session, timeout_s: float | None, *, outcome: str, reason: str | None) -> Report:
        self._end_being_current()
        return self.host.close(timeout_s, outcome=outcome, reason=reason)

    # On a thread of the host

    def tell_useless(self, problem: str, is_logged: bool) -> None:
        """Say at once that a plugin gets no events although it should, unless its lane has logged that."""
        self._said.add(problem)
        if not is_logged:
            warn_user(f"not delivered: {problem}")

    def tell_end(self, report: Report) -> None:
        """Say what the plugins did not get, except what was said before."""
        if self._closed_because is not None:
            warn_user(f"the session that was opened at {self.place.shown} is closed: {self._closed_because}")
        for problem in report.problems:
            if problem not in self._said:
                warn_user(f"not delivered: {problem}")
        if report.refused:
            warn_user(f"not delivered: {report.refused} refused")


_process_wide: list[_Opened] = []
_ending: list[_Opened] = []
_FORGOTTEN_S = 1.0


def _wait_for_forgotten() -> None:
    """Wait a little for sessions that end because nothing refers to them. In a loop, their threads would pile up."""
    deadline = time.monotonic() + _FORGOTTEN_S
    wait_until(lambda: all(opened.host.is_closed for opened in _ending), deadline=deadline)
    for opened in _ending.copy():
        if opened.host.is_closed:
            with contextlib.suppress(ValueError):  # another thread may open a session, too
                _ending.remove(opened)


def _close_forgotten(place: _Place) -> None:
    """Close the sessions that this code opened when it ran before: a notebook's cell, or a function that held its own.

    A program may well open several at one place, in a loop, without holding them. A cell that runs again means another.
    """
    for opened in _process_wide.copy():
        if opened.is_forgotten_by(place):
            opened.begin_close("a later one from the same place has taken its place")


class _Place(NamedTuple):
    """A place in somebody's code, which is known only as long as that runs or may run again."""

    shown: str
    code: weakref.ref[CodeType]

    def is_run_again_as(self, later: _Place) -> bool:
        """Return whether the text was compiled once more: a notebook's cell that runs again, or a module reloaded."""
        return self.shown == later.shown and self.code() is not later.code()


def _caller() -> _Place:
    """Return where the code is that called our caller."""
    frame = sys._getframe(2)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented
    return _Place(f"{frame.f_code.co_filename}:{frame.f_lineno}", weakref.ref(frame.f_code))


def _warn_of_unused(
    registry: Registry, merged: Config, given: Iterable[str], *, used: Collection[str], unasked: Sequence[str]
) -> None:
    """Say which settings and variables have no effect, because their plugins cannot be used or are not."""
    for name in unasked:
        if not registry.records[name].status.is_usable and merged.tables.get(name):
            _warn_of_unusable(registry.records[name])
    for name in given:
        if name in registry.records and name not in used:
            warn_once(
                f"config has settings for plugin {name}, which this session does not use (plugins=[...] names it)"
            )
    for line in registry.unmet_wishes((name for name in unasked if not merged.tables.get(name)), os.environ):
        warn_user(line)


def _warn_of_unusable(record: PluginRecord) -> None:
    """Say that a plugin cannot be used although it has settings. That must not end the prover."""
    hint = in_parentheses(record.hint)
    warn_user(f"plugin {record.label} has settings and is {record.status.value}: {record.reason}{hint}")
