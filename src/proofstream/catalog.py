"""The catalog: every event type that this host knows, and the decoder of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from proofstream.errors import PluginError
from proofstream.events import HOST_EVENTS, PRODUCER_EVENTS, ProofEvent, UnknownEvent

CORE = "proofstream"
"""The owner of the event types that come with the core."""


class Catalog:
    """Event types by kind. Adding is done while plugins are loaded; after that it is only read."""

    def __init__(self) -> None:
        self._types: dict[str, type[ProofEvent]] = {}
        self._owners: dict[str, str] = {}
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        self.add(CORE, (*PRODUCER_EVENTS, *HOST_EVENTS))

    def add(self, owner: str, event_types: Iterable[type[ProofEvent]]) -> None:
        """Add the event types of one owner; all of them or, if one is not acceptable, none.

        Raises:
            PluginError: A type is not a ProofEvent, its name is not written as kinds are, or somebody declared the kind.
        """
        accepted: dict[str, type[ProofEvent]] = {}
        for event_type in event_types:
            kind = self._check(owner, event_type, accepted)
            accepted[kind] = event_type
        for kind, event_type in accepted.items():
            self._types[kind] = event_type
            self._owners[kind] = owner
            self._decoders[kind] = msgspec.json.Decoder(event_type)

    def _check(self, owner: str, event_type: object, accepted: dict[str, type[ProofEvent]]) -> str:
        if not (isinstance(event_type, type) and issubclass(event_type, ProofEvent)) or event_type is UnknownEvent:
            raise PluginError(f"{owner} declares {event_type!r} as an event type, which is not a subclass of ProofEvent")
        kind = event_type.__name__
        if not kind[0].isupper():
            raise PluginError(f"{owner} declares event type {kind!r}; kinds begin with a capital letter")
        if kind in accepted or kind in self._owners:
            raise PluginError(f"event type {kind} is declared by both {self._owners.get(kind, owner)} and {owner}")
        return kind

    def __iter__(self) -> Iterator[tuple[str, type[ProofEvent], str]]:
        """Kind, type and owner of each event type, by kind."""
        return iter([(kind, self._types[kind], self._owners[kind]) for kind in sorted(self._types)])

    def __contains__(self, kind: object) -> bool:
        return kind in self._types

    def decoder(self, kind: str) -> msgspec.json.Decoder[Any] | None:
        """The decoder of an event's body, or None if nobody declared the kind."""
        return self._decoders.get(kind)
