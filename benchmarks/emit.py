"""Measures the cost of an emit on the prover's thread, as a multiple of a bare deque.append in the same run."""

from __future__ import annotations

import timeit
from collections import deque

from proofstream import Batch, LayerKind, LayerStart, ProofEvent, hookimpl, open_session
from proofstream.testing import RecordingPlugin

COUNT = 20_000
REPEATS = 15


class Sink(RecordingPlugin):
    """Discards its events."""

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Discard the batch."""


def main() -> None:
    """Print the ratio. Emits stay below the intake's capacity, because a dropped event would be cheaper."""
    event: ProofEvent = LayerStart(
        layer_idx=1,
        kind=LayerKind.MatMul,
        input_shape=(1, 8),
        output_shape=(1, 8),
        trace_cost=64,
        claim_value_approx=0.5,
        gpu_device=None,
    )
    bare: deque[ProofEvent] = deque()
    with open_session(plugins=[Sink("a"), Sink("b"), Sink("c")], source="benchmark") as session:
        appends, emits = [], []
        for _ in range(REPEATS):
            appends.append(timeit.timeit(lambda: bare.append(event), number=COUNT))
            bare.clear()
            emits.append(timeit.timeit(lambda: session.emit(event), number=COUNT))
            session.flush(30.0)
    one = min(appends) / COUNT * 1e9
    other = min(emits) / COUNT * 1e9
    print(f"deque.append {one:.0f} ns, session.emit to three plugins {other:.0f} ns: {other / one:.1f} times")


if __name__ == "__main__":
    main()
