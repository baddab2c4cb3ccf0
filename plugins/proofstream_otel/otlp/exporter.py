"""The queue between one signal and a receiver, and the thread that empties it.

No item vanishes: it is exported, or it is counted as lost and the reason is logged, once per outage. A request is tried
again until the queue is full or the end has come, however long the receiver is away. From a full queue the oldest items
go first: a span ends, and is queued, before the span above it, so those that stay have their parents.

The SDK's batch processors do not serve here: they drop items from a full queue instead of slowing the source down,
bound the queue by items instead of bytes, and ignore the result of an export.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable

from proofstream_otel.environment import Batching
from proofstream_otel.otlp import protobuf
from proofstream_otel.otlp.item_queue import Item, ItemQueue
from proofstream_otel.otlp.resources import MAX_KNOWN, Resources
from proofstream_otel.otlp.transport import Reply, Transport
from proofstream_otel.sdk_context import untraced
from proofstream_otel.values.signals import TRACES, ExportCounts, Signal

PATIENCE_S = 4.0
"""How long a full queue may block the lane while nothing is acknowledged.

Must stay below the 5 s after which a host at its end abandons a lane that makes no progress.
"""

_LAST_PATIENCE_S = 1.0
"""The same once the lane is about to end."""

_FIRST_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 16.0
_LONGEST_ASKED_S = 60.0
"""The longest pause that a receiver may ask for. Longer ones would fill the queue because of one wrong number."""
_JITTER = 0.2
"""Spreads attempts over time, so that many exporters do not return to a recovering receiver at the same moment."""
_SHARE_OF_DEADLINE = 0.9
"""The part of the time for closing that may be spent on sending. The rest is for counting losses and for warnings."""
_LAST_ATTEMPT_S = 0.5
"""The last attempt begins this long before that part ends, however long the pause should be."""


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
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._queue = ItemQueue(batching)
        self._in_flight = 0
        self._oldest_s = 0.0
        self._acknowledged_s = 0.0
        self._overflowing = False
        # Whether items were dropped since the current request was made. Then it gives way as well, if it fails: its
        # items are older than those, which may be spans above its own, and the receiver may never answer it.
        self._is_crowded = False
        self._failing = False
        self._told: str | None = None
        self._trouble = ""
        self._backoff_s = _FIRST_BACKOFF_S
        self._hurried_s = 0.0
        self._hurry_by: float | None = None
        self._abandoned = False
        self._closing_at: float | None = None
        self._exported = self._lost = self._failures = self._failed_attempts = 0
        # Start now, because no thread can be started while the interpreter exits.
        self._thread = threading.Thread(target=self._run, name=f"proofstream-otlp-{signal.name}", daemon=True)
        self._thread.start()

    # The lane's thread

    def queue_item(
        self, resource: tuple[tuple[str, str], ...], content: bytes, *, count: int = 1, patient: bool = True
    ) -> None:
        """Queue an encoded item. Wait while the queue is full, as long as the receiver keeps accepting requests.

        After that, the oldest items are lost.

        Args:
            resource: The attributes that its session gives the resource.
            content: The encoded item.
            count: The number of items that it counts as.
            patient: Whether to wait.
        """
        if os.getpid() != self._owner or self._unwanted:
            return
        item = Item(self._resource_of(resource), content, count)
        with self._lock:
            if self._abandoned:
                self._lost += count
                return
            if not self._queue.has_room(item) and not self._wait_for_room(item, patient=patient):
                self._overflow(item)
            is_first = not self._queue
            if is_first:
                self._oldest_s = time.monotonic()
            self._queue.append_item(item)
            # Of the others between these two, the thread need not know.
            if is_first or self._queue.fills_request:
                self._changed.notify_all()

    def counters(self) -> dict[str, int]:
        """Count the items that the receiver acknowledged, the items lost, and the requests that failed for good."""
        signal = self._signal
        return {signal.exported: self._exported, signal.lost: self._lost, signal.failures: self._failures}

    @property
    def counts(self) -> ExportCounts:
        """The same for metrics, with every failed attempt."""
        return ExportCounts(self._exported, self._lost, self._failed_attempts)

    def hurry(self, timeout_s: float) -> None:
        """Block the lane for `timeout_s` more at most, and only while requests are accepted, because it is ending."""
        self._hurried_s = time.monotonic()
        self._hurry_by = self._hurried_s + timeout_s

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
            self._lost += self._in_flight + self._queue.drop_all()
            self._in_flight = 0
        # A transport is not safe for two threads. If ours is stuck in it, leave both to the end of the process.
        if not self._thread.is_alive():
            self._transport.close()
        if self._lost and self._trouble != self._told:  # how many, the run's report says
            shown = self._transport.shown
            self._log.warning("%s were not delivered to %s: %s", self._signal.name, shown, self._trouble)

    def _resource_of(self, session: tuple[tuple[str, str], ...]) -> bytes:
        found = self._encoded_resources.get(session)
        if found is None:
            if len(self._encoded_resources) >= MAX_KNOWN:
                self._encoded_resources.clear()
            found = protobuf.encode_resource(self._resources.attributes_of(session))
            self._encoded_resources[session] = found
        return found

    def _wait_for_room(self, item: Item, *, patient: bool) -> bool:
        waiting_since = time.monotonic()
        while not self._queue.has_room(item):
            # Each acknowledgement renews the patience: a slow receiver slows the source down instead of losing items.
            patient_until = max(waiting_since, self._acknowledged_s) + PATIENCE_S
            if self._hurry_by is not None:
                patient_until = min(self._hurry_by, max(self._hurried_s, self._acknowledged_s) + _LAST_PATIENCE_S)
            left = patient_until - time.monotonic()
            # Once items are being lost, wait no more until something is acknowledged, or every item would cost 4 s.
            if self._overflowing or not patient or left <= 0:
                return False
            self._changed.wait(left)
        return True

    def _overflow(self, item: Item) -> None:
        """Make room for an item at the cost of the oldest ones; warn once per outage."""
        if not self._overflowing:
            self._overflowing = True
            self._log.warning(
                "%s are being lost: %s takes nothing, and its queue is full (%s): the oldest %s go first",
                self._signal.name,
                self._transport.shown,
                self._queue.bound_hit_by(item),
                self._signal.items,
            )
        self._trouble = self._trouble or "the queue is full"
        self._lost += self._queue.drop_oldest(item)
        self._is_crowded = True

    # The exporting thread

    def _run(self) -> None:
        with untraced():
            self._send_all()

    def _send_all(self) -> None:
        while (batch := self._next_batch()) is not None:
            count = sum(item.count for item in batch)
            reply = self._deliver(protobuf.encode_request(self._scope, _by_resource(batch)), count)
            self._settle(reply, count)

    def _next_batch(self) -> list[Item] | None:
        """Wait until a request is due and take its items off the queue. Return None when no more will come."""
        with self._changed:
            while (wait_s := self._due_in()) > 0:
                self._changed.wait(wait_s)
            if not self._queue:
                return None
            batch = self._queue.take_batch()
            self._is_crowded = False
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
        if self._queue.fills_request:
            return 0.0
        return max(0.0, self._oldest_s + self._batching.delay_s - time.monotonic())

    def _deliver(self, body: bytes, count: int) -> Reply:
        """Send one request until it is accepted, refused for good, or given up: for newer items, or at the end."""
        while True:
            reply = self._transport.post(body, self._attempt_s())
            if not reply.accepted:
                self._failed_attempts += 1
            if reply.accepted or not reply.retryable:
                self._backoff_s = _FIRST_BACKOFF_S
                return reply
            self._log_trouble(reply.reason, f"{count} {self._signal.items} are tried again")
            # The pause comes first, because after giving up the next request follows at once.
            if not self._pause(self._next_pause_s(reply)) or self._is_crowded:
                return reply

    def _attempt_s(self) -> float:
        """Return how long the next attempt may take."""
        if self._closing_at is None:
            return self._batching.attempt_s
        # At least one attempt: past the deadline, a receiver that answers at once may still accept.
        return min(self._batching.attempt_s, max(0.001, self._closing_at - time.monotonic()))

    def _next_pause_s(self, reply: Reply) -> float:
        """Return the time until the next attempt: the back-off, or longer if the receiver asks for it."""
        backoff_s = self._backoff_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret
        self._backoff_s = min(2 * self._backoff_s, _LONGEST_BACKOFF_S)
        asked_s = min(reply.retry_after_s, _LONGEST_ASKED_S) * random.uniform(1, 1 + _JITTER)  # noqa: S311 - no secret
        return max(backoff_s, asked_s)

    def _pause(self, wait_s: float) -> bool:
        """Wait before the next attempt, until the last moment for one at most. Return False if that has passed."""
        with self._changed:
            if self._is_too_late:
                return False
            again_at = time.monotonic() + wait_s
            was_closing = self._closing_at is not None
            while True:
                if self._closing_at is not None:
                    if not was_closing:
                        # Ask again at once: the pauses had grown, and meanwhile the receiver may be back.
                        self._backoff_s = _FIRST_BACKOFF_S
                        return True
                    again_at = min(again_at, self._closing_at - _LAST_ATTEMPT_S)
                left = again_at - time.monotonic()
                if left <= 0:
                    return True
                self._changed.wait(left)

    @property
    def _is_too_late(self) -> bool:
        """Whether no time is left for one more attempt."""
        return self._closing_at is not None and time.monotonic() >= self._closing_at - _LAST_ATTEMPT_S

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
                self._queue.drop_all()
            else:
                self._failures += 1
                self._lost += count
                self._give_up_rest(reply)
            self._changed.notify_all()
        self._report(reply, count)

    def _give_up_rest(self, reply: Reply) -> None:
        """At the end of the run, give up the queue as well: no time is left for a receiver that is away."""
        if reply.retryable and self._is_too_late:
            self._lost += self._queue.drop_all()

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
            if self._level >= logging.WARNING:
                self._told = trouble
            shown = self._transport.shown
            self._log.log(
                self._level, "%s are not delivered to %s: %s; %s", self._signal.name, shown, trouble, consequence
            )


def _by_resource(batch: list[Item]) -> list[tuple[bytes, list[bytes]]]:
    groups: dict[bytes, list[bytes]] = {}
    for item in batch:
        groups.setdefault(item.resource, []).append(item.content)
    return list(groups.items())
