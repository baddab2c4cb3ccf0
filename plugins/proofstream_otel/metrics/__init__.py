"""From events and intervals to metrics. No SDK."""

from __future__ import annotations
