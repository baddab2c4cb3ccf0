"""Who runs the prover: OpenTelemetry's resource, per session."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.sdk.resources import OTELResourceDetector
from opentelemetry.sdk.resources import Resource as SdkResource

from proofstream_otel.values import safe
from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import SCOPE

_SERVICE = "service.name"

MAX_KNOWN = 64
"""How many sessions' resources are kept at hand."""


class Resource:
    """Merges what is known of a resource.

    From weak to strong: the SDK's defaults, this host, the session's own attributes (a recording names the host that it
    was made on), and what OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say.
    """

    def __init__(self, identity: Mapping[str, str]) -> None:
        self.scope_version = identity.get("proofstream.version", "")
        self._identity = identity
        self._known: dict[tuple[tuple[str, str], ...], Attributes] = {}

    def of(self, session: tuple[tuple[str, str], ...]) -> Attributes:
        """The resource's attributes for a session with the given ones."""
        found = self._known.get(session)
        if found is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            found = self._known[session] = self._merge(dict(session))
        return found

    def _merge(self, session: Mapping[str, str]) -> Attributes:
        environment = OTELResourceDetector().detect().attributes
        defaults = {**SdkResource.create().attributes, _SERVICE: SCOPE}
        return safe.attributes({**defaults, **self._identity, **session, **environment})
