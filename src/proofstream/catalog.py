"""The catalog: every event type that this host knows, and the decoder of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from proofstream.errors import PluginError
from proofstream.events import HOST_EVENTS, PRODUCER_EVENTS, ProofEvent, UnknownEvent

CORE = "proofstream"
"""The owner of the event types that come with the core."""

_NOT_DECLARABLE: tuple[object, ...] = (ProofEvent, UnknownEvent)


class Catalog:
    """Event types by kind. Types are added while plugins are loaded; after that the catalog is only read."""

    def __init__(self) -> None:
        self._types: dict[str, type[ProofEvent]] = {kind.__name__: kind for kind in (*PRODUCER_EVENTS, *HOST_EVENTS)}
        self._owners: dict[str, str] = dict.fromkeys(self._types, CORE)
        # A plugin's decoders are made when it declares its types, as they may be wrong. The core's are made when they
        # are used: all of them take longer than many a call of the command.
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}

    def add(self, owner: str, event_types: Iterable[type[ProofEvent]]) -> None:
        """Add the event types of one owner; all of them or, if one is not acceptable, none.

        Raises:
            PluginError: A type is not a frozen subclass of ProofEvent, its name does not begin with a capital letter,
                its kind is already declared, or a field's type has no JSON form.
        """
        accepted: dict[str, type[ProofEvent]] = {}
        decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        for event_type in event_types:
            checked = _checked(owner, event_type)
            kind = checked.__name__
            if kind in accepted or kind in self._owners:
                raise PluginError(f"event type {kind} is declared by both {self._owners.get(kind, owner)} and {owner}")
            accepted[kind] = checked
            decoders[kind] = _decoder(owner, checked)
        self._types.update(accepted)
        self._decoders.update(decoders)
        self._owners.update(dict.fromkeys(accepted, owner))

    def __iter__(self) -> Iterator[tuple[str, type[ProofEvent], str]]:
        """Iterate over kind, type and owner of each event type, sorted by kind."""
        return iter([(kind, self._types[kind], self._owners[kind]) for kind in sorted(self._types)])

    def __contains__(self, kind: object) -> bool:
        return kind in self._types

    def event_type(self, kind: str) -> type[ProofEvent] | None:
        """Return the type of a kind, or None if the kind is not declared."""
        return self._types.get(kind)

    def decoder(self, kind: str) -> msgspec.json.Decoder[Any] | None:
        """Return the decoder of an event's body, or None if the kind is not declared."""
        decoder = self._decoders.get(kind)
        if decoder is None and kind in self._types:
            decoder = self._decoders[kind] = msgspec.json.Decoder(self._types[kind])
        return decoder


def _checked(owner: str, event_type: object) -> type[ProofEvent]:
    """Return the event type if it may be declared."""
    if not (isinstance(event_type, type) and issubclass(event_type, ProofEvent)) or event_type in _NOT_DECLARABLE:
        raise PluginError(f"{owner} declares {event_type!r} as an event type, which is not a subclass of ProofEvent")
    kind = event_type.__name__
    if not (kind.isidentifier() and kind[0].isupper()):
        raise PluginError(f"{owner} declares event type {kind!r}; kinds are names that begin with a capital letter")
    if not event_type.__struct_config__.frozen:
        raise PluginError(f"{owner} declares event type {kind}, which is not frozen; facts do not change")
    return event_type


def _decoder(owner: str, event_type: type[ProofEvent]) -> msgspec.json.Decoder[Any]:
    try:
        return msgspec.json.Decoder(event_type)
    except Exception as error:
        # Resolving a third party's annotations runs its code, which may raise anything.
        kind = event_type.__name__
        raise PluginError(f"{owner} declares event type {kind}, which cannot be read: {error}") from error
