"""The queue between one signal and a receiver, and the thread that empties it.

No item vanishes: it is exported, or it is counted as lost and the reason is logged, once per outage.

The SDK's batch processors do not serve here: they drop items from a full queue instead of slowing the source down,
bound the queue by items instead of bytes, and ignore the result of an export.
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
from proofstream_otel.otlp.resources import MAX_KNOWN, Resources
from proofstream_otel.otlp.transport import Reply, Transport
from proofstream_otel.values.signals import TRACES, ExportCounts, Signal

PATIENCE_S = 4.0
"""How long a full queue may block the lane while nothing is acknowledged.

Must stay below the 5 s after which a host at its end abandons a lane that makes no progress.
"""

_FIRST_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 16.0
_JITTER = 0.2
"""Spreads attempts over time, so that many exporters do not return to a recovering receiver at the same moment."""
_SHARE_OF_DEADLINE = 0.9
"""The part of the time for closing that may be spent on sending. The rest is for counting losses and for warnings."""


class _Item(msgspec.Struct, frozen=True, gc=False):
    """One encoded span, log record or metric, the number of items that it counts as, and its encoded resource."""

    resource: bytes
    content: bytes
    count: int


class Exporter:
    """Sends one signal to one receiver.

    The lane's thread makes all calls; a thread of the exporter sends. In the child of a fork the calls do nothing: the
    child has no exporting thread, and its parent sends the queued items.

    Args:
        transport: The connection to the receiver.
        resources: Makes the resource of a session.
        signal: The kind of telemetry.
        batching: The limits of the queue and of requests.
        may_be_refused: Whether the receiver may lack this signal, because the user did not ask for it. Then that is
            logged once, and nothing counts as lost.
        progress: Called when the receiver has acknowledged something.
        log: Takes warnings.
    """

    def __init__(
        self,
        transport: Transport,
        resources: Resources,
        *,
        signal: Signal = TRACES,
        batching: Batching,
        may_be_refused: bool = False,
        progress: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._transport = transport
        self._resources = resources
        self._scope = protobuf.encode_scope(resources.scope_version)
        self._encoded_resources: dict[tuple[tuple[str, str], ...], bytes] = {}
        self._signal = signal
        self._may_be_refused = may_be_refused
        self._unwanted = False
        # Signals usually share a receiver, so warn of its outage for one of them only.
        self._level = logging.WARNING if signal is TRACES else logging.INFO
        self._batching = batching
        self._progress = progress
        self._log = log
        self._owner = os.getpid()
        # Guards everything below, and wakes both threads: the lane waits for room, the exporter for items.
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
        # Start now, because no thread can be started while the interpreter exits.
        self._thread = threading.Thread(target=self._run, name=f"proofstream-otlp-{signal.name}", daemon=True)
        self._thread.start()

    # The lane's thread

    def queue_item(
        self,
        resource: tuple[tuple[str, str], ...],
        content: bytes,
        *,
        count: int = 1,
        reserve: int = 1,
        patient: bool = True,
    ) -> None:
        """Queue an encoded item. Wait while the queue is full, as long as the receiver keeps accepting requests.

        Args:
            resource: The attributes that its session gives the resource.
            content: The encoded item.
            count: The number of items that it counts as.
            reserve: The factor by which the queue may exceed its size for this item.
            patient: Whether to wait. If not, the item is lost when the queue is full.
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
        """Count the items that the receiver acknowledged, the items lost, and the requests that failed for good."""
        signal = self._signal
        return {signal.exported: self._exported, signal.lost: self._lost, signal.failures: self._failures}

    @property
    def counts(self) -> ExportCounts:
        """The same for metrics, with every failed attempt."""
        return ExportCounts(self._exported, self._lost, self._failed_attempts)

    def hurry(self) -> None:
        """Stop blocking the lane, because it is about to end. A full queue loses items from now on."""
        self._hurried = True

    def begin_closing(self, timeout_s: float) -> None:
        """Send the queued items within `timeout_s` from now; no more will come.

        `close` waits for that. All exporters begin before the first one is closed, so that they share the time.
        """
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._closing_at = time.monotonic() + timeout_s * _SHARE_OF_DEADLINE
            self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Send the queued items within `timeout_s`; count the rest as lost."""
        if os.getpid() != self._owner:
            return
        if self._closing_at is None:
            self.begin_closing(timeout_s)
        assert self._closing_at is not None
        self._thread.join(max(0.0, self._closing_at - time.monotonic()))
        with self._changed:
            # From here on the thread may still be waiting for a reply; it must not count those items again.
            self._abandoned = True
            if self._in_flight and not self._trouble:
                self._trouble = "no answer in time"
            self._lost += self._in_flight + self._queued_items
            self._in_flight = self._queued_items = 0
            self._queue.clear()
        # A transport is not safe for two threads. If ours is stuck in it, leave both to the end of the process.
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
        found = self._encoded_resources.get(session)
        if found is None:
            if len(self._encoded_resources) >= MAX_KNOWN:
                self._encoded_resources.clear()
            found = protobuf.encode_resource(self._resources.attributes_of(session))
            self._encoded_resources[session] = found
        return found

    def _wait_for_room(self, size: int, *, reserve: int, patient: bool) -> bool:
        waiting_since = time.monotonic()
        while not self._has_room(size, reserve):
            # Each acknowledgement renews the patience: a slow receiver slows the source down instead of losing items.
            patient_until = max(waiting_since, self._acknowledged_s) + PATIENCE_S
            left = patient_until - time.monotonic()
            # Once items are being lost, wait no more until something is acknowledged, or every item would cost 4 s.
            if self._hurried or self._overflowing or not patient or left <= 0:
                self._overflow()
                return False
            self._changed.wait(left)
        return True

    def _has_room(self, size: int, reserve: int) -> bool:
        limit = self._batching.max_queue_items
        if limit is not None and len(self._queue) >= limit * reserve:
            return False
        # An empty queue takes any item, however large.
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
        """Wait until a request is due and take its items off the queue. Return None when no more will come."""
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
            # The true time of the oldest item left is unknown; at worst a part of a batch waits for one more delay.
            self._oldest_s = time.monotonic()
            self._changed.notify_all()
            return batch

    def _due_in(self) -> float:
        """Return the seconds until the next request is due, or 0 if it is due now."""
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
        """Send one request until it is accepted, refused for good, or given up."""
        give_up_at = time.monotonic() + self._batching.give_up_s
        backoff_s = _FIRST_BACKOFF_S
        while True:
            # At least one attempt: past the deadline, a receiver that answers at once may still accept.
            reply = self._transport.post(body, max(0.001, self._left_until(give_up_at)))
            if reply.accepted:
                return reply
            self._failed_attempts += 1
            if not reply.retryable:
                return reply
            self._log_trouble(reply.reason, f"{count} {self._signal.items} are tried again")
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
        """Wait before the next attempt. Return False if no time is left for one."""
        again_at = time.monotonic() + wait_s
        with self._changed:
            # Look again after each wake-up: `begin_closing` may have brought the deadline forward.
            while (left := again_at - time.monotonic()) > 0:
                if left > self._left_until(give_up_at):
                    return False
                self._changed.wait(left)
        return True

    def _settle(self, reply: Reply, count: int) -> None:
        """Count the items of a request by its outcome."""
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
        """At the end of the run, give up the queue as well: no time is left for a receiver that is away."""
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
            self._log_trouble(reply.reason, f"{count} {items} are lost")
            return
        self._progress()
        if reply.rejected or reply.reason:
            self._log_trouble(reply.reason, f"it refused {reply.rejected} of {count} {items}")
        elif self._failing:
            self._failing = False
            self._log.log(self._level, "%s takes %s again", self._transport.shown, name)

    def _log_trouble(self, trouble: str, consequence: str) -> None:
        """Log a failure and its consequence, once per outage."""
        self._trouble = trouble
        if not self._failing:
            self._failing = True
            shown = self._transport.shown
            self._log.log(
                self._level, "%s are not delivered to %s: %s; %s", self._signal.name, shown, trouble, consequence
            )


def _by_resource(batch: list[_Item]) -> list[tuple[bytes, list[bytes]]]:
    groups: dict[bytes, list[bytes]] = {}
    for item in batch:
        groups.setdefault(item.resource, []).append(item.content)
    return list(groups.items())
