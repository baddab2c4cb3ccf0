"""Says early that there is no driver, so that a machine without one loads no more of this plugin."""

from __future__ import annotations

import sys

LIBRARY = "libnvidia-ml.so.1"
NO_DRIVER = f"there is no NVIDIA driver on this machine ({LIBRARY} was not found)"


def is_surely_missing() -> bool:
    """Return whether the system's loader does not find the driver's library; False where only NVML can tell."""
    if sys.platform != "linux":
        return False
    import ctypes  # as NVML's own binding does

    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return True
    return False
