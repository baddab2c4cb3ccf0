"""The command proofstream state-cost FILE."""

from __future__ import annotations
