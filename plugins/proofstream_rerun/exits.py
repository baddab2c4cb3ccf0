"""What becomes of streams that cannot be closed, and of everything in a forked child."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterable
from typing import Protocol

import rerun as rr


class Mortal(Protocol):
    """Something that is no more in a forked child, where neither its threads nor Rerun's exist."""

    def forget(self) -> None:
        """Do nothing from now on."""
        ...


_mortals: weakref.WeakSet[Mortal] = weakref.WeakSet()


def forget_in_children(mortal: Mortal) -> None:
    """Have it told when it finds itself in a forked child."""
    _mortals.add(mortal)


def _forget_all() -> None:
    for mortal in list(_mortals):
        mortal.forget()


os.register_at_fork(after_in_child=_forget_all)


def abandon(streams: Iterable[rr.RecordingStream]) -> None:
    """Leave streams behind whose peer does not answer, so that the process can still exit.

    Closing such a stream blocks for ever, and so do its destructor and the flush that Rerun does at the exit of the
    interpreter. So it gets a reference that nothing gives back, not even when the interpreter clears its modules, and
    that flush is called off, which is for all streams of the process: there is none for one of them.
    """
    for stream in streams:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
    rr.unregister_shutdown()
