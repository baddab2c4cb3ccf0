"""Checks GPU telemetry against a real GPU; `scripts/check_gpu` runs it.

The load needs only the driver: it fills memory repeatedly through CUDA's driver API.
"""

from __future__ import annotations

import ctypes
import logging
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "plugins")]

from proofstream import GpuReading, GpuTelemetry, LayerKind, open_session  # noqa: E402 - found by the line above
from proofstream.testing import RecordingPlugin  # noqa: E402
from proofstream_gpu import GpuPlugin  # noqa: E402
from proofstream_gpu.driver import DriverUnavailable  # noqa: E402
from proofstream_gpu.nvml import Nvml  # noqa: E402
from proofstream_gpu.watch import Watch  # noqa: E402

DEADLINE_S = 170
IDLE_S, LOAD_S, SAMPLE_EVERY_S = 3.0, 8.0, 0.25
BLOCK_BYTES = 2**30
MIB = 2**20
SMI_FIELDS = ("uuid", "name", "driver_version", "memory.total", "memory.used", "power.draw", "temperature.gpu")

failures: list[str] = []
skipped: list[str] = []


def check(what: str, holds: bool, said: str) -> None:
    print(f"  {'ok  ' if holds else 'FAIL'} {what}: {said}")
    if not holds:
        failures.append(what)


def skip(what: str, why: str) -> None:
    print(f"  --   {what}: {why}")
    skipped.append(what)


# nvidia-smi


def ask_smi() -> dict[str, dict[str, str]]:
    """Return nvidia-smi's figures of each GPU, by UUID."""
    command = ["nvidia-smi", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    rows = [
        dict(zip(SMI_FIELDS, (part.strip() for part in line.split(",")), strict=True))
        for line in ran.stdout.splitlines()
    ]
    return {row["uuid"]: row for row in rows}


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # [N/A] and its like


def compare(name: str, ours: float | None, theirs: float | None, *, within: float) -> None:
    if ours is None or theirs is None:
        check(name, (ours is None) == (theirs is None), f"ours {ours}, nvidia-smi {theirs}")
    else:
        check(
            name, abs(ours - theirs) <= within, f"ours {ours:.1f}, nvidia-smi {theirs:.1f}, allowed {within:.1f} apart"
        )


def compare_with_smi(watch: Watch) -> None:
    print("Beside nvidia-smi, in the same second:")
    try:
        ask_smi()  # the first call may take long to wake the GPUs
        before = time.monotonic()
        smi = ask_smi()
    except (OSError, subprocess.SubprocessError) as error:
        skip("nvidia-smi", f"it cannot be run: {error}")
        return
    gpus = [reading for reading in watch.sample().devices if reading.parent_id is None]
    print(f"  both asked within {time.monotonic() - before:.2f} s")
    check("the same GPUs", {gpu.id for gpu in gpus} == set(smi), ", ".join(gpu.id for gpu in gpus))
    for gpu in gpus:
        row = smi.get(gpu.id)
        if row is not None:
            compare_gpu(gpu, row)


def compare_gpu(gpu: GpuReading, row: dict[str, str]) -> None:
    check("name", gpu.name == row["name"], f"{gpu.name}")
    check("driver version", gpu.driver_version == row["driver_version"], f"{gpu.driver_version}")
    total = None if gpu.memory_total_bytes is None else gpu.memory_total_bytes / MIB
    used = None if gpu.memory_used_bytes is None else gpu.memory_used_bytes / MIB
    compare("memory total (MiB)", total, number(row["memory.total"]), within=1.0)
    compare("memory used (MiB)", used, number(row["memory.used"]), within=1024.0)
    power = number(row["power.draw"])
    compare("power (W)", gpu.power_w, power, within=max(25.0, 0.3 * (power or 0.0)))
    compare("temperature (degrees Celsius)", gpu.temperature_celsius, number(row["temperature.gpu"]), within=4.0)


# The load


class CudaFailed(Exception):
    """A call of the driver API failed."""


class Cuda:
    """Keeps a GPU busy by filling its memory, on its own thread."""

    def __init__(self, gpu_id: str) -> None:
        self.fills = 0
        self.failure: str | None = None
        self._lib = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", ctypes.c_uint(0))
        self._device = self._find(gpu_id)
        self._started = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._lib, name)(*arguments)
        if code:
            raise CudaFailed(f"{name} failed with {code}")

    def _find(self, gpu_id: str) -> ctypes.c_int:
        """Find CUDA's device by its UUID, because CUDA and NVML number the GPUs in different orders."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        for index in range(count.value):
            device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
            self._call("cuDeviceGetUuid", ctypes.byref(raw), device)
            if f"GPU-{uuid.UUID(bytes=bytes(raw))}" == gpu_id:
                return device
        raise CudaFailed(f"CUDA does not see {gpu_id}")

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Keep the GPU busy inside the block."""
        self._thread.start()
        if not self._started.wait(60.0):
            raise CudaFailed("the load did not begin within 60 s")
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(30.0)

    def _run(self) -> None:
        context, block = ctypes.c_void_p(), ctypes.c_uint64()
        try:
            # The primary context, which the whole process shares: its calls are the same in every version of CUDA.
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
            self._call("cuCtxSetCurrent", context)
            self._call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(BLOCK_BYTES))
            self._started.set()
            while not self._stop.is_set():
                for value in range(32):
                    self._call("cuMemsetD8_v2", block, ctypes.c_ubyte(value), ctypes.c_size_t(BLOCK_BYTES))
                self._call("cuCtxSynchronize")
                self.fills += 32
        except CudaFailed as error:
            self.failure = str(error)
        finally:
            if block.value:
                self._lib.cuMemFree_v2(block)
            if context.value:
                self._lib.cuDevicePrimaryCtxRelease_v2(self._device)
            self._started.set()


