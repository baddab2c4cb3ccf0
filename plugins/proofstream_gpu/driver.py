"""The interface of a driver: the devices that it finds, and the calls that it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from proofstream_gpu.figures import Identity, RawReading

MAX_DEVICES = 256
"""Devices that are watched. A machine with sixteen GPUs of seven MIG instances each has half as many."""


class DriverUnavailable(Exception):
    """The driver cannot be used; the message says why in one line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDevice:
    """A device, and the driver's handle of it."""

    identity: Identity
    handle: Any


class Driver(Protocol):
    """A driver as the watch uses it, from one thread; see `Nvml`.

    Attributes:
        unopened: Devices that exist but could not be opened, with the reason.
    """

    unopened: list[str]

    def open(self) -> None:
        """Initialise the driver, or raise DriverUnavailable."""

    def close(self) -> None:
        """Shut down what `open` initialised."""

    def discover(self) -> list[FoundDevice]:
        """Find all devices, or raise DriverUnavailable."""
        ...

    def read(self, device: FoundDevice) -> RawReading:
        """Ask a device for all figures."""
        ...

    def counts_xids(self, device_id: str) -> bool:
        """Return whether the driver reports that GPU's critical errors."""
        ...

    def take_xids(self) -> list[tuple[str, int]]:
        """Return the critical errors since the last call: the GPU's id and the error's number."""
        ...
