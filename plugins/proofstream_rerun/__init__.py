"""Shows a proof in 3D while it runs: the circuit, the walk over its layers, the rounds of each, in the Rerun viewer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from proofstream import Artefact, Batch, Option, OptionKind, PluginContext, hookimpl

if TYPE_CHECKING:
    from proofstream_rerun.outlets.fan_out import Outlets
    from proofstream_rerun.painter import Painter


class RerunPlugin:
    """The plugin `rerun`.

    Attributes:
        requires: The modules that it needs.
        tick_s: How often files are flushed and viewers looked after while nothing happens.

    Args:
        settings: Values of the configuration table `[rerun]`, which win over it.
    """

    requires: ClassVar[tuple[str, ...]] = ("rerun",)
    tick_s: ClassVar[float] = 0.5

    def __init__(self, **settings: Any) -> None:
        self._given = settings
        self._outlets: Outlets | None = None
        self._painter: Painter | None = None

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """``--rerun CONNECTION``, any number of times."""
        return [
            Option(
                flag="--rerun",
                key="connections",
                kind=OptionKind.REPEATED,
                summary="Show proofs in Rerun: serve, spawn, file:PATH or HOST:PORT; may be repeated.",
                metavar="CONNECTION",
                artefact=Artefact(
                    name="proof.rrd", form="file:{path}", next_step="look at it in 3D: {folder}rerun {path}"
                ),
            )
        ]

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Open what was asked for; sit the run out if nothing was."""
        from proofstream_rerun.connections import check_files, check_switch
        from proofstream_rerun.settings import read_settings

        settings = read_settings({**context.config, **self._given})
        connections = settings.parsed_connections()
        if not connections:
            return False
        check_switch(os.environ)
        check_files(connections)  # importing the SDK takes a second
        from proofstream_rerun.outlets.fan_out import Outlets
        from proofstream_rerun.painter import Painter

        self._outlets = Outlets(settings, live=context.live, log=context.log)
        self._painter = Painter(outlets=self._outlets, settings=settings, log=context.log)
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Draw the batch; an idle tick looks after files and viewers."""
        if self._painter is None or self._outlets is None:
            return
        if batch:
            self._painter.consume(batch)
        else:
            self._painter.tick()
        self._outlets.tick()

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """What was drawn and written, and what did not get where it should have."""
        if self._painter is None or self._outlets is None:
            return {}
        return {**self._painter.counters(), **self._outlets.counters()}

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """End the recordings, and leave the viewers behind that do not answer."""
        try:
            if self._painter is not None:
                self._painter.close()
        finally:
            if self._outlets is not None:
                self._outlets.close(timeout_s * 0.8)
