"""The settings of the demo: none, so that a key in the table `demo` is found to be a mistake."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """The table `demo`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