def samples_of(watch: Watch, gpu_id: str, for_s: float) -> list[tuple[float, GpuReading]]:
    taken: list[tuple[float, GpuReading]] = []
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        now = time.monotonic()
        taken += [(now, reading) for reading in watch.sample().devices if reading.id == gpu_id]
        time.sleep(SAMPLE_EVERY_S)
    return taken


def present(samples: list[tuple[float, GpuReading]], field: str) -> list[float]:
    values = [getattr(reading, field) for _, reading in samples]
    return [value for value in values if value is not None]


def check_load(watch: Watch, gpu: GpuReading) -> None:
    print(f"Under load, {gpu.name} ({gpu.id}):")
    try:
        cuda = Cuda(gpu.id)
        idle = samples_of(watch, gpu.id, IDLE_S)
        with cuda.busy():
            loaded = samples_of(watch, gpu.id, LOAD_S)
    except (OSError, CudaFailed) as error:
        skip("load", f"CUDA cannot be used: {error}")
        return
    if cuda.failure is not None:
        skip("load", cuda.failure)
        return
    print(f"  {cuda.fills} GiB written in {LOAD_S:.0f} s; {len(idle)} samples idle, {len(loaded)} under load")
    check("state", {reading.state for _, reading in idle + loaded} == {"ok"}, "ok in each sample")
    check_rise("utilization", idle, loaded, least=0.3)
    check_rise("memory_used_bytes", idle, loaded, least=0.9 * BLOCK_BYTES)
    check_rise("power_w", idle, loaded, least=5.0)
    check_energy(idle + loaded, loaded)
    for field in ("memory_controller_utilization", "temperature_celsius", "clock_sm_mhz", "pcie_rx_bytes_per_s"):
        before, after = present(idle, field), present(loaded, field)
        print(f"       {field}: at most {max(before, default=None)} idle, {max(after, default=None)} under load")
    print(f"       throttle reasons: {sorted({word for _, r in loaded for word in r.throttle_reasons or []})}")


def check_rise(
    field: str, idle: list[tuple[float, GpuReading]], loaded: list[tuple[float, GpuReading]], *, least: float
) -> None:
    before, after = present(idle, field), present(loaded, field)
    if not before or not after:
        skip(field, "this device does not report it")
    else:
        check(field, max(after) - min(before) >= least, f"from {min(before):g} to {max(after):g}")


def check_energy(samples: list[tuple[float, GpuReading]], loaded: list[tuple[float, GpuReading]]) -> None:
    energy = present(samples, "energy_j")
    if not energy:
        skip("energy", "this device does not report it")
        return
    check("energy never falls", energy == sorted(energy), f"from {energy[0]:.1f} to {energy[-1]:.1f} J")
    if present(loaded, "power_w"):
        # Compare over a long span, because the counter may be updated only every 100 ms.
        first, last = loaded[len(loaded) // 4], loaded[-1]
        power = present(loaded[len(loaded) // 4 :], "power_w")
        mean = sum(power) / len(power)
        by_energy = ((last[1].energy_j or 0.0) - (first[1].energy_j or 0.0)) / (last[0] - first[0])
        check(
            "energy over time is power", 0.6 * mean <= by_energy <= 1.5 * mean, f"{by_energy:.0f} W beside {mean:.0f} W"
        )


# The plugin


def check_plugin() -> None:
    print("The plugin, while a proof of 3 s runs:")
    heard = RecordingPlugin()
    plugin = GpuPlugin(idle_interval_s=60.0)
    with open_session(plugins=[plugin, heard]) as session:
        time.sleep(1.0)
        with session.proof(backend="check", num_layers=1) as proof, proof.layer(0, kind=LayerKind.MatMul):
            time.sleep(3.0)
        session.flush(5.0)
    samples = [event for event in heard.events if isinstance(event, GpuTelemetry)]
    check("samples", len(samples) in range(4, 8), f"{len(samples)}: one at the start, one a second, one at the end")
    print(f"       health: {dict(plugin.proofstream_report_health())}")


def main() -> int:
    signal.alarm(DEADLINE_S)
    logging.basicConfig(level=logging.INFO, format="  log: %(message)s")
    watch = Watch(Nvml(), log=logging.getLogger("check_gpu"))
    try:
        watch.open()
    except DriverUnavailable as error:
        print(f"No GPU to check against: {error}")
        return 0
    began = time.monotonic()
    first = watch.sample().devices
    print(f"{len(first)} devices, sampled in {1000 * (time.monotonic() - began):.0f} ms:")
    for reading in first:
        print(f"  {reading.id} {reading.name}, driver {reading.driver_version}, {reading.state},")
        print(
            f"       memory query {reading.memory_source}; not supported: {', '.join(reading.unsupported) or 'nothing'}"
        )
    compare_with_smi(watch)
    whole = [reading for reading in first if reading.parent_id is None]
    if whole:
        check_load(watch, whole[0])
    print(f"counters: {watch.counters()}")
    watch.close()
    check_plugin()
    if skipped:
        print(f"not checked: {', '.join(skipped)}")
    print(f"failed: {', '.join(failures)}" if failures else "All checks passed.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
