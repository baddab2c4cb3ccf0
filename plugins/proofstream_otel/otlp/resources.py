"""OpenTelemetry's resource, per session: describes the process that runs the prover."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from proofstream_otel.values import safe
from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import SCOPE

_SERVICE = "service.name"

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
        self._defaults: Mapping[str, object] = {**Resource.create().attributes, _SERVICE: service or SCOPE}
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
        environment = OTELResourceDetector().detect().attributes
        return safe.attributes({**self._defaults, **self._identity, **session, **environment})
