"""What the scene hands to the outlets: a proof's recording, and the prepared calls that fill it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from proofstream_rerun.picture.marks import PropertyValue

if TYPE_CHECKING:
    import rerun as rr
    import rerun.blueprint as rrb


class Write(Protocol):
    """One prepared call of Rerun, such as a batch of rows of one entity.

    It never changes once it was handed over, so it can be sent from any thread, to any number of streams, any number
    of times.
    """

    @property
    def size_bytes(self) -> int:
        """About how many bytes it holds."""
        ...

    def send(self, stream: rr.RecordingStream) -> None:
        """Put it on one stream."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """One proof, as Rerun keeps it.

    `blueprint` and `snapshot` are called on the plugin's lane, from within a call of the outlets, whenever somebody has
    to be told anew.

    Attributes:
        application_id: The application that the viewer lists it under, and finds its blueprint by.
        recording_id: Unique in the world, such as made of the session and the proof.
        name: What a person calls it.
        started_ns: When the proof began, in nanoseconds since the epoch.
        properties: Facts about the whole recording: values by their names by the property that holds them.
        blueprint: Makes the layout of the views as it should be now.
        snapshot: The static data and the present state: what is sent first, and again to a viewer that came late, was
            away or was too slow. Nothing before it is sent again.
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
