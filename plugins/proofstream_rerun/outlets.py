"""All places that recordings go to, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proofstream_rerun.recordings import Recording, Write


class Outlets:
    """All places that recordings go to.

    Every method is called on the plugin's lane. None raises because of a place that cannot be reached or written, and
    none waits for the network.
    """

    def begin(self, recording: Recording) -> None:
        """Begin a recording: its name, properties and blueprint are sent, then its snapshot."""

    def write(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Send calls to every place. A recording that was not begun, or has ended, is passed over."""

    def show(self, recording_id: str) -> None:
        """Send the blueprint anew, as after the circuit became known."""

    def end(self, recording_id: str) -> None:
        """End a recording: what was written is flushed, and nothing follows."""

    def tick(self) -> None:
        """Look after places where nothing happened: flush, reconnect, send snapshots again."""

    def counters(self) -> Mapping[str, int]:
        """What was written, and as `lost_...` what was asked for and could not be delivered."""
        return {}

    def close(self, timeout_s: float) -> None:
        """End all recordings and leave every place, within `timeout_s` seconds."""
