"""The drawing of one recording: how each event changes its canvas. Works without Rerun's SDK."""

from __future__ import annotations
