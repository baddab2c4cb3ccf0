"""Writers for providers that the application owns."""

from __future__ import annotations
