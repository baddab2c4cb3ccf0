"""Names the conditions that a plugin can be in."""

from __future__ import annotations

import enum


class PluginStatus(enum.Enum):
    """The condition of a plugin."""

    AVAILABLE = "available"
    """Loaded; not configured."""
    STARTING = "starting"
    """Being configured."""
    READY = "ready"
    """Configured; takes events."""
    IDLE = "idle"
    """Configured, with nothing to do in this run."""
    STALLED = "stalled"
    """Busy with one batch, or with getting ready, for too long; the run does not wait for it."""
    DISABLED = "disabled"
    """Switched off; never imported."""
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
