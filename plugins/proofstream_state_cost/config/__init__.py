"""A model's config.json: what its layers keep, and how engines store that."""

from __future__ import annotations
