"""Shows a running proof in 3D in the Rerun viewer: the circuit, the walk over its layers, and each layer's rounds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from proofstream import Artefact, Batch, Option, OptionKind, PluginContext, hookimpl

if TYPE_CHECKING:
    from msgspec import Struct

    from proofstream_rerun.outlets.fan_out import Outlets
    from proofstream_rerun.painter import Painter


class RerunPlugin:
    """The plugin `rerun`.

    Attributes:
        requires: The modules that it imports.
        needs_settings: Without connections there is nothing to do.
        tick_s: Seconds between two flushes of files and checks on viewers while no events arrive.

    Args:
        settings: Values for keys of the configuration table `[rerun]`; they take precedence over the table.
    """

    requires: ClassVar[tuple[str, ...]] = ("rerun",)
    needs_settings: ClassVar[bool] = True
    tick_s: ClassVar[float] = 0.5

    def __init__(self, **settings: Any) -> None:
        self.given_settings = settings
        self._outlets: Outlets | None = None
        self._painter: Painter | None = None

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """Offer ``--rerun CONNECTION``, which may be repeated."""
        return [
            Option(
                flag="--rerun",
                key="connections",
                kind=OptionKind.REPEATED,
                summary="Show proofs in Rerun: serve, spawn, file:PATH or HOST:PORT; may be repeated.",
                metavar="CONNECTION",
                artefact=Artefact(
                    name="proof.rrd",
                    form="file:{path}",
                    next_step="look at it in 3D: {folder}rerun {path}",
                    files=(".",),
                ),
            )
        ]

    @hookimpl
    def proofstream_settings(self) -> type[Struct]:
        """Declare the keys of the table."""
        from proofstream_rerun.settings import Settings

        return Settings

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Open the requested connections; return False, to sit the run out, if there are none."""
        from proofstream_rerun.settings import read_settings

        settings = read_settings({**context.config, **self.given_settings})
        connections = settings.parsed_connections()
        if not connections:
            return False
        from proofstream_rerun.connections import check_files, check_switch

        # Report mistakes before the SDK is imported, which takes a second.
        check_switch(os.environ)
        check_files(connections)
        from proofstream_rerun.outlets.fan_out import Outlets
        from proofstream_rerun.painter import Painter

        self._outlets = Outlets(
            settings, live=context.live, tell=context.tell, log=context.log, reserved=context.outputs
        )
        self._painter = Painter(outlets=self._outlets, settings=settings, log=context.log)
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Draw the batch; on a tick, flush files and check on viewers."""
        if self._painter is None or self._outlets is None:
            return
        if batch:
            self._painter.consume(batch)
        else:
            self._painter.tick()
        self._outlets.tick(is_idle=not batch)

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Return counters of what was drawn and written, and of what was lost on the way."""
        if self._painter is None or self._outlets is None:
            return {}
        return {**self._painter.counters(), **self._outlets.counters()}

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """End the recordings, and abandon viewers that do not answer in time."""
        try:
            if self._outlets is not None:
                self._outlets.hurry()
            if self._painter is not None:
                self._painter.close()
        finally:
            if self._outlets is not None:
                self._outlets.close(timeout_s * 0.8)  # the painter's last writes took some of the time
