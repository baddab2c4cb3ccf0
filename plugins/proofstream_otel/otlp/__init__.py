"""Our own pipeline: encodes values as OTLP, and delivers them to a receiver or to files."""

from __future__ import annotations
