"""Releases closed streams while viewers are connected: a thread that lets all of them rest for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from proofstream_rerun.outlets.peer import PeerOutlet, PeerState
from proofstream_rerun.sdk.stream_release import (
    MOST_UNRELEASED,
    RELEASE_AFTER,
    release_closed_streams,
    unreleased_streams,
)

_LOOK_EVERY_S = 0.02
_IDLE_LOOK_S = 0.25
"""How often to look while no streams are opened: seldom, so that an idle process can sleep."""
_QUIET_LOOKS = 8
"""After so many looks without a new stream, closed ones are released although they are few: each wakes up by itself."""
_RETRY_S = 0.25
_REST_S = 1.0
"""How long peers may take to come to rest. Those that are at rest send nothing meanwhile."""
_REST_EVERY_S = 0.002


class Releaser:
    """Releases closed streams whenever many were opened, and once no more are.

    A release flushes every stream of the process, so each peer first sends what it has begun and then rests. A peer
    that does not come to rest is left alone until `MOST_UNRELEASED` streams wait. Then its connections are cut if it
    is silent or stuck, and at twice that number if it is slow: otherwise each recording that follows would leave
    threads and memory behind.

    Args:
        peers: All peers that open streams.
    """

    def __init__(self, peers: Sequence[PeerOutlet]) -> None:
        self._peers = peers
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proofstream-rerun-releaser", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, leave_by: float) -> None:
        """Ask the thread to end, and wait for it until `leave_by`, a time of the monotonic clock."""
        self._is_stopped.set()
        self._thread.join(max(0.1, leave_by - time.monotonic()))

    def _run(self) -> None:
        rest_s, seen, quiet_looks = _LOOK_EVERY_S, 0, 0
        while not self._is_stopped.wait(rest_s):
            opened = unreleased_streams()
            quiet_looks = quiet_looks + 1 if opened == seen else 0
            seen = opened
            # Peers that are awake pause for each attempt, so a failed one is not repeated at once.
            if opened >= RELEASE_AFTER:
                rest_s = _LOOK_EVERY_S if self._release() else _RETRY_S
            else:
                rest_s = _IDLE_LOOK_S if quiet_looks else _LOOK_EVERY_S
                if opened and quiet_looks == _QUIET_LOOKS:
                    self._release()

    def _release(self) -> bool:
        """Release closed streams if all peers come to rest, and return whether they do or soon will."""
        try:
            for peer in self._peers:
                peer.pause()
            restless = self._wait_for_rest()
            if not restless:
                release_closed_streams()
            waiting = unreleased_streams()
            hopeless = [p for p in restless if waiting >= MOST_UNRELEASED * (1 if p.is_unresponsive else 2)]
            for peer in hopeless:
                peer.cut()
            return len(hopeless) == len(restless)
        finally:
            for peer in self._peers:
                peer.resume()

    def _wait_for_rest(self) -> list[PeerOutlet]:
        """Wait until all peers are at rest, and return those that are not in time."""
        ends = time.monotonic() + _REST_S
        while True:
            restless = [peer for peer in self._peers if not peer.is_at_rest]
            # A peer that is asleep cannot come to rest, and the others must not wait for it.
            is_hopeless = any(peer.state is PeerState.ASLEEP for peer in restless)
            if not restless or is_hopeless or time.monotonic() >= ends:
                return restless
            time.sleep(_REST_EVERY_S)
