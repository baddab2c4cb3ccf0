"""Closes the hosts that are still open when the process exits, and disables them in forked children."""

from __future__ import annotations

import atexit
import importlib
import math
import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import Protocol

from proofstream import forks
from proofstream.notices import warn_user
from proofstream.threads import has_main_ended
from proofstream.waiting import wait_until

NO_LATE_THREADS: bool = sys.version_info[:3] in ((3, 12, 0), (3, 12, 1))
"""Whether this Python starts no thread once the main thread has ended, so that plugins must be ready before."""

_LAST_TASKS_S = 0.5
"""How long threads may take to end that were still busy when the main thread ended."""


class OpenHost(Protocol):
    """A host, as the process's exit sees it."""

    @property
    def close_timeout_s(self) -> float:
        """The number of seconds that closing may take."""
        ...

    @property
    def is_at_rest(self) -> bool:
        """Whether its plugins are configured and have consumed everything."""
        ...

    def begin_exit(self, error: BaseException | None) -> None:
        """Begin to close, without waiting. What is emitted later is lost, and that is said.

        Args:
            error: The exception that ended the main thread's code, or None.
        """
        ...

    def wait_closed(self) -> object:
        """Wait until it is closed."""
        ...

    def detach(self) -> None:
        """Do nothing from now on."""
        ...


_hosts: weakref.WeakSet[OpenHost] = weakref.WeakSet()
_registered: list[bool] = []


def watch_host(host: OpenHost) -> None:
    """Close the host when the process exits, unless `forget_host` is called before."""
    _hosts.add(host)
    watch_process()
    # Exit handlers run last in, first out. Registered again for each host, ours runs before those of libraries that
    # earlier plugins imported, so those are still there when plugins finish.
    atexit.unregister(close_hosts)
    atexit.register(close_hosts)


def watch_process() -> None:
    """Register what is done around forks, and when the main thread ends. Calling it again does nothing."""
    if not _registered:
        _registered.append(True)
        _register_early()
        _register_at_fork()


def forget_host(host: OpenHost) -> None:
    """Leave the host alone when the process exits."""
    _hosts.discard(host)


def warn_if_too_late() -> None:
    """Say that no exit will close what is opened now, if this runs in an exit handler."""
    if has_main_ended() and threading.current_thread() is threading.main_thread():
        warn_user("a session that is opened while the process exits must be closed, or its end is lost")


def _register_early() -> None:
    """Register the closing that comes before `atexit`, where this Python has such a place.

    `threading` ends before `atexit`'s handlers run. Then thread pools refuse work, and so does everything that is built
    on them: the OpenTelemetry SDK cannot even be imported any more. The standard library's pools end themselves in the
    same place, last in, first out, so their module is imported before ours is registered.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        with suppress(RuntimeError):  # threading has already ended
            importlib.import_module("concurrent.futures.thread")
            register(_when_main_ends)


def _when_main_ends() -> None:
    """Close the hosts if no other thread may still emit; otherwise leave that to `atexit`, when those threads are done.

    Plugins that are still being configured get ready first in any case: they may need thread pools for it.
    """
    hosts = list(_hosts)
    if not hosts:
        return
    with suppress(BaseException):  # a signal: an exception here would keep threading from ending the other threads
        if not _is_alone():
            most_s = max(host.close_timeout_s for host in hosts)
            wait_until(lambda: all(host.is_at_rest for host in hosts), deadline=time.monotonic() + most_s)
        if wait_until(_is_alone, deadline=time.monotonic() + _LAST_TASKS_S):
            close_hosts()
        elif _is_worker():
            # Waited for like the threads that it waits for, because it is no daemon thread.
            threading.Thread(target=_close_when_alone, name="proofstream-exit", daemon=False).start()


def _is_worker() -> bool:
    """Return whether this is a process of `multiprocessing`: those end without `atexit`, unless they were spawned."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def _close_when_alone() -> None:
    wait_until(_is_alone, deadline=math.inf)
    close_hosts()


def _is_alone() -> bool:
    """Return whether no other thread may still emit, except daemon threads, which the interpreter does not wait for."""
    ours = (threading.current_thread(), threading.main_thread())  # this is only asked when the main thread has ended
    others = [thread for thread in threading.enumerate() if thread not in ours and not thread.daemon]
    return all(map(_is_idle_worker, others))


def _is_idle_worker(thread: threading.Thread) -> bool:
    """Return whether the thread belongs to a thread pool and waits for a task: `close_hosts` may be what ends it."""
    pools = sys.modules.get("concurrent.futures.thread")
    queue = getattr(pools, "_threads_queues", {}).get(thread)
    code = getattr(getattr(pools, "_worker", None), "__code__", None)
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented
    # The task would be called by `_worker`, and so be the innermost frame.
    return queue is not None and queue.empty() and frame is not None and frame.f_code is code


def close_hosts() -> None:
    """Close the hosts that are still open, all at the same time."""
    hosts = list(_hosts)
    for host in hosts:
        host.begin_exit(_error_of_main())
    for host in hosts:
        with suppress(BaseException):  # of a signal: it has shortened the wait, and the process ends anyway
            host.wait_closed()


def _error_of_main() -> BaseException | None:
    """Return the exception that ended the main thread's code. At a prompt, it may be any earlier one."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return None
    error = getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def _register_at_fork() -> None:
    """Register what is done around forks; the last registered waits first, before a library's locks are taken for it.

    Were a lock taken that one of our threads needs for its work, the fork would wait for that work in vain.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=forks.before_fork, after_in_parent=forks.after_fork_in_parent, after_in_child=_after_fork_in_child
        )


def _after_fork_in_child() -> None:
    forks.after_fork_in_child()
    for host in list(_hosts):
        host.detach()
    _hosts.clear()
