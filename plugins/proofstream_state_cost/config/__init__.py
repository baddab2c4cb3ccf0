"""A model's config.json: the states that its layers keep, and how engines store them."""

from __future__ import annotations
