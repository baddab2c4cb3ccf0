"""Fans each recording out to every file and viewer that was configured."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from proofstream import ConfigError, Output
from proofstream_rerun.connections import Connection, File, Serve, Spawn, Viewer
from proofstream_rerun.outlets.backlog import Backlog
from proofstream_rerun.outlets.file import FileOutlet
from proofstream_rerun.outlets.peer import PeerOutlet, PeerState
from proofstream_rerun.outlets.releaser import Releaser
from proofstream_rerun.outlets.server import Server
from proofstream_rerun.outlets.spawned_viewer import SpawnedViewer
from proofstream_rerun.sdk.forked_children import forget_in_children
from proofstream_rerun.sdk.recordings import Recording, Write
from proofstream_rerun.sdk.stream_release import RELEASE_AFTER, release_closed_streams, unreleased_streams
from proofstream_rerun.settings import Settings

_MIB = 2**20
_SPAWN_S = 8.0
"""How long to wait for a viewer that we start. After that we go on, and the viewer catches up when it is ready."""

_HOLD_S = 1.0
"""The longest that one call holds a replay up."""
_HOLD_ALL_S = 10.0
"""The longest that all calls between two ticks do, well below the time after which a host calls a lane stalled."""

_HOLD_EVERY_S = 0.01
_HOLD_ENDINGS = 4
"""How many ended recordings a viewer may be behind in a replay: few, as it receives the rest while the command ends."""

_SNAPSHOT_EVERY_S = 2.0
"""The least time between two snapshots. A viewer that skips again and again would otherwise get little else."""


class Outlets:
    """All destinations of recordings.

    Call every method on the plugin's lane. No method raises because a destination cannot be reached or written. No
    method waits for the network, except that a replay is held up until viewers have caught up.

    Args:
        settings: The destinations, and how much to keep for slow viewers.
        live: Whether events happen now. A live prover is never held up.
        tell: Shows a line to the user: the address of our server.
        log: The plugin's logger, for problems and details.
        reserved: Files that were created for us, by their paths.

    Raises:
        ConfigError: A destination is not available: the port is taken, or there is no screen.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        live: bool,
        tell: Callable[[str], None],
        log: logging.Logger,
        reserved: Mapping[Path, Output] = MappingProxyType({}),
    ) -> None:
        self._settings = settings
        self._live = live
        self._tell = tell
        self._log = log
        # As `parse_connections` resolves them.
        self._reserved = {path.parent.resolve() / path.name: output for path, output in reserved.items()}
        self._recordings: dict[str, Recording] = {}
        self._backlog = Backlog(settings.resend_mib * _MIB)
        self._files: list[FileOutlet] = []
        self._peers: list[PeerOutlet] = []
        self._snapshot_wanted = False
        self._snapshot_at = 0.0
        self._lost_viewers = 0
        self._is_dead = False
        self._hold_left_s = _HOLD_ALL_S
        self._open_all(settings.parsed_connections())
        self._releaser = Releaser(self._peers) if self._peers else None
        for peer in self._peers:
            peer.start()
        if self._releaser is not None:
            self._releaser.start()
        forget_in_children(self)

    def _open_all(self, connections: Sequence[Connection]) -> None:
        for connection in connections:
            match connection:
                case File(path):
                    overwrite = self._settings.overwrite
                    outlet = FileOutlet(path, self._reserved.get(path), log=self._log, overwrite=overwrite)
                    self._files.append(outlet)
                case Viewer():
                    self._peers.append(self._peer(connection))
                case Serve(port):
                    self._serve(port)
                case Spawn():
                    self._spawn(is_all=len(connections) == 1)

    def _peer(self, viewer: Viewer) -> PeerOutlet:
        return PeerOutlet(viewer, self._backlog, log=self._log, want_snapshot=self._want_snapshot)

    def _serve(self, port: int | None) -> None:
        server = Server(port, memory=self._settings.server_memory)
        # Treated like any remote peer, because a suspended viewer makes the server block its writers.
        outlet = PeerOutlet(
            server.viewer,
            self._backlog,
            log=self._log,
            want_snapshot=self._want_snapshot,
            server=server,
        )
        self._peers.append(outlet)
        text = "the proof can be watched" if self._live else "until the replay has ended it can be watched"
        # --connect is needed: without it, `rerun` takes any process on the usual port for a viewer that is running.
        self._tell(f"rerun: {text}: rerun --connect {server.viewer.url}")

    def _spawn(self, *, is_all: bool) -> None:
        try:
            spawned = SpawnedViewer(self._settings.viewer, memory=self._settings.viewer_memory)
            spawned.wait(_SPAWN_S)
        except ConfigError as error:
            if is_all:
                raise
            self._lost_viewers += 1
            self._log.error("%s; %s", error, error.hint)
            return
        outlet = PeerOutlet(
            spawned.viewer,
            self._backlog,
            log=self._log,
            want_snapshot=self._want_snapshot,
            may_appear=spawned.is_running,
        )
        self._peers.append(outlet)

    def _want_snapshot(self) -> None:
        # Called on the peers' threads. Only the lane may call `Recording.snapshot`, so leave a note for its next call.
        self._snapshot_wanted = True

    def forget(self) -> None:
        """Do nothing from now on: this is a forked child, which has neither our threads nor Rerun's."""
        self._is_dead = True

    def begin_recording(self, recording: Recording) -> None:
        """Begin a recording: send its name, properties and blueprint, then its snapshot."""
        if self._is_dead:
            return
        self._recordings[recording.recording_id] = recording
        blueprint, opening = recording.blueprint(), recording.snapshot()
        for file in self._files:
            file.begin_recording(recording, blueprint=blueprint, opening=opening)
        if self._peers:
            self._backlog.begin_recording(recording, blueprint=blueprint, opening=opening)

    def send_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Send calls to every destination. Ignore a recording that was not begun or has ended."""
        if self._is_dead or recording_id not in self._recordings:
            return
        for file in self._files:
            file.send_writes(recording_id, writes)
        if self._peers:
            self._backlog.add_writes(recording_id, writes)
            self._look_after_peers()

    def send_blueprint(self, recording_id: str) -> None:
        """Send the blueprint again, such as after the circuit became known."""
        if self._is_dead or recording_id not in self._recordings:
            return
        blueprint = self._recordings[recording_id].blueprint()
        for file in self._files:
            file.send_blueprint(recording_id, blueprint)
        if self._peers:
            self._backlog.set_blueprint(recording_id, blueprint)

    def end_recording(self, recording_id: str) -> None:
        """End a recording: flush what was written, and accept nothing more."""
        if self._is_dead or recording_id not in self._recordings:
            return
        recording = self._recordings.pop(recording_id)
        for file in self._files:
            file.end_recording(recording_id)
        if self._peers:
            if self._backlog.has_gaps(recording_id):
                # A viewer that comes late gets the final state at least; afterwards there is no recording to ask.
                self._backlog.add_writes(recording_id, recording.snapshot())
            self._backlog.end_recording(recording_id)
            self._look_after_peers()
        elif unreleased_streams() >= RELEASE_AFTER:
            release_closed_streams()  # at once, because no stream of a file waits for a peer

    def tick(self, *, is_idle: bool = False) -> None:
        """Look after all destinations: flush files, send snapshots that are due, and tidy up if no events arrive."""
        if self._is_dead:
            return
        for file in self._files:
            file.tick()
        is_at_rest = is_idle and not self._peers and all(file.is_at_rest for file in self._files)
        if is_at_rest and unreleased_streams():
            release_closed_streams()  # each wakes up a few times a second until it is released
        self._hold_left_s = _HOLD_ALL_S
        self._look_after_peers()

    def hurry(self) -> None:
        """Hold nothing up until the next tick, because the run ends."""
        self._hold_left_s = 0.0

    def _look_after_peers(self) -> None:
        self._send_snapshots()
        if not self._live:
            self._hold()

    def _send_snapshots(self) -> None:
        """Send the present state again if a viewer missed something, but not too often."""
        now = time.monotonic()
        if not self._snapshot_wanted or now - self._snapshot_at < _SNAPSHOT_EVERY_S:
            return
        self._snapshot_wanted, self._snapshot_at = False, now
        for recording in self._recordings.values():
            self._backlog.add_writes(recording.recording_id, recording.snapshot())

    def _hold(self) -> None:
        """Hold a replay up until viewers that are reading have caught up, so that it loses nothing."""
        limit = self._backlog.max_bytes // 2  # the other half is room for the next batch
        began = time.monotonic()
        ends = began + min(_HOLD_S, self._hold_left_s)
        while time.monotonic() < ends and any(
            peer.is_behind(max_bytes=limit, max_endings=_HOLD_ENDINGS) for peer in self._peers
        ):
            time.sleep(_HOLD_EVERY_S)
        self._hold_left_s -= time.monotonic() - began

    def counters(self) -> Mapping[str, int]:
        """Return what was written and, as `lost_...`, what could not be delivered.

        A viewer that was reached once and then closed by the user does not count as lost.
        """
        senders = [*(file.sender for file in self._files), *(peer.sender for peer in self._peers)]
        lost = {
            "lost_batches": sum(peer.skipped for peer in self._peers),
            "lost_files": sum(file.lost_files for file in self._files),
            "lost_viewers": self._lost_viewers,
            "lost_writes": sum(s.refused for s in senders) + sum(file.lost_writes for file in self._files),
        }
        return {
            "writes": sum(sender.sent for sender in senders),
            "reconnects": sum(max(0, peer.connects - 1) for peer in self._peers),
        } | {name: count for name, count in lost.items() if count}

    def close(self, timeout_s: float) -> None:
        """End all recordings and leave every destination, within `timeout_s` seconds."""
        if self._is_dead:
            return
        leave_by = time.monotonic() + timeout_s
        for recording_id in list(self._recordings):
            self.end_recording(recording_id)
        for file in self._files:
            file.finish()
        # Ask all first, then wait: the peers leave at the same time, by one deadline.
        for peer in self._peers:
            peer.ask_to_leave(leave_by)
        for peer in self._peers:
            if not peer.wait():
                self._judge(peer)
        if self._releaser is not None:
            self._releaser.stop(leave_by)

    def _judge(self, peer: PeerOutlet) -> None:
        """Log why a viewer did not get everything, and count it as lost unless the user closed it."""
        if peer.was_reached and peer.state is PeerState.AWAY and not peer.was_cut:
            self._log.info("rerun: %s was closed before the end", peer.viewer.address)
            return
        self._lost_viewers += 1
        problem = "no longer answers and misses the end" if peer.connects else "was never reached"
        self._log.error("rerun: the viewer at %s %s", peer.viewer.address, problem)
