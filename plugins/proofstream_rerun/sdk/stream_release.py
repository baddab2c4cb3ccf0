"""What becomes of streams that are closed, of those that cannot be, and of everything in a forked child."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterable

import rerun as rr
from rerun_bindings import flush_and_cleanup_orphaned_recordings

_left_behind = threading.Event()


def release_closed_streams() -> None:
    """Give back what closed streams hold.

    Rerun keeps every stream of the process, closed or not, with two threads and a megabyte, until it is asked to let go
    of those that nobody refers to. It flushes all others then, which must not be done while one waits for its peer, and
    takes the application's own recording from it, so an application that has one is left alone.
    """
    if _left_behind.is_set() or rr.get_global_data_recording() is not None:
        return
    with contextlib.suppress(RuntimeError):  # a stream is broken, and will be closed; there is a next time
        flush_and_cleanup_orphaned_recordings()


def abandon_streams(streams: Iterable[rr.RecordingStream]) -> None:
    """Leave streams behind whose peer does not answer, so that the process can still exit.

    Closing such a stream blocks for ever, and so do its destructor and the flush that Rerun does at the exit of the
    interpreter. So it gets a reference that nothing gives back, not even when the interpreter clears its modules, and
    that flush is called off, which is for all streams of the process: there is none for one of them.
    """
    _left_behind.set()
    for stream in streams:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
    rr.unregister_shutdown()
