"""Circuit files: the states of a model as its author declares them."""

from __future__ import annotations
