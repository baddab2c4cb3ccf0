"""OpenTelemetry's resource, per session: describes the process that runs the prover."""

from __future__ import annotations

import os
from collections.abc import Mapping

from proofstream_otel.values import safe
from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import SCOPE

_SERVICE = "service.name"
_INSTANCE = "service.instance.id"
_ATTRIBUTES = ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME")
_DETECTORS = "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS"

MAX_KNOWN = 64
"""The most sessions whose resources are cached."""


class Resources:
    """Merges the sources of a resource's attributes.

    From weak to strong: the SDK's defaults, this host, the session's own attributes (a recording names the host that it
    was made on), OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.
    """

    def __init__(self, identity: Mapping[str, str], *, service: str | None = None) -> None:
        self.scope_version = identity.get("proofstream.version", "")
        # Once, and early: the SDK detects resources on a thread pool, and pools end with the main thread.
        self._defaults: Mapping[str, object] = {**_defaults(identity), _SERVICE: service or SCOPE}
        self._identity = identity
        self._known: dict[tuple[tuple[str, str], ...], Attributes] = {}

    def attributes_of(self, session: tuple[tuple[str, str], ...]) -> Attributes:
        """Return the resource's attributes for a session with the given attributes."""
        found = self._known.get(session)
        if found is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            found = self._known[session] = self._merge(dict(session))
        return found

    def _merge(self, session: Mapping[str, str]) -> Attributes:
        return safe.attributes({**self._defaults, **self._identity, **session, **_said()})


def _defaults(identity: Mapping[str, str]) -> Mapping[str, object]:
    """Return the SDK's defaults. It is loaded only if it may find more than what stands here."""
    if _INSTANCE not in identity or any(map(os.environ.get, (*_ATTRIBUTES, _DETECTORS))):
        from opentelemetry.sdk.resources import Resource

        return Resource.create().attributes
    from opentelemetry.sdk.version import __version__

    sdk = {"language": "python", "name": "opentelemetry", "version": __version__}
    return {**{f"telemetry.sdk.{key}": value for key, value in sdk.items()}, _INSTANCE: identity[_INSTANCE]}


def _said() -> Mapping[str, object]:
    """Return the attributes that variables name."""
    if not any(map(os.environ.get, _ATTRIBUTES)):
        return {}
    from opentelemetry.sdk.resources import OTELResourceDetector

    return OTELResourceDetector().detect().attributes
