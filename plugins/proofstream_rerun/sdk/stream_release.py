"""Releases the memory and threads of closed streams, and abandons streams that cannot be closed."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterable

import rerun as rr
from rerun_bindings import flush_and_cleanup_orphaned_recordings

RELEASE_AFTER = 32
"""How many streams are opened before the closed ones are released, which flushes all the others."""
MOST_UNRELEASED = 96
"""How many streams may be opened before a release. Rerun keeps two threads for each."""

_left_behind = threading.Event()
# Since the last release. Threads change it without a lock, which a fork could leave locked: a lost count does no harm.
_opened = 0


def count_stream() -> None:
    """Count a stream that is opened."""
    global _opened  # noqa: PLW0603 - Rerun keeps its streams for the process as well
    _opened += 1


def unreleased_streams() -> int:
    """Return how many streams were opened since the last release; 0 if none can be released in this process."""
    return _opened if _may_release() else 0


def release_closed_streams() -> None:
    """Release the memory and threads of closed streams.

    Rerun keeps every stream of the process, closed or not, with two threads and a megabyte, until it is asked to
    release those without a reference. That also flushes all other streams, so it must not happen while one of them
    waits for its peer. It also drops the application's global recording, so if there is one, nothing is released.
    """
    global _opened  # noqa: PLW0603
    if not _may_release():
        return
    _opened = 0  # even if the release fails: the next one is due after as many streams again
    with contextlib.suppress(RuntimeError):  # another stream is broken; its outlet closes it, and the next call works
        flush_and_cleanup_orphaned_recordings()


def _may_release() -> bool:
    return not _left_behind.is_set() and rr.get_global_data_recording() is None


def abandon_streams(streams: Iterable[rr.RecordingStream]) -> None:
    """Leave behind streams whose peer does not answer, so that the process can still exit.

    Closing such a stream blocks forever, and so do its destructor and Rerun's flush at the interpreter's exit. So each
    stream gets a reference that is never released, not even when the interpreter clears its modules, and the flush at
    exit is cancelled. Rerun can cancel it only for all streams of the process at once.
    """
    _left_behind.set()
    for stream in streams:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
    rr.unregister_shutdown()
