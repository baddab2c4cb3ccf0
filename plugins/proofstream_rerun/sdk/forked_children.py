"""Switches everything off in a forked child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

import rerun as rr


class Forgettable(Protocol):
    """Something that is no more in a forked child, where neither its threads nor Rerun's exist."""

    def forget(self) -> None:
        """Do nothing from now on."""
        ...


_forgettables: weakref.WeakSet[Forgettable] = weakref.WeakSet()


def forget_in_children(forgettable: Forgettable) -> None:
    """Have it told when it finds itself in a forked child."""
    _forgettables.add(forgettable)


def _forget_all() -> None:
    forgettables = list(_forgettables)
    for forgettable in forgettables:
        forgettable.forget()
    if forgettables:
        # It would wait for ever for a lock that one of Rerun's threads held in the parent when the child was forked.
        rr.unregister_shutdown()


os.register_at_fork(after_in_child=_forget_all)
