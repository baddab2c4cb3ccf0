"""From events and intervals to spans and log records. No SDK."""

from __future__ import annotations
