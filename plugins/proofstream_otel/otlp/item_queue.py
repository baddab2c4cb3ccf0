"""The encoded items that wait for one receiver, bounded by bytes and by number."""

from __future__ import annotations

import sys
from collections import deque

import msgspec

from proofstream_otel.environment import Batching

_OVERHEAD_BYTES = 96
"""What an item takes in memory beside its content: two objects and a place in the queue."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """One encoded span, log record or metric, the number of items that it counts as, and its encoded resource."""

    resource: bytes
    content: bytes
    count: int

    @property
    def size(self) -> int:
        """The memory that it takes, in bytes. Its resource is shared with other items."""
        return len(self.content) + _OVERHEAD_BYTES


class ItemQueue:
    """Holds items in their order. It has no lock of its own.

    Attributes:
        count: How many spans, log records or data points wait.
    """

    def __init__(self, batching: Batching) -> None:
        self._batching = batching
        self._max_items = sys.maxsize if batching.max_queue_items is None else batching.max_queue_items
        self._max_content_bytes = batching.max_queue_bytes - _OVERHEAD_BYTES
        self._items: deque[Item] = deque()
        self._bytes = 0
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def has_room(self, item: Item) -> bool:
        """Return whether the item fits. An empty queue takes any item, however large."""
        if not self._items:
            return True
        return len(self._items) < self._max_items and self._bytes + len(item.content) <= self._max_content_bytes

    def bound_hit_by(self, item: Item) -> str:
        """Return the bound that leaves no room for the item; an empty text if the item fits."""
        if self.has_room(item):
            return ""
        if len(self._items) >= self._max_items:
            return f"{self._max_items} items"
        return f"{self._batching.max_queue_bytes} bytes, otel.max_queue_bytes"

    def append_item(self, item: Item) -> None:
        """Append an item, whether or not it fits."""
        self._items.append(item)
        self._bytes += item.size
        self.count += item.count

    def drop_oldest(self, item: Item) -> int:
        """Drop the oldest items until the given one fits. Return how many spans, records or points were dropped."""
        before = self.count
        while not self.has_room(item):
            self._pop()
        return before - self.count

    def drop_all(self) -> int:
        """Drop all items. Return how many spans, log records or data points were dropped."""
        dropped, self.count, self._bytes = self.count, 0, 0
        self._items.clear()
        return dropped

    @property
    def fills_request(self) -> bool:
        """Whether the items fill a request."""
        return self._bytes >= self._batching.max_request_bytes or len(self._items) >= self._batching.max_request_items

    def take_batch(self) -> list[Item]:
        """Take the oldest items off the queue, as many as one request may hold."""
        batch: list[Item] = []
        size = 0
        while self._items and len(batch) < self._batching.max_request_items:
            size += len(self._items[0].content)
            if batch and size > self._batching.max_request_bytes:
                break
            batch.append(self._pop())
        return batch

    def _pop(self) -> Item:
        item = self._items.popleft()
        self._bytes -= item.size
        self.count -= item.count
        return item
