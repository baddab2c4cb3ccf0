"""Rerun's streams: how one is opened, filled and flushed.

Nothing here touches the state that Rerun keeps for the process or the thread: an application's own recordings are its
own affair.
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

if TYPE_CHECKING:
    import rerun.blueprint as rrb

RERUN_VERSION: str = rr.__version__


def open_stream(recording: Recording, sink: rr.GrpcSink | rr.FileSink, *, tick_s: float) -> rr.RecordingStream:
    """Open a stream for a recording.

    Args:
        recording: The recording.
        sink: Where the stream goes to.
        tick_s: How long single rows are gathered before they are sent.

    Raises:
        RuntimeError: A file cannot be made.
    """
    stream = rr.RecordingStream(
        recording.application_id,
        recording_id=recording.recording_id,
        send_properties=False,
        batcher_config=rr.ChunkBatcherConfig(flush_tick=tick_s),
    )
    stream.set_sinks(sink)
    return stream


def open_layout(application_id: str) -> rr.RecordingStream:
    """Open a stream for the layout of an application's views; it goes nowhere yet."""
    native = rerun_bindings.new_blueprint(
        application_id=application_id, make_default=False, make_thread_default=False, default_enabled=True
    )
    # The SDK makes streams of layouts in the same way, and has no public one.
    return rr.RecordingStream._from_native(native)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


class _Logged:
    """Stands for a stream, and keeps what is logged to it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Content, bool]] = []

    def log(self, path: str, content: rr.AsComponents, *, static: bool = False) -> None:
        """Keep it, as the arrays that it comes to."""
        self.calls.append((path, made(content), static))


@functools.lru_cache(maxsize=8)
def _logged(blueprint: rrb.Blueprint) -> Sequence[tuple[str, Content, bool]]:
    """What a layout logs; many recordings have the same one."""
    stream = _Logged()
    blueprint._log_to_stream(cast("rr.RecordingStream", stream))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return stream.calls


def _send_blueprint(blueprint: rrb.Blueprint, stream: rr.RecordingStream) -> None:
    """Send a layout as the SDK does, and close the stream that it is made by, which would be kept for ever."""
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
    """Send facts about a recording as a whole."""
    stream.send_property(name, [fact(key, value) for key, value in values.items()])


class Flushed(enum.Enum):
    """How a flush went."""

    DONE = enum.auto()
    SLOW = enum.auto()
    """Not all was taken in time; it may be yet."""
    BROKEN = enum.auto()
    """The stream delivers nothing any more."""


def flush(stream: rr.RecordingStream, timeout_s: float) -> tuple[Flushed, str]:
    """Flush a stream; returns how it went and, unless it is done, what Rerun says.

    A peer that has just gone silent may still look as if it took everything.
    """
    began = time.monotonic()
    try:
        stream.flush(timeout_sec=timeout_s)
    except RuntimeError as error:
        # Rerun raises the same for both, with other words; a stream that is broken says so at once.
        slow = time.monotonic() - began >= timeout_s * 0.9
        return Flushed.SLOW if slow else Flushed.BROKEN, str(error)
    return Flushed.DONE, ""


class CallSender:
    """Sends prepared calls, and counts those that Rerun does not accept.

    Attributes:
        sent: How many were sent.
        refused: How many were not accepted.
        problem: What was wrong with the last of those, until it is taken.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.refused = 0
        self.problem: str | None = None

    def introduce(self, recording: Recording, stream: rr.RecordingStream) -> None:
        """Send what is known of a recording as a whole."""
        self._try(functools.partial(_introduce, recording, stream))

    def send_writes(self, writes: Sequence[Write], stream: rr.RecordingStream) -> None:
        """Send them in order. One that is not accepted does not hold up the others."""
        for write in writes:
            self._try(functools.partial(write.send, stream))

    def send_blueprint(self, blueprint: rrb.Blueprint, stream: rr.RecordingStream) -> None:
        """Send a layout, which becomes that of the application in the viewer."""
        self._try(functools.partial(_send_blueprint, blueprint, stream))

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - Rerun raises what it likes, and warnings may be errors
            self.refused += 1
            self.problem = f"{type(error).__name__}: {error}"
        else:
            self.sent += 1

    def take_problem(self) -> str | None:
        """What was wrong last, once."""
        problem, self.problem = self.problem, None
        return problem
