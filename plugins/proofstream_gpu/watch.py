"""Keeps track of the devices: which exist, which are lost, and when to look for lost devices again. It uses no SDK.

A lost device does not disturb the others. Each sample reports it as lost, without figures, until it answers again.
Looking for it means initialising the driver again, so the waits between two attempts grow, for each device separately.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from proofstream import GpuReading, GpuTelemetry, safe_text
from proofstream_gpu.driver import MAX_DEVICES, Driver, DriverUnavailable, FoundDevice
from proofstream_gpu.figures import Answer, Identity, NoAnswer, lost_reading, to_reading

_MOST_RETRIES_APART = 60
_MOST_UNOPENED_NAMED = 16


@dataclass(slots=True)
class _Watched:
    """A watched device and its state; `logged` names the messages that are not repeated.

    While it is lost, it is looked for at `retry_at`, and next after `retry_s` more.
    """

    found: FoundDevice
    retry_s: float
    retry_at: float = 0.0
    is_lost: bool = False
    xid_errors: int = 0
    logged: set[str] = field(default_factory=set[str])

    @property
    def identity(self) -> Identity:
        return self.found.identity


class Watch:
    """The watched devices, used from one thread; only `counters` and `lost_readings` are safe from any thread.

    Args:
        driver: The driver.
        devices: Numbers, UUIDs or beginnings of UUIDs of the devices to watch; empty for all.
        retry_s: Seconds until the first retry for a lost device; doubled each time, until it answers.
        log: Receives messages for the user.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        devices: Sequence[str] = (),
        retry_s: float = 5.0,
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._wanted = tuple(devices)
        self._least_retry_s = retry_s
        self._log = log
        self._clock = clock
        self._devices: dict[str, _Watched] = {}
        self._unopened: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._changing = threading.Lock()

    def open(self) -> None:
        """Initialise the driver and find the devices.

        Raises:
            DriverUnavailable: No driver, no GPU or none of the requested devices was found.
        """
        self._driver.open()
        try:
            found = self._driver.discover()
            self._take_stock(found)
            if not self._devices:
                raise DriverUnavailable(self._why_none(found))
        except BaseException:
            self._driver.close()
            raise

    def close(self) -> None:
        """Shut the driver down."""
        self._driver.close()

    def counters(self) -> dict[str, int]:
        """Return the counts of devices, samples and failures, by name."""
        with self._changing:
            always = {"devices": len(self._devices), "samples": 0, "dropped_values": 0}
            return always | dict(self._counts)

    def lost_readings(self) -> list[GpuReading]:
        """Return readings that report every device as lost, for a driver that does not respond."""
        with self._changing:
            return [lost_reading(device.identity) for device in self._devices.values()]

    def look_again(self) -> None:
        """Find devices that are new, such as MIG instances."""
        try:
            self._take_stock(self._driver.discover())
        except DriverUnavailable as error:
            self._log.debug("%s", error)

    def sample(self) -> GpuTelemetry:
        """Ask every device for all figures; look for lost devices if a retry is due."""
        now = self._clock()
        due = [device for device in self._devices.values() if device.is_lost and now >= device.retry_at]
        if due:
            self._restart_driver(due)
        self._count_xids()
        readings = [self._read(device) for device in self._devices.values()]
        self._count("samples")
        return GpuTelemetry(devices=readings)

    # Reading

    def _read(self, device: _Watched) -> GpuReading:
        if device.is_lost:
            return lost_reading(device.identity)
        mapped = to_reading(device.identity, self._driver.read(device.found), xid_errors=self._xids_of(device))
        if mapped.is_lost:
            self._lose(device)
            return mapped.reading
        device.retry_s, device.retry_at = self._least_retry_s, 0.0
        self._count("dropped_values", len(mapped.dropped))
        self._log_once(device, "dropped", mapped.dropped, "reports implausible values")
        self._log_once(
            device, "denied", mapped.denied, "does not let us read (in a container it may need more capabilities)"
        )
        if "lost" in device.logged:
            device.logged.discard("lost")
            self._log.warning("%s answers again", device.identity.label)
        return mapped.reading

    def _log_once(self, device: _Watched, what: str, fields: Sequence[str], how: str) -> None:
        if fields and what not in device.logged:
            device.logged.add(what)
            self._log.info("%s %s: %s", device.identity.label, how, ", ".join(fields))

    def _xids_of(self, device: _Watched) -> Answer:
        if device.identity.parent_id is not None:
            return NoAnswer.NOT_ASKED
        return device.xid_errors if self._driver.counts_xids(device.identity.id) else NoAnswer.UNSUPPORTED

    def _count_xids(self) -> None:
        for device_id, number in self._driver.take_xids():
            device = self._devices.get(device_id)
            if device is not None:
                device.xid_errors += 1
                self._count("xid_errors")
                self._log.warning("%s: critical error XID %d", device.identity.label, number)

    # Losing and finding devices

    def _lose(self, device: _Watched) -> None:
        device.is_lost = True
        # A device that a restart for another one has found, in vain, keeps its own date.
        if device.retry_at <= self._clock():
            device.retry_at = self._clock() + device.retry_s
        if "lost" not in device.logged:
            device.logged.add("lost")
            self._count("devices_lost")
            self._log.warning("%s is lost: it no longer answers", device.identity.label)

    def _restart_driver(self, due: Sequence[_Watched]) -> None:
        for device in due:
            device.retry_s = min(2 * device.retry_s, _MOST_RETRIES_APART * self._least_retry_s)
            device.retry_at = self._clock() + device.retry_s
        self._count("driver_restarts")
        self._driver.close()
        try:
            self._driver.open()
            self._take_stock(self._driver.discover())
        except DriverUnavailable as error:
            self._log.debug("%s", error)

    def _take_stock(self, found: Sequence[FoundDevice]) -> None:
        """Update the devices. A lost device that was found counts as back; the next reading shows whether it is.

        A MIG instance that was not found, although its GPU was, has been removed and is not lost.
        """
        chosen = {one.identity.id for one in found if self._is_wanted(one.identity)}
        there = {one.identity.id: one for one in found if {one.identity.id, one.identity.parent_id} & chosen}
        with self._changing:
            for device_id, one in there.items():
                device = self._devices.setdefault(device_id, _Watched(one, self._least_retry_s))
                device.found, device.is_lost = one, False
            # A driver that gives its devices new ids leaves lost ones behind, and these must not become many.
            is_full = len(self._devices) > MAX_DEVICES
            for device_id, device in list(self._devices.items()):
                if device_id not in there and (is_full or device.identity.parent_id in there):
                    del self._devices[device_id]
        for device_id, device in self._devices.items():
            if device_id not in there and not device.is_lost:
                self._lose(device)
        reasons = [reason for reason in self._driver.unopened if reason not in self._unopened]
        for reason in reasons[:_MOST_UNOPENED_NAMED]:
            self._log.warning("a device cannot be watched: %s", reason)
        if len(reasons) > _MOST_UNOPENED_NAMED:
            self._log.warning("%d more devices cannot be watched", len(reasons) - _MOST_UNOPENED_NAMED)
        self._unopened = set(self._driver.unopened)

    def _is_wanted(self, identity: Identity) -> bool:
        """Return whether the settings select a device; a GPU's instances come with it."""
        number = str(identity.index) if identity.parent_id is None else None
        return not self._wanted or any(want == number or identity.id.startswith(want) for want in self._wanted)

    def _why_none(self, found: Sequence[FoundDevice]) -> str:
        if found:
            there = ", ".join(one.identity.label for one in found)
            return f"gpu.devices: none of {safe_text(', '.join(self._wanted))} was found; found: {there}"
        if self._driver.unopened:
            return f"no GPU can be watched: {'; '.join(self._driver.unopened[:_MOST_UNOPENED_NAMED])}"
        return "the NVIDIA driver lists no GPU"

    def _count(self, name: str, by: int = 1) -> None:
        with self._changing:
            self._counts[name] += by
