"""Defines what the scene hands to the outlets: a proof's recording, and the prepared calls that fill it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from proofstream_rerun.picture.marks import PropertyValue

if TYPE_CHECKING:
    import rerun as rr
    import rerun.blueprint as rrb


class Write(Protocol):
    """One prepared call of Rerun, such as a batch of rows of one entity.

    It never changes after it was handed over, so any thread may send it, to any number of streams, any number of times.
    """

    @property
    def size_bytes(self) -> int:
        """Roughly how many bytes it holds."""
        ...

    def send(self, stream: rr.RecordingStream) -> None:
        """Send it to a stream."""
        ...


OUTSIDE = "outside of any proof"
"""The name of a recording of events that belong to no proof."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """One proof as a Rerun recording.

    The outlets call `blueprint` and `snapshot` on the plugin's lane, from within their own methods, whenever a viewer
    needs them.

    Attributes:
        application_id: The application that the viewer lists it under, and keeps its layout for.
        recording_id: Globally unique; made of the session and the proof.
        name: The name that the viewer shows.
        started_ns: When the proof began, in nanoseconds since the epoch.
        properties: Facts about the whole recording: property name -> key -> value.
        blueprint: Returns the layout of the views for the present state.
        snapshot: Returns the static data and the present state. It is sent first, and again to a viewer that started
            late, was away or was too slow and lacks older rows.
    """

    application_id: str
    recording_id: str
    name: str
    started_ns: int
    blueprint: Callable[[], rrb.Blueprint]
    snapshot: Callable[[], Sequence[Write]]
    properties: Mapping[str, Mapping[str, PropertyValue]] = field(
        default_factory=dict[str, Mapping[str, PropertyValue]]
    )

    def without_scene(self) -> Recording:
        """Return the recording with its last layout and an empty snapshot, so that its scene can be freed."""
        layout = self.blueprint()
        return replace(self, blueprint=lambda: layout, snapshot=tuple[Write, ...])
