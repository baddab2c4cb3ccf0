"""Shows a proof in 3D while it runs: the circuit, the walk over its layers, the rounds of each, in the Rerun viewer."""

from __future__ import annotations


class RerunPlugin:
    """The plugin `rerun`."""

    requires = ("rerun",)
