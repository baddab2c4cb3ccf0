"""The queue between one signal and a receiver, and the one thread that empties it.

Nothing that was put in vanishes: an item is exported, or it is counted as lost and the reason is said, once per outage.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from proofstream_otel.environment import Batching
from proofstream_otel.otlp import protobuf
from proofstream_otel.otlp.transport import Reply, Transport
from proofstream_otel.values.resources import MAX_KNOWN, Resource
from proofstream_otel.values.signals import TRACES, Signal

PATIENCE_S = 4.0
"""How long a full queue holds the lane without anything being acknowledged. A host gives up on a lane after 5 s."""

_FIRST_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 16.0
_JITTER = 0.2
_SHARE_OF_DEADLINE = 0.9
"""How much of the time for closing is used for sending; the rest is for closing."""


class Delivery(msgspec.Struct, frozen=True):
    """What became of what was put in: items acknowledged, items lost, and attempts that failed."""

    exported: int
    lost: int
    failed_attempts: int


class _Item(msgspec.Struct, frozen=True, gc=False):
    """One encoded span, log record or metric, how many items it counts as, and the resource it belongs to."""

    resource: bytes
    content: bytes
    count: int


class Exporter:
    """Sends one signal to one receiver.

    `put`, `counters`, `hurry`, `begin_closing` and `close` are called by one thread. In the child of a fork they do
    nothing: it has no exporting thread, and what was queued is its parent's to send.

    Args:
        transport: The way to the receiver.
        resource: Makes resources from what a session says.
        signal: What is sent.
        batching: How it is put into requests.
        may_be_refused: A receiver that does not know the signal at all takes nothing that was asked for: it is named
            once, and nothing counts as lost.
        progress: Called when something was acknowledged.
        log: Where troubles are named.
    """

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        *,
        signal: Signal = TRACES,
        batching: Batching,
        may_be_refused: bool = False,
        progress: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._transport = transport
        self._resource = resource
        self._scope = protobuf.encode_scope(resource.scope_version)
        self._resources: dict[tuple[tuple[str, str], ...], bytes] = {}
        self._signal = signal
        self._may_be_refused = may_be_refused
        self._unwanted = False
        # The receiver is one for all signals, so its outage is worth one warning.
        self._level = logging.WARNING if signal is TRACES else logging.INFO
        self._batching = batching
        self._progress = progress
        self._log = log
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[_Item] = deque()
        self._queued_bytes = 0
        self._queued_items = 0
        self._in_flight = 0
        self._oldest_s = 0.0
        self._acknowledged_s = 0.0
        self._overflowing = False
        self._failing = False
        self._trouble = ""
        self._hurried = False
        self._abandoned = False
        self._closing_at: float | None = None
        self._exported = self._lost = self._failures = self._failed_attempts = 0
        # Started here, as no thread can be started while the interpreter exits.
        self._thread = threading.Thread(target=self._run, name=f"proofstream-otlp-{signal.name}", daemon=True)
        self._thread.start()

    # The lane's thread

    def put(
        self,
        resource: tuple[tuple[str, str], ...],
        content: bytes,
        *,
        count: int = 1,
        reserve: int = 1,
        patient: bool = True,
    ) -> None:
        """Queue an encoded item; waits while the queue is full and the receiver takes something now and then.

        Args:
            resource: What its session says about who runs the prover.
            content: The encoded item.
            count: How many items it counts as.
            reserve: How many times the queue's size may be used for it.
            patient: Whether to wait; else it is lost if the queue is full.
        """
        if os.getpid() != self._owner or self._unwanted:
            return
        item = _Item(self._resource_of(resource), content, count)
        with self._changed:
            if self._abandoned or not self._wait_for_room(len(content), reserve=reserve, patient=patient):
                self._trouble = self._trouble or "the queue is full"
                self._lost += count
                return
            if not self._queue:
                self._oldest_s = time.monotonic()
            self._queue.append(item)
            self._queued_bytes += len(content)
            self._queued_items += count
            self._changed.notify_all()

    def counters(self) -> dict[str, int]:
        """Items acknowledged by the receiver, items given up, and requests that failed for good."""
        signal = self._signal
        return {signal.exported: self._exported, signal.lost: self._lost, signal.failures: self._failures}

    @property
    def delivery(self) -> Delivery:
        """The same, with every attempt that failed."""
        return Delivery(self._exported, self._lost, self._failed_attempts)

    def hurry(self) -> None:
        """Hold the lane no more, as it is about to end."""
        self._hurried = True

    def begin_closing(self, timeout_s: float) -> None:
        """Send what is queued within `timeout_s` from now; nothing more will come."""
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._closing_at = time.monotonic() + timeout_s * _SHARE_OF_DEADLINE
            self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Send what is queued within `timeout_s`; what is left then is lost, and counted."""
        if os.getpid() != self._owner:
            return
        if self._closing_at is None:
            self.begin_closing(timeout_s)
        assert self._closing_at is not None
        self._thread.join(max(0.0, self._closing_at - time.monotonic()))
        with self._changed:
            self._abandoned = True
            if self._in_flight and not self._trouble:
                self._trouble = "no answer in time"
            self._lost += self._in_flight + self._queued_items
            self._in_flight = self._queued_items = 0
            self._queue.clear()
        if not self._thread.is_alive():
            self._transport.close()
        if self._lost:
            self._log.warning(
                "%d %s were not delivered to %s: %s",
                self._lost,
                self._signal.items,
                self._transport.shown,
                self._trouble,
            )

    def _resource_of(self, session: tuple[tuple[str, str], ...]) -> bytes:
        found = self._resources.get(session)
        if found is None:
            if len(self._resources) >= MAX_KNOWN:
                self._resources.clear()
            found = protobuf.encode_resource(self._resource.of(session))
            self._resources[session] = found
        return found

    def _wait_for_room(self, size: int, *, reserve: int, patient: bool) -> bool:
        waiting_since = time.monotonic()
        while not self._has_room(size, reserve):
            patient_until = max(waiting_since, self._acknowledged_s) + PATIENCE_S
            left = patient_until - time.monotonic()
            if self._hurried or self._overflowing or not patient or left <= 0:
                self._overflow()
                return False
            self._changed.wait(left)
        return True

    def _has_room(self, size: int, reserve: int) -> bool:
        limit = self._batching.max_queue_items
        if limit is not None and len(self._queue) >= limit * reserve:
            return False
        return not self._queue or self._queued_bytes + size <= self._batching.max_queue_bytes * reserve

    def _overflow(self) -> None:
        if not self._overflowing:
            self._log.warning(
                "%s are being lost: %s takes nothing, and %d %s are waiting",
                self._signal.name,
                self._transport.shown,
                self._queued_items,
                self._signal.items,
            )
        self._overflowing = True

    # The exporting thread

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            count = sum(item.count for item in batch)
            reply = self._deliver(protobuf.encode_request(self._scope, _by_resource(batch)), count)
            self._settle(reply, count)

    def _next_batch(self) -> list[_Item] | None:
        """Wait until a request is due, and take its items off the queue; None when no more will come."""
        with self._changed:
            while (wait_s := self._due_in()) > 0:
                self._changed.wait(wait_s)
            if not self._queue:
                return None
            batch: list[_Item] = []
            size = 0
            while self._queue and len(batch) < self._batching.max_request_items:
                size += len(self._queue[0].content)
                if batch and size > self._batching.max_request_bytes:
                    break
                item = self._queue.popleft()
                self._queued_bytes -= len(item.content)
                self._queued_items -= item.count
                batch.append(item)
            self._in_flight = sum(item.count for item in batch)
            self._oldest_s = time.monotonic()
            self._changed.notify_all()
            return batch

    def _due_in(self) -> float:
        """Seconds until the next request is due, or 0."""
        if self._closing_at is not None:
            return 0.0
        if not self._queue:
            return threading.TIMEOUT_MAX
        full = (
            self._queued_bytes >= self._batching.max_request_bytes
            or len(self._queue) >= self._batching.max_request_items
        )
        return 0.0 if full else max(0.0, self._oldest_s + self._batching.delay_s - time.monotonic())

    def _deliver(self, body: bytes, count: int) -> Reply:
        """Send one request until it is taken, refused for good, or given up."""
        give_up_at = time.monotonic() + self._batching.give_up_s
        backoff_s = _FIRST_BACKOFF_S
        while True:
            reply = self._transport.post(body, max(0.001, self._left_until(give_up_at)))
            if reply.accepted:
                return reply
            self._failed_attempts += 1
            if not reply.retryable:
                return reply
            self._say(reply.reason, f"{count} {self._signal.items} are tried again")
            asked = reply.retry_after_s
            jitter = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret
            wait_s = backoff_s * jitter if asked is None else asked
            if not self._pause(wait_s, give_up_at):
                return reply
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)

    def _left_until(self, give_up_at: float) -> float:
        limit = give_up_at if self._closing_at is None else min(give_up_at, self._closing_at)
        return limit - time.monotonic()

    def _pause(self, wait_s: float, give_up_at: float) -> bool:
        """Wait before the next attempt; False if there is no time left for one."""
        again_at = time.monotonic() + wait_s
        with self._changed:
            while (left := again_at - time.monotonic()) > 0:
                if left > self._left_until(give_up_at):
                    return False
                self._changed.wait(left)
        return True

    def _settle(self, reply: Reply, count: int) -> None:
        """Count what became of a request."""
        with self._changed:
            if self._abandoned:
                return
            self._in_flight = 0
            if reply.accepted:
                self._acknowledged_s = time.monotonic()
                self._overflowing = False
                rejected = min(reply.rejected, count)
                self._exported += count - rejected
                self._lost += rejected
            elif reply.unsupported and self._may_be_refused and not self._exported:
                self._unwanted = True
                self._clear()
            else:
                self._failures += 1
                self._lost += count
                self._give_up_rest(reply)
            self._changed.notify_all()
        self._report(reply, count)

    def _give_up_rest(self, reply: Reply) -> None:
        """At the end, a receiver that did not take one request in all the time left will not take the others."""
        if self._closing_at is not None and reply.retryable:
            self._lost += self._queued_items
            self._clear()

    def _clear(self) -> None:
        self._queue.clear()
        self._queued_bytes = self._queued_items = 0

    def _report(self, reply: Reply, count: int) -> None:
        name, items = self._signal.name, self._signal.items
        if self._unwanted:
            shown = self._transport.shown
            self._log.log(self._level, "%s takes no %s (%s): none are sent", shown, name, reply.reason)
            return
        if not reply.accepted:
            self._say(reply.reason, f"{count} {items} are lost")
            return
        self._progress()
        if reply.rejected or reply.reason:
            self._say(reply.reason, f"it refused {reply.rejected} of {count} {items}")
        elif self._failing:
            self._failing = False
            self._log.log(self._level, "%s takes %s again", self._transport.shown, name)

    def _say(self, trouble: str, so: str) -> None:
        """Name a trouble and what comes of it, once until it is over."""
        self._trouble = trouble
        if not self._failing:
            self._failing = True
            self._log.log(
                self._level, "%s are not delivered to %s: %s; %s", self._signal.name, self._transport.shown, trouble, so
            )


def _by_resource(batch: list[_Item]) -> list[tuple[bytes, list[bytes]]]:
    groups: dict[bytes, list[bytes]] = {}
    for item in batch:
        groups.setdefault(item.resource, []).append(item.content)
    return list(groups.items())
