"""The condition of a plugin."""

from __future__ import annotations

import enum


class PluginStatus(enum.Enum):
    """Where a plugin stands."""

    AVAILABLE = "available"
    """Loaded; not configured."""
    STARTING = "starting"
    """Being configured."""
    READY = "ready"
    """Configured; takes events."""
    IDLE = "idle"
    """Configured, with nothing to do in this run."""
    STALLED = "stalled"
    """Busy with one batch, or with getting ready, for too long; nobody waits for it."""
    DISABLED = "disabled"
    """Told not to be used; never imported."""
    MISSING = "missing"
    """Needs packages that are not installed."""
    BROKEN = "broken"
    """Could not be imported, checked or configured."""
    FAILED = "failed"
    """Raised while it ran; it gets no more events."""

    @property
    def is_usable(self) -> bool:
        """Whether a host can make a lane for it."""
        return self is PluginStatus.AVAILABLE
