"""Reads GPUs by NVML, through nvidia-ml-py. No other module uses it.

The library's state belongs to the process that initialised it. A forked child forgets this state and may initialise its
own. Every figure is queried separately, so that a failed query affects no other figure.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from proofstream_gpu.driver import MAX_DEVICES, DriverUnavailable, FoundDevice
from proofstream_gpu.figures import Answer, Identity, NoAnswer, RawMemory, RawReading
from proofstream_gpu.presence import NO_DRIVER

VENDOR = "NVIDIA"

_MAX_EVENTS = 256
_UNINITIALIZED, _NOT_SUPPORTED, _NO_PERMISSION = 1, 3, 4
_DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND, _FUNCTION_NOT_FOUND = 9, 12, 13
_GPU_IS_LOST, _RESET_REQUIRED, _VERSION_MISMATCH, _DEPRECATED, _GPU_NOT_FOUND = 15, 16, 25, 26, 28
_MEANING = {
    _NOT_SUPPORTED: NoAnswer.UNSUPPORTED,
    _FUNCTION_NOT_FOUND: NoAnswer.UNSUPPORTED,
    _VERSION_MISMATCH: NoAnswer.UNSUPPORTED,
    _DEPRECATED: NoAnswer.UNSUPPORTED,
    _NO_PERMISSION: NoAnswer.DENIED,
    _UNINITIALIZED: NoAnswer.LOST,
    _GPU_IS_LOST: NoAnswer.LOST,
    _RESET_REQUIRED: NoAnswer.LOST,
    _GPU_NOT_FOUND: NoAnswer.LOST,
}
_WHY_NOT = {
    _LIBRARY_NOT_FOUND: NO_DRIVER,
    _DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
}


_drivers: weakref.WeakSet[Nvml] = weakref.WeakSet()


class Nvml:
    """One use of the driver, from one thread.

    Args:
        pcie: True to ask for PCIe throughput.

    Attributes:
        unopened: Devices that exist but could not be opened, with the reason.
    """

    def __init__(self, *, pcie: bool = True) -> None:
        self.unopened: list[str] = []
        self._pcie = pcie
        self._lib: Any = None
        self._events: Any = None
        self._with_xids: set[str] = set()
        self._by_handle: dict[int | None, str] = {}

    def open(self) -> None:
        """Initialise the driver's library.

        Raises:
            DriverUnavailable: No driver was found, or it does not work.
            ModuleNotFoundError: nvidia-ml-py is not installed.
        """
        lib = importlib.import_module("pynvml")
        try:
            lib.nvmlInit()
        except lib.NVMLError as error:
            reason = _WHY_NOT.get(error.value, f"the NVIDIA driver could not be initialised: {_text(error)}")
            raise DriverUnavailable(reason) from None
        self._lib = lib
        _drivers.add(self)

    def close(self) -> None:
        """Shut down what `open` initialised, once."""
        lib, self._lib = self._lib, None
        if lib is None:
            return
        try:
            if self._events is not None:
                lib.nvmlEventSetFree(self._events)
        except lib.NVMLError:
            pass  # The shutdown below frees it.
        self.forget()
        try:
            lib.nvmlShutdown()
        except lib.NVMLError:
            return  # Other code in this process has shut it down.

    def forget(self) -> None:
        """Drop all state without calling the driver, because in a forked child the state is the parent's."""
        self._lib = self._events = None
        self._with_xids.clear()
        self._by_handle.clear()

    def discover(self) -> list[FoundDevice]:
        """Find all GPUs and their MIG instances. A device that cannot be opened is named in `unopened`.

        Raises:
            DriverUnavailable: The driver does not list its devices.
        """
        lib = self._lib
        if lib is None:
            raise DriverUnavailable("the NVIDIA driver is not initialised")
        self.unopened = []
        version = self._word(lib.nvmlSystemGetDriverVersion)
        try:
            count = int(lib.nvmlDeviceGetCount())
        except lib.NVMLError as error:
            raise DriverUnavailable(f"the NVIDIA driver does not count its GPUs: {_text(error)}") from None
        found: list[FoundDevice] = []
        for index in range(count):
            if len(found) + len(self.unopened) >= MAX_DEVICES:
                self.unopened.append(f"GPU {index} and later ones: at most {MAX_DEVICES} devices are watched")
                break
            try:
                gpu = self._identify(lib.nvmlDeviceGetHandleByIndex(index), index, version)
            except (lib.NVMLError, UnicodeDecodeError) as error:
                self.unopened.append(f"GPU {index}: {_text(error)}")
                continue
            found += [gpu, *islice(self._instances(gpu), MAX_DEVICES - len(found) - 1)]
        self._listen(found)
        return found

    def _identify(self, handle: Any, index: int, version: str | None, parent_id: str | None = None) -> FoundDevice:
        lib = self._lib
        return FoundDevice(
            identity=Identity(
                id=lib.nvmlDeviceGetUUID(handle),
                parent_id=parent_id,
                index=index,
                name=self._word(lambda: lib.nvmlDeviceGetName(handle)),
                vendor=VENDOR,
                driver_version=version,
            ),
            handle=handle,
        )

    def _instances(self, gpu: FoundDevice) -> Iterator[FoundDevice]:
        """Yield the MIG instances of a GPU. Their slots may have gaps."""
        lib = self._lib
        try:
            if not lib.nvmlDeviceGetMigMode(gpu.handle)[0]:
                return
            slots = int(lib.nvmlDeviceGetMaxMigDeviceCount(gpu.handle))
        except lib.NVMLError:
            return  # a GPU without MIG
        for slot in range(min(slots, MAX_DEVICES)):
            try:
                handle = lib.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, slot)
                yield self._identify(handle, slot, gpu.identity.driver_version, gpu.identity.id)
            except (lib.NVMLError, UnicodeDecodeError):
                continue

    def _word(self, ask: Callable[[], Any]) -> str | None:
        try:
            word = str(ask())
        except (self._lib.NVMLError, UnicodeDecodeError):
            return None
        return None if word.strip() in ("", "[N/A]", "N/A") else word

    def _listen(self, found: list[FoundDevice]) -> None:
        """Register for critical errors (XID), because they cannot be queried afterwards."""
        lib = self._lib
        for device in found:
            if device.identity.parent_id is not None or device.identity.id in self._with_xids:
                continue
            try:
                if self._events is None:
                    self._events = lib.nvmlEventSetCreate()
                lib.nvmlDeviceRegisterEvents(device.handle, lib.nvmlEventTypeXidCriticalError, self._events)
            except lib.NVMLError:
                continue  # An old GPU, or a driver without events.
            self._with_xids.add(device.identity.id)
            self._by_handle[_address(device.handle)] = device.identity.id

    def counts_xids(self, device_id: str) -> bool:
        """Return whether the driver reports the GPU's critical errors."""
        return device_id in self._with_xids

    def take_xids(self) -> list[tuple[str, int]]:
        """Return the critical errors since the last call: the GPU's id and the error's number."""
        lib = self._lib
        taken: list[tuple[str, int]] = []
        while lib is not None and self._events is not None and len(taken) < _MAX_EVENTS:
            try:
                event = lib.nvmlEventSetWait_v2(self._events, 0)
            except lib.NVMLError:
                break  # No more events. A lost GPU is noticed when its figures are queried.
            device_id = self._by_handle.get(_address(event.device))
            if device_id is not None and event.eventType == lib.nvmlEventTypeXidCriticalError:
                taken.append((device_id, int(event.eventData)))
        return taken

    def read(self, device: FoundDevice) -> RawReading:
        """Ask a device for all figures. A MIG instance is asked only for its own; the rest belong to the whole GPU."""
        lib, handle, whole = self._lib, device.handle, device.identity.parent_id is None

        def ask(name: str, *arguments: Any) -> Answer:
            answer: Answer = self._ask(lambda: int(getattr(lib, name)(handle, *arguments)))
            return answer

        def ask_whole(name: str, *arguments: Any) -> Answer:
            return ask(name, *arguments) if whole else NoAnswer.NOT_ASKED

        def ask_pcie(counter: int) -> Answer:
            return ask_whole("nvmlDeviceGetPcieThroughput", counter) if self._pcie else NoAnswer.NOT_ASKED

        utilization = self._ask_utilization(handle, whole=whole)
        return RawReading(
            memory=self._ask_memory(handle),
            utilization_percent=utilization[0],
            memory_controller_percent=utilization[1],
            power_mw=ask_whole("nvmlDeviceGetPowerUsage"),
            energy_mj=ask_whole("nvmlDeviceGetTotalEnergyConsumption"),
            temperature_c=_first(
                lambda: ask_whole("nvmlDeviceGetTemperature", 0), lambda: ask_whole("nvmlDeviceGetTemperatureV", 0)
            ),
            # Since the driver was loaded (0), not over the device's life (1).
            ecc_corrected=ask_whole("nvmlDeviceGetTotalEccErrors", 0, 0),
            ecc_uncorrected=ask_whole("nvmlDeviceGetTotalEccErrors", 1, 0),
            pcie_tx_kb_per_s=ask_pcie(0),
            pcie_rx_kb_per_s=ask_pcie(1),
            clock_sm_mhz=ask_whole("nvmlDeviceGetClockInfo", 1),
            clock_memory_mhz=ask_whole("nvmlDeviceGetClockInfo", 2),
            clock_event_bits=_first(
                lambda: ask_whole("nvmlDeviceGetCurrentClocksEventReasons"),
                lambda: ask_whole("nvmlDeviceGetCurrentClocksThrottleReasons"),
            ),
        )

    def _ask_utilization(self, handle: Any, *, whole: bool) -> tuple[Answer, Answer]:
        rates = self._ask(lambda: self._lib.nvmlDeviceGetUtilizationRates(handle))
        if not isinstance(rates, NoAnswer):
            return int(rates.gpu), int(rates.memory)
        if rates is NoAnswer.FAILED and not whole:
            rates = NoAnswer.UNSUPPORTED  # Some drivers call an instance's handle an invalid argument here.
        return rates, rates

    def _ask_memory(self, handle: Any) -> RawMemory | NoAnswer:
        """Ask for memory, by the newer query if possible: the older one counts the driver's own memory as used."""
        lib = self._lib
        newer = self._ask(lambda: lib.nvmlDeviceGetMemoryInfo(handle, version=lib.nvmlMemory_v2))
        if not isinstance(newer, NoAnswer):
            return RawMemory(version="v2", used=newer.used, total=newer.total, reserved=newer.reserved)
        if newer is not NoAnswer.UNSUPPORTED:
            return newer
        older = self._ask(lambda: lib.nvmlDeviceGetMemoryInfo(handle))
        if isinstance(older, NoAnswer):
            return older
        return RawMemory(version="v1", used=older.used, total=older.total, reserved=None)

    def _ask(self, question: Callable[[], Any]) -> Any:
        if self._lib is None:
            return NoAnswer.LOST
        try:
            return question()
        except self._lib.NVMLError as error:
            return _MEANING.get(error.value, NoAnswer.FAILED)
        except AttributeError:
            return NoAnswer.UNSUPPORTED  # nvidia-ml-py is too old for the query.


def _first(ask: Callable[[], Answer], otherwise: Callable[[], Answer]) -> Answer:
    answer = ask()
    return otherwise() if answer is NoAnswer.UNSUPPORTED else answer


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _text(error: BaseException) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


def _forget_after_fork() -> None:
    for driver in list(_drivers):
        driver.forget()
    lib: Any = sys.modules.get("pynvml")
    if lib is not None and hasattr(lib, "libLoadLock"):
        # A thread of the parent, which does not exist in the child, may have held it.
        lib.libLoadLock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
