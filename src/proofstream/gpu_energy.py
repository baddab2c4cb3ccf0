"""The energy of each proof and each layer, from the samples of GpuTelemetry: one rule for every view.

What GPUs draw is divided equally among the proofs that use them at that moment, so all proofs together never account
for more than was drawn.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from math import inf
from typing import Literal

import msgspec

from proofstream.device_energy import MOST_APART_NS, DeviceEnergy
from proofstream.events import GpuStatus, GpuTelemetry, LayerStart, SessionOpened
from proofstream.intervals import Change, Interval, Noted, Opened, Proof
from proofstream.observed import ObservedSession
from proofstream.visible_devices import MAX_DEVICES, ChosenDevices, KnownGpus

MAX_SAMPLES = 16_384
"""Samples that are kept: four and a half hours at one per second."""

MAX_READINGS = 524_288
"""Readings of single devices that are kept: if there are many devices, fewer samples are."""

_MAX_NUMBERS = 256
_MOST_UNKNOWN_NS = 1_000_000
"""A device is missing from a sum if its energy is not known for longer than this."""
_MOST_PERIODS_OFF, _MOST_SHARE_OFF = 1.5, 0.1
"""All devices are, if samples leave out more of an interval than this many sampling periods, and than this share."""


class GpuEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """The energy that the GPUs of a proof drew during an interval of it.

    Attributes:
        joules: How much, as far as it is known; None if nothing is.
        source: `measured` (by the GPUs' counters), `integrated` (from their power draw), or `mixed`; None if nothing is
            known.
        devices: The ids of the GPUs in it.
        missing: The GPUs that are not in it, or not for the whole time.
        chosen_by: How it is known which GPUs the proof uses: see `ChosenDevices.by`.
        shared: Whether other proofs used these GPUs meanwhile. What was drawn then is divided equally among them.
    """

    joules: float | None
    source: Literal["measured", "integrated", "mixed"] | None
    devices: tuple[str, ...]
    missing: tuple[str, ...]
    chosen_by: Literal["gpu_device", "visible_devices", "all"]
    shared: bool


class _Use:
    """The use that an open proof makes of the GPUs."""

    def __init__(self, proof: Proof, resource: Mapping[str, str], since: int) -> None:
        self.proof = proof
        self.resource = resource
        self.since = since
        self.numbers: set[int] = set()
        self.most_devices = 0
        self._chosen: tuple[tuple[int, int], ChosenDevices] | None = None

    def numbers_of(self, numbers: set[int]) -> set[int]:
        """Return the producer's numbers of devices, unless they are placeholders.

        Some producers write 0 also where several devices work; their GpuStatus lists those.
        """
        return set() if self.numbers == {0} and self.most_devices > 1 else numbers

    def choose(self, gpus: KnownGpus) -> ChosenDevices:
        """Return the GPUs that the proof uses, as far as it has said so by now."""
        numbers = self.numbers_of(self.numbers)
        key = gpus.version, len(numbers)
        if self._chosen is None or self._chosen[0] != key:
            self._chosen = key, gpus.choose(numbers, self.resource)
        return self._chosen[1]


class _Window(msgspec.Struct, frozen=True):
    """The time to account for. A device whose energy is known for less than `least_known_ns` is missing."""

    start: int
    end: int
    least_known_ns: float


class _Share(msgspec.Struct):
    """What one device adds to a sum."""

    joules: float = 0.0
    measured_ns: float = 0.0
    integrated_ns: float = 0.0
    shared: bool = False

    @property
    def known_ns(self) -> float:
        """The time for which its energy is known."""
        return self.measured_ns + self.integrated_ns


class EnergyLedger:
    """Accounts for the energy of all proofs. Feed it every GpuTelemetry and every change, in order.

    Energy counts up to the last sample before an interval's end. What is missed there, at most one sampling period, is
    taken at its start instead, so the time accounted for is as long as the interval.
    """

    def __init__(self) -> None:
        self._times = array("Q")
        self._energy: dict[str, DeviceEnergy] = {}
        self._gpus = KnownGpus()
        self._open: dict[Proof, _Use] = {}
        # For each device, by time: by how much the number of its users, ended ones only, changed.
        self._ended: dict[str, dict[int, int]] = {}

    def add_sample(self, time_unix_nano: int, event: GpuTelemetry) -> None:
        """Add a sample; ignore it if it is not later than the last one."""
        if self._times and time_unix_nano <= self._times[-1]:
            return
        self._times.append(time_unix_nano)
        seen: set[str] = set()
        for reading in event.devices[:MAX_DEVICES]:
            if self._gpus.learn_from(reading) and reading.parent_id is None and reading.id not in seen:
                seen.add(reading.id)
                device = self._energy.setdefault(reading.id, DeviceEnergy())
                device.add_sample(time_unix_nano, energy_j=reading.energy_j, power_w=reading.power_w)
        for device_id in self._energy.keys() - seen:
            self._energy[device_id].add_sample(time_unix_nano, energy_j=None, power_w=None)
        self._keep_few()

    def follow(self, change: Change, session: ObservedSession) -> None:
        """Learn from a change of a session which GPUs a proof uses."""
        interval = change.interval
        if isinstance(change, Opened) and isinstance(interval, Proof):
            self._open[interval] = _Use(interval, _resource_of(session), self._sampled_by(interval.start_unix_nano))
        elif isinstance(change, Opened):
            self._note_number(change)
        elif isinstance(change, Noted) and isinstance(event := change.envelope.event, GpuStatus):
            use = None if interval is None else self._use_of(interval)
            if use is not None and len(event.devices) > use.most_devices:
                use.most_devices = len(event.devices)

    def _note_number(self, begun: Opened) -> None:
        """Note on which device an interval runs, if its start event says that."""
        numbers = _numbers_of(begun.interval)
        use = self._use_of(begun.interval) if numbers else None
        if use is not None and len(use.numbers) < _MAX_NUMBERS:
            use.numbers |= numbers

    def close(self, interval: Interval) -> GpuEnergy | None:
        """Return the energy of a proof, or of an interval in one, that has ended; None if no samples tell of it."""
        use = self._use_of(interval)
        if use is None:
            return None
        numbers = use.numbers_of(_numbers_of(interval))
        chosen = self._gpus.choose(numbers, use.resource) if numbers else use.choose(self._gpus)
        found = self._account(interval, use, chosen)
        if interval is use.proof:
            self._end(use)
        return found

    def _use_of(self, interval: Interval) -> _Use | None:
        proof = interval if isinstance(interval, Proof) else interval.proof
        return None if proof is None else self._open.get(proof)

    # Accounting

    def _account(self, interval: Interval, use: _Use, chosen: ChosenDevices) -> GpuEnergy | None:
        window = self._window(interval)
        if window is None or not (chosen.ids or chosen.unwatched):
            return None
        found = {
            device_id: self._drawn(device_id, use, window) for device_id in self._gpus.ids if device_id in chosen.ids
        }
        covered = tuple(device_id for device_id, drawn in found.items() if drawn.known_ns)
        missing = tuple(device_id for device_id, drawn in found.items() if drawn.known_ns < window.least_known_ns)
        return GpuEnergy(
            joules=sum(drawn.joules for drawn in found.values()) if covered else None,
            source=_source_of(list(found.values())),
            devices=covered,
            missing=missing + chosen.unwatched,
            chosen_by=chosen.by,
            shared=any(drawn.shared for drawn in found.values()),
        )

    def _drawn(self, device_id: str, use: _Use, window: _Window) -> _Share:
        """Return the part of a device's energy that a proof accounts for."""
        share = _Share()
        for begin, end, users in self._stretches(device_id, use, window.start, window.end):
            drawn = self._energy[device_id].between(begin, end)
            share.joules += drawn.joules / users
            share.measured_ns += drawn.measured_ns
            share.integrated_ns += drawn.integrated_ns
            share.shared |= users > 1 and drawn.measured_ns + drawn.integrated_ns > 0
        return share

    def _window(self, interval: Interval) -> _Window | None:
        """Return the time to account for; None if there are too few samples.

        With a single sample inside, the error could exceed the interval.
        """
        start, end = interval.start_unix_nano, interval.end_unix_nano
        if end is None:
            return None
        first, after = bisect_left(self._times, start), bisect_right(self._times, end)
        if after - first < 2:  # noqa: PLR2004 - an interval between two samples
            return None
        last, begin = self._times[after - 1], self._times[first]
        before = bisect_right(self._times, start) - 1
        if before >= 0 and start - self._times[before] <= MOST_APART_NS:
            begin = max(self._times[before], start - (end - last))
        period_ns = (last - self._times[first]) / (after - first - 1)
        left_out_ns = end - start - (last - begin)
        is_whole = left_out_ns <= max(_MOST_PERIODS_OFF * period_ns, _MOST_SHARE_OFF * (end - start))
        return _Window(begin, last, last - begin - _MOST_UNKNOWN_NS if is_whole else inf)

    def _stretches(self, device_id: str, use: _Use, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield stretches of time, each with the number of proofs that used the device all through it."""
        changes = dict(self._ended.get(device_id, {}))
        for other in self._open.values():
            if other is not use and device_id in other.choose(self._gpus).ids:
                changes[other.since] = changes.get(other.since, 0) + 1
        users, begin = 1, start
        for time in sorted(changes):
            if time >= end:
                break
            if time > begin and changes[time]:
                yield begin, time, users
                begin = time
            users += changes[time]
        yield begin, end, users

    # Bounds

    def _sampled_by(self, time_unix_nano: int) -> int:
        """Return the time of the last sample by then: users change with samples, which bounds their number."""
        before = bisect_right(self._times, time_unix_nano) - 1
        return self._times[before] if before >= 0 else 0

    def _end(self, use: _Use) -> None:
        del self._open[use.proof]
        if not self._open:
            self._ended.clear()
            return
        end = self._sampled_by(use.proof.end_unix_nano or 0)
        if end <= use.since:
            return
        for device_id in use.choose(self._gpus).ids:
            changes = self._ended.setdefault(device_id, {})
            changes[use.since] = changes.get(use.since, 0) + 1
            changes[end] = changes.get(end, 0) - 1

    def _keep_few(self) -> None:
        """Forget the older half of too many samples. Half, so that this happens rarely."""
        most = min(MAX_SAMPLES, MAX_READINGS // max(1, len(self._energy)))
        if len(self._times) < 2 * most:
            return
        del self._times[:-most]
        first = self._times[0]
        for device in self._energy.values():
            device.forget_before(first)
        for device_id, changes in self._ended.items():
            before = sum(by for time, by in changes.items() if time <= first)
            self._ended[device_id] = {first: before} | {time: by for time, by in changes.items() if time > first}


def _resource_of(session: ObservedSession) -> Mapping[str, str]:
    event = None if session.opened is None else session.opened.event
    return event.resource if isinstance(event, SessionOpened) else {}


def _source_of(shares: list[_Share]) -> Literal["measured", "integrated", "mixed"] | None:
    is_measured = any(share.measured_ns for share in shares)
    is_integrated = any(share.integrated_ns for share in shares)
    if is_measured and is_integrated:
        return "mixed"
    return "measured" if is_measured else "integrated" if is_integrated else None


def _numbers_of(interval: Interval) -> set[int]:
    event = interval.start_event
    return {event.gpu_device} if isinstance(event, LayerStart) and event.gpu_device is not None else set()
