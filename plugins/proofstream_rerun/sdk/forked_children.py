"""Switches the plugin off in a forked child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

import rerun as rr


class Forgettable(Protocol):
    """An object that is useless in a forked child, which has neither its threads nor Rerun's."""

    def forget(self) -> None:
        """Do nothing from now on."""
        ...


_forgettables: weakref.WeakSet[Forgettable] = weakref.WeakSet()


def forget_in_children(forgettable: Forgettable) -> None:
    """Call `forget` on an object in every child that is forked from now on, as long as the object lives."""
    _forgettables.add(forgettable)


def _forget_all() -> None:
    forgettables = list(_forgettables)  # a copy: objects may be collected meanwhile
    for forgettable in forgettables:
        forgettable.forget()
    if forgettables:
        # Rerun's flush at exit could wait forever for a lock that one of its threads held when the child was forked.
        rr.unregister_shutdown()


os.register_at_fork(after_in_child=_forget_all)
