"""Telemetry as plain values: what the other wings make and what every writer takes. No SDK."""

from __future__ import annotations
