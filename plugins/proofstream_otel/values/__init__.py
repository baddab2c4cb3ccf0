"""Telemetry as plain values: the other wings make them, and every writer takes them. No SDK."""

from __future__ import annotations
