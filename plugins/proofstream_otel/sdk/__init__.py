"""Providers of OpenTelemetry's SDK, made from the environment for proofstream alone."""

from __future__ import annotations
