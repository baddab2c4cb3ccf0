"""A lane's queue: which events it drops, in which place it says so, and what that is booked on."""

from __future__ import annotations

import sys
import threading

import msgspec
import pytest

from proofstream import HOST, PRODUCER, Envelope, EventsLost, Log, LogLevel, PluginHealth, ProofEvent, UnknownEvent
from proofstream.events import AttentionHeatmap, PhaseEnd, PhaseStart
from proofstream.intake import HARD_FACTOR
from proofstream.lane_queue import LaneQueue, QueueBounds
from proofstream.wire import encode_event

_BULK = AttentionHeatmap(layer_idx=0, head_idx=0, num_heads=1, seq_len=1, scores=[0.5])
_FACT = Log(level=LogLevel.Warn, message="a fact")


def _envelope(
    event: ProofEvent, seq: int = 0, *, origin: str = PRODUCER, size: int = 0, lineage: tuple[str, ...] = ()
) -> Envelope:
    raw = (b"{}" if isinstance(event, UnknownEvent) else encode_event(event)).ljust(size)
    return Envelope(seq=seq, time_unix_nano=seq, session_id="s", origin=origin, event=event, raw=raw, lineage=lineage)


def _queue(*, capacity: int = 4, max_bytes: int = 2**30, keeps_bulk: bool = False) -> LaneQueue:
    bounds = QueueBounds(capacity=capacity, max_bytes=max_bytes, keeps_bulk=keeps_bulk, publishers={"storm"})
    return LaneQueue("slow", bounds)


def _taken(queue: LaneQueue) -> list[Envelope]:
    return [envelope for batch in iter(queue.take_batch, ()) for envelope in batch]


def test_bulk_goes_first_and_facts_stay() -> None:
    queue = _queue()
    for seq in range(10):
        queue.offer(_envelope(_BULK, 2 * seq))
        queue.offer(_envelope(_FACT, 2 * seq + 1))
    kinds = [envelope.kind for envelope in _taken(queue)]
    assert kinds.count("Log") == 10
    assert queue.dropped == {"AttentionHeatmap": 10 - kinds.count("AttentionHeatmap")}
    assert queue.lost_facts == 0


def test_beyond_the_hard_bound_facts_go_too() -> None:
    queue = _queue()
    for seq in range(4 * HARD_FACTOR + 3):
        queue.offer(_envelope(_FACT, seq))
    assert (len(queue), queue.lost_facts) == (4 * HARD_FACTOR, 3)


def test_a_queue_that_keeps_bulk_has_the_same_room_for_it_as_for_facts() -> None:
    queue = _queue(keeps_bulk=True)
    for seq in range(4 * HARD_FACTOR + 3):
        queue.offer(_envelope(_BULK, seq))
    assert len(queue) == 4 * HARD_FACTOR
    assert queue.dropped == {"AttentionHeatmap": 3}


def test_phases_beyond_the_bound_of_a_proof_go_like_bulk() -> None:
    queue = _queue()
    for seq in range(10):
        queue.offer(msgspec.structs.replace(_envelope(PhaseStart(name="fold"), 2 * seq), crowded=True))
        queue.offer(_envelope(PhaseEnd(name="commit"), 2 * seq + 1))
    kinds = [envelope.kind for envelope in _taken(queue)]
    assert kinds.count("PhaseEnd") == 10
    assert queue.dropped == {"PhaseStart": 10 - kinds.count("PhaseStart")}
    assert queue.lost_facts == 0


def test_large_bulk_events_are_bounded_in_bytes() -> None:
    queue = _queue(capacity=10_000, max_bytes=2**20)
    for seq in range(1000):
        queue.offer(_envelope(_BULK, seq, size=10_000))
    assert queue.waiting_bytes <= 2**20 // 8 + 50_000
    assert queue.dropped == {"AttentionHeatmap": 1000 - len(queue)}
    assert queue.hit_byte_bound


def test_large_facts_are_bounded_in_bytes() -> None:
    queue = _queue(capacity=10_000, max_bytes=2**20)
    for seq in range(1000):
        queue.offer(_envelope(_FACT, seq, size=10_000))
    assert 2**19 < queue.waiting_bytes <= 2**20
    assert queue.lost_facts == 1000 - len(queue)


