"""Circuit files: the states of a model as a person declares them."""

from __future__ import annotations
