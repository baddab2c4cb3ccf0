"""What is remembered of an open session: where it comes from, and what was heard since it waits for a proof."""

from __future__ import annotations

from dataclasses import dataclass

from proofstream import LayerActivation, ProofEvent, SessionOpened

_LISTENERS = ("unix:", "tcp:")
"""How the names of connections begin; those of other programs' listeners are addresses with `://`."""


@dataclass(slots=True)
class SessionSummary:
    """An open session.

    Attributes:
        session_id: Its name.
        source: Where it comes from.
        latest_unix_nano: Its latest event time.
        seen_at: When that was seen on our clock.
        waits_since_unix_nano: When it was opened, or its last proof ended.
        is_in_process: Whether the program that proves opened it in itself.
        events: Events since then.
        activations: Activations of layers among them.
        proofs: Proofs that it has begun.
        told: Whether the reader was told of it.
        at_once_told: Whether the reader was told that its proofs cannot be told apart.
    """

    session_id: str
    source: str
    latest_unix_nano: int
    seen_at: float
    waits_since_unix_nano: int
    is_in_process: bool = False
    events: int = 0
    activations: int = 0
    proofs: int = 0
    told: bool = False
    at_once_told: bool = False

    @property
    def is_connection(self) -> bool:
        """Whether a prover has connected to a listener; else a file or a pipe is read, or the process itself proves."""
        return self.source.startswith(_LISTENERS) or "://" in self.source

    @property
    def is_worth_a_word(self) -> bool:
        """Whether a reader does not know yet that it is there and has not begun a proof."""
        return self.events > 0 and not (self.told or self.proofs or self.is_in_process)

    def count_event(self, event: ProofEvent) -> None:
        """Count an event."""
        if not isinstance(event, SessionOpened):
            self.events += 1
            self.activations += isinstance(event, LayerActivation)

    def wait_from(self, time_unix_nano: int) -> None:
        """Note that a proof ended: it waits for the next one."""
        self.waits_since_unix_nano = time_unix_nano
        self.events = self.activations = 0
