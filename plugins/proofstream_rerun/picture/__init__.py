"""The picture as plain values: marks, and their places, colours and words. Works without Rerun's SDK."""

from __future__ import annotations