def test_an_empty_queue_takes_an_event_that_is_larger_than_its_bound() -> None:
    queue = _queue(max_bytes=2**20)
    queue.offer(_envelope(_FACT, size=2**20))
    assert len(queue) == 1


def test_bytes_that_were_taken_make_room() -> None:
    queue = _queue(capacity=10_000, max_bytes=2**20)
    for seq in range(1000):
        queue.offer(_envelope(_FACT, seq, size=10_000))
        _taken(queue)
    assert (queue.waiting_bytes, queue.dropped) == (0, {})


def test_a_batch_of_large_events_is_short() -> None:
    queue = _queue(capacity=100, max_bytes=2**30)
    for seq in range(20):
        queue.offer(_envelope(_FACT, seq, size=10**6))
    assert len(queue.take_batch()) == 2


def test_a_gap_is_marked_in_its_place() -> None:
    queue = _queue()
    for seq in range(6):
        queue.offer(_envelope(_BULK, seq))
    first = queue.take_batch()
    queue.offer(_envelope(_FACT, 6))
    assert [envelope.seq for envelope in first] == [0, 1, 2, 3]
    lost, fact = queue.take_batch()
    assert isinstance(lost.event, EventsLost)
    assert (lost.seq, lost.event.where, dict(lost.event.counts)) == (5, "lane:slow", {"AttentionHeatmap": 2})
    assert fact.seq == 6


def test_health_and_losses_are_not_missed() -> None:
    health = PluginHealth(
        plugin="p", status="ready", reason=None, depth=0, delivered=0, dropped={}, counters={}, lag_s=0.0
    )
    queue = _queue()
    for seq in range(4 * HARD_FACTOR):
        queue.offer(_envelope(_FACT, seq))
    queue.offer(_envelope(health, 1000, origin=HOST))
    assert (queue.dropped, queue.lost_facts) == ({}, 0)


def test_a_publisher_has_a_share_and_the_rest_is_booked_on_it() -> None:
    queue = _queue(capacity=40)
    for seq in range(100):
        queue.offer(_envelope(_FACT, seq, origin="storm", lineage=("storm",)))
    for seq in range(100, 130):
        queue.offer(_envelope(_FACT, seq))
    assert queue.flooded_by == {"storm": {"Log": 90}}
    assert (queue.dropped, queue.lost_facts) == ({}, 0)
    assert [envelope.origin for envelope in _taken(queue)].count(PRODUCER) == 30
    queue.offer(_envelope(_FACT, 200, origin="storm", lineage=("storm",)))
    assert len(queue) == 1


def test_recorded_events_of_a_plugin_that_is_not_active_have_no_share() -> None:
    queue = _queue(capacity=40)
    for seq in range(30):
        queue.offer(_envelope(_FACT, seq, origin="elsewhere", lineage=("elsewhere",)))
    assert len(queue) == 30


@pytest.mark.parametrize("kinds", [1000])
def test_a_stranger_cannot_make_the_counts_long(kinds: int) -> None:
    queue = _queue()
    for seq in range(4 * HARD_FACTOR):
        queue.offer(_envelope(_FACT, seq))
    for seq in range(kinds):
        queue.offer(_envelope(UnknownEvent(kind=f"Kind{seq}"), seq))
    assert len(queue.dropped) <= 65
    assert sum(queue.dropped.values()) == kinds


def test_no_drop_is_lost_when_bus_and_lane_drop_at_the_same_time() -> None:
    queue, count, is_offering = _queue(), 60_000, threading.Event()
    envelope = _envelope(_BULK)

    def drop_what_waits() -> None:
        while is_offering.is_set():
            queue.drop_all()

    lane = threading.Thread(target=drop_what_waits, daemon=True)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # the threads take turns often enough to meet while both count
    try:
        is_offering.set()
        lane.start()
        for _ in range(count):
            queue.offer(envelope)
    finally:
        is_offering.clear()
        sys.setswitchinterval(before)
        lane.join()
    queue.drop_all()
    assert queue.dropped == {"AttentionHeatmap": count}
