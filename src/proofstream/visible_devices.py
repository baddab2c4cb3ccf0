"""Finds the GPUs that a prover uses, from its own numbers of them and from what CUDA shows to its process.

CUDA numbers the devices that a process may use from 0, in the order of CUDA_VISIBLE_DEVICES; a driver numbers all GPUs
of the machine. Both go by the same order only if the GPUs are of one model, or if CUDA was told to go by the bus.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeVar

import msgspec

from proofstream.events import GpuReading

ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""The variables that decide which GPUs a process sees, and how it numbers them."""

MAX_DEVICES = 256
"""GPUs, and parts of GPUs, that count. A machine has fewer; an untrusted producer may name any number."""

_KEY = "process.environment_variable."
_MAX_ENTRIES = 256
_MAX_ENTRY_CHARS = 96
_Fact = TypeVar("_Fact")


class ChosenDevices(msgspec.Struct, frozen=True):
    """GPUs that a proof uses.

    Attributes:
        ids: Those that are watched.
        unwatched: The names of those that are not.
        by: How they are known: `gpu_device` (the layers name them), `visible_devices` (CUDA shows the process no
            others) or `all` (it is not known which ones the proof uses, so it is every GPU that is watched).
    """

    ids: frozenset[str]
    unwatched: tuple[str, ...]
    by: Literal["gpu_device", "visible_devices", "all"]


def device_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide which GPUs a process sees, as attributes of its session's resource."""
    return {_KEY + name: environ[name] for name in ENVIRONMENT if name in environ}


class KnownGpus:
    """The GPUs and their parts, as readings have named them.

    Attributes:
        version: Grows when something about them changes.
    """

    def __init__(self) -> None:
        self.version: int = 0
        self._whole: dict[str, tuple[int | None, str | None]] = {}
        self._parents: dict[str, str] = {}

    def learn_from(self, reading: GpuReading) -> bool:
        """Learn a device's place on the machine. Return False if there are too many devices for it."""
        if reading.parent_id is not None:
            return self._learn(self._parents, reading.id, reading.parent_id)
        return self._learn(self._whole, reading.id, (reading.index, reading.name))

    def _learn(self, known: dict[str, _Fact], device_id: str, fact: _Fact) -> bool:
        if known.get(device_id) == fact:
            return True
        if device_id not in known and len(known) >= MAX_DEVICES:
            return False
        known[device_id] = fact
        self.version += 1
        return True

    @property
    def ids(self) -> list[str]:
        """The whole GPUs, in the machine's order."""
        return sorted(self._whole, key=lambda gpu: (self._whole[gpu][0] is None, self._whole[gpu][0] or 0, gpu))

    def choose(self, numbers: Collection[int], resource: Mapping[str, str]) -> ChosenDevices:
        """Return the GPUs that a proof uses.

        Args:
            numbers: Its own numbers of them; empty if it gives none.
            resource: The attributes of its session, with the environment of its process if that is known.
        """
        by_number = self._by_number(resource.get(_KEY + "CUDA_DEVICE_ORDER"))
        visible = resource.get(_KEY + "CUDA_VISIBLE_DEVICES")
        seen = by_number if visible is None else self._read_visible(visible, by_number)
        if seen is None or (visible is None and not numbers):
            return ChosenDevices(frozenset(self._whole), (), "all")
        if numbers:
            named = [seen.get(number, f"device {number}") for number in sorted(numbers)[:_MAX_ENTRIES]]
        else:
            named = list(dict.fromkeys(seen.values()))
        return ChosenDevices(
            ids=frozenset(named) & self._whole.keys(),
            unwatched=tuple(name for name in named if name not in self._whole),
            by="gpu_device" if numbers else "visible_devices",
        )

    def _by_number(self, order: str | None) -> dict[int, str] | None:
        """Return the GPUs by CUDA's numbers where those are the driver's, else None.

        By default CUDA puts the fastest GPU first, and it counts MIG instances in place of their GPUs.
        """
        is_one_model = len({name for _, name in self._whole.values()}) <= 1
        if self._parents or not (is_one_model or order == "PCI_BUS_ID"):
            return None
        return {index: gpu for gpu, (index, _) in self._whole.items() if index is not None}

    def _read_visible(self, text: str, by_number: dict[int, str] | None) -> dict[int, str] | None:
        """Return a GPU, or the name of one that is not watched, for each entry of CUDA_VISIBLE_DEVICES.

        CUDA ignores what follows the first entry that it does not understand. The result is None if an entry is a
        number, and it is not known what CUDA counts.
        """
        seen: dict[int, str] = {}
        entries = (entry.strip()[:_MAX_ENTRY_CHARS] for entry in text.split(",")[:_MAX_ENTRIES])
        for entry in entries:
            if entry.isascii() and entry.isdecimal():
                if by_number is None:
                    return None
                seen[len(seen)] = by_number.get(int(entry), f"GPU {int(entry)}")
            elif entry.startswith(("GPU-", "MIG-")):
                seen[len(seen)] = self._by_uuid(entry)
            else:
                break
        return seen

    def _by_uuid(self, entry: str) -> str:
        """Return the GPU that a UUID, or a unique beginning of one, names; the entry itself if none is known."""
        if entry.startswith("MIG-GPU-"):  # the older form: MIG-GPU-<UUID>/<instance>/<instance>
            entry = entry.removeprefix("MIG-").split("/")[0]
        of = self._parents if entry.startswith("MIG-") else dict(zip(self._whole, self._whole, strict=True))
        found = {gpu for device, gpu in of.items() if device.startswith(entry)}
        return found.pop() if len(found) == 1 else entry
