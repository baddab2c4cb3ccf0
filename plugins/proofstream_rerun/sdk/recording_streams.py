"""Opens, fills and flushes Rerun's streams.

Nothing here touches the recording that Rerun keeps for the process or the thread, as that one is the application's.
"""

from __future__ import annotations

import enum
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import rerun as rr
import rerun_bindings

from proofstream_rerun.picture.marks import PropertyValue
from proofstream_rerun.sdk.arrow import Content, fact, made
from proofstream_rerun.sdk.recordings import Recording, Write
from proofstream_rerun.sdk.stream_release import count_stream

if TYPE_CHECKING:
    import rerun.blueprint as rrb

RERUN_VERSION: str = rr.__version__


def open_stream(recording: Recording, sink: rr.GrpcSink | rr.FileSink, *, tick_s: float) -> rr.RecordingStream:
    """Open a stream for a recording.

    Args:
        recording: The recording.
        sink: The stream's destination.
        tick_s: How long Rerun gathers single rows before it sends them.

    Raises:
        RuntimeError: The file cannot be created.
    """
    count_stream()
    stream = rr.RecordingStream(
        recording.application_id,
        recording_id=recording.recording_id,
        send_properties=False,
        batcher_config=rr.ChunkBatcherConfig(flush_tick=tick_s),
    )
    stream.set_sinks(sink)
    return stream


def open_layout(application_id: str) -> rr.RecordingStream:
    """Open a stream for the layout of an application's views. It has no destination yet."""
    count_stream()
    native = rerun_bindings.new_blueprint(
        application_id=application_id, make_default=False, make_thread_default=False, default_enabled=True
    )
    # The SDK makes its own layout streams this way, and offers no public one.
    return rr.RecordingStream._from_native(native)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


class _Logged:
    """Stands in for a stream and keeps what is logged to it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Content, bool]] = []

    def log(self, path: str, content: rr.AsComponents, *, static: bool = False) -> None:
        """Keep the content, converted to arrays."""
        self.calls.append((path, made(content), static))


@functools.lru_cache(maxsize=32)
def _logged(blueprint: rrb.Blueprint) -> Sequence[tuple[str, Content, bool]]:
    """Return the calls that a layout consists of. They are cached, as many recordings share one layout."""
    stream = _Logged()
    blueprint._log_to_stream(cast("rr.RecordingStream", stream))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return stream.calls


def _send_blueprint(blueprint: rrb.Blueprint, stream: rr.RecordingStream) -> None:
    """Send a layout as the SDK does, but close its temporary stream, which the SDK would keep forever."""
    layout = open_layout(rr.get_application_id(stream) or "")
    layout.set_time("blueprint", sequence=0)
    for path, content, static in _logged(blueprint):
        layout.log(path, content, static=static)
    storage = rerun_bindings.memory_recording(layout.to_native())
    assert storage is not None
    rerun_bindings.send_blueprint(storage, make_active=True, make_default=True, recording=stream.to_native())
    layout.disconnect()


def _introduce(recording: Recording, stream: rr.RecordingStream) -> None:
    stream.send_recording_name(recording.name)
    stream.send_recording_start_time_nanos(recording.started_ns)
    for name, values in recording.properties.items():
        send_property(stream, name, values)


def send_property(stream: rr.RecordingStream, name: str, values: Mapping[str, PropertyValue]) -> None:
    """Send facts about the whole recording."""
    stream.send_property(name, [fact(key, value) for key, value in values.items()])


class Flushed(enum.Enum):
    """The result of a flush."""

    DONE = enum.auto()
    SLOW = enum.auto()
    """Time ran out; the rest may still arrive."""
    BROKEN = enum.auto()
    """The stream will deliver nothing more."""


def flush(stream: rr.RecordingStream, timeout_s: float) -> tuple[Flushed, str]:
    """Flush a stream; return the result and, unless it is DONE, Rerun's reason.

    A flush towards a peer that has just gone silent may still be DONE.
    """
    began = time.monotonic()
    try:
        stream.flush(timeout_sec=timeout_s)
    except RuntimeError as error:
        # Rerun raises the same error for both. A broken stream fails at once, so the time taken tells them apart.
        slow = time.monotonic() - began >= timeout_s * 0.9
        return Flushed.SLOW if slow else Flushed.BROKEN, str(error)
    return Flushed.DONE, ""


class CallSender:
    """Sends prepared calls, and counts those that Rerun rejects.

    Attributes:
        sent: How many calls were sent.
        refused: How many calls Rerun rejected.
        problem: Why it rejected the last of them, until `take_problem` takes it.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.refused = 0
        self.problem: str | None = None

    def introduce(self, recording: Recording, stream: rr.RecordingStream) -> None:
        """Send a recording's name, start time and properties."""
        self._try(functools.partial(_introduce, recording, stream))

    def send_writes(self, writes: Sequence[Write], stream: rr.RecordingStream) -> None:
        """Send the calls in order. A rejected call does not hold up the others."""
        for write in writes:
            self._try(functools.partial(write.send, stream))

    def send_blueprint(self, blueprint: rrb.Blueprint, stream: rr.RecordingStream) -> None:
        """Send a layout, which replaces the application's layout in the viewer."""
        self._try(functools.partial(_send_blueprint, blueprint, stream))

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - Rerun's errors have no common base, and its warnings may be errors
            self.refused += 1
            self.problem = f"{type(error).__name__}: {error}"
        else:
            self.sent += 1

    def take_problem(self) -> str | None:
        """Return why Rerun rejected the last call, once; None if it rejected none since."""
        problem, self.problem = self.problem, None
        return problem
