"""Opens a session inside a Python process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from proofstream import exits
from proofstream.errors import UsageError, in_parentheses
from proofstream.forks import IMPORTS_S, apart_from_forks
from proofstream.notices import warn_once, warn_user
from proofstream.session import Session, enter, unobserved_session
from proofstream.threads import ThreadError
from proofstream.visible_devices import device_environment
from proofstream.waiting import wait_until

if TYPE_CHECKING:
    from proofstream.host import Host
    from proofstream.loader import PluginRecord
    from proofstream.report import Report


def open_session(
    *,
    plugins: Sequence[str | object] | None = None,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    source: str = "python",
    scope: Literal["process", "context"] = "process",
) -> Session:
    """Start observing: make a host with plugins and a session that is current until it is closed.

    This does not wait for the plugins to get ready. Use the session in a ``with`` block, or call its `close`; otherwise
    it is closed when the program ends. What was asked for and not delivered is logged as a warning, and written to
    standard error if the application has not set logging up.

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
    exits.watch_process()
    session, host = _open(plugins, config, source, scope)
    if host is not None and exits.NO_LATE_THREADS:
        wait_until(lambda: host.is_configured, deadline=time.monotonic() + host.settings.configure_timeout_s)
    return session


@apart_from_forks("open_session", IMPORTS_S)
def _open(
    plugins: Sequence[str | object] | None,
    config: Mapping[str, Mapping[str, Any]] | None,
    source: str,
    scope: Literal["process", "context"],
) -> tuple[Session, Host | None]:
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
    for name in used_unasked:
        if name not in automatic and merged.tables.get(name):
            _warn_of_unusable(registry.records[name])
    for name in config or {}:
        if name in registry.records and name not in (*asked, *used_unasked):
            warn_once(
                f"config has settings for plugin {name}, which this session does not use (plugins=[...] names it)"
            )
    host = Host(
        registry=registry,
        config=merged,
        asked=asked,
        wanted=automatic,
        on_end=_warn_of_losses if asked or automatic else None,
    )
    try:
        host.start()
    except ThreadError as error:
        warn_user(f"nothing is observed: {error}{in_parentheses(error.hint)}")
        return unobserved_session(source), None
    exits.warn_if_too_late()
    owner = _Opened(host)
    session = host.new_session(source=source, owner=owner)
    host.announce(session, time_source="envelope", in_process=True, resource=device_environment(os.environ))
    owner.leave = enter(session, process_wide=scope == "process")
    return session, host


class _Opened:
    """Owns a session that has a host to itself, and closes both."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.leave: Callable[[], None] = lambda: None
        self.capture = host.capture
        self.flush = host.flush

    def close_session(self, session: Session, timeout_s: float | None, *, outcome: str, reason: str | None) -> None:
        self.leave()
        self._host.close(timeout_s, outcome=outcome, reason=reason)


def _warn_of_unusable(record: PluginRecord) -> None:
    """Say that a plugin cannot be used although it has settings. That must not end the prover."""
    hint = in_parentheses(record.hint)
    warn_user(f"plugin {record.label} has settings and is {record.status.value}: {record.reason}{hint}")


def _warn_of_losses(report: Report) -> None:
    """Say what the plugins did not get; without plugins, events go nowhere by intention."""
    for problem in report.problems:
        warn_user(f"not delivered: {problem}")
    if report.refused:
        warn_user(f"not delivered: {report.refused} refused (the logger proofstream.session says why)")
