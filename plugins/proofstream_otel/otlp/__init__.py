"""Our own pipeline: values encoded as OTLP and delivered to a receiver or to files."""

from __future__ import annotations
