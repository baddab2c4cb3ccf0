"""Proves a small real model with a reference GKR prover, so that any machine has a proof to watch.

The prover is written for readers, not for speed: see `proofstream_demo.prover` for the protocol and
`proofstream_demo.models` for the models. It needs numpy, which is loaded when a demo starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from proofstream import Command, SourceType, hookimpl
from proofstream_demo.request import MODELS, SCHEME
from proofstream_demo.source import open_demo

if TYPE_CHECKING:
    from msgspec import Struct


class DemoPlugin:
    """Declares the source ``demo:NAME`` and the command ``demo``."""

    requires = ("numpy",)

    @hookimpl
    def proofstream_sources(self) -> Iterable[SourceType]:
        """Declare the source ``demo:NAME``."""
        return [
            SourceType(
                scheme=SCHEME,
                form=f"{SCHEME}:NAME",
                summary=f"prove a small model here and now: {' or '.join(MODELS)}",
                open=open_demo,
                live=True,
                waits=False,
            )
        ]

    @hookimpl
    def proofstream_commands(self) -> Iterable[Command]:
        """Declare the command ``demo``."""
        return [
            Command(
                name="demo",
                summary="Prove a real small model and watch it",
                sources={name: f"{SCHEME}:{name}" for name in MODELS},
                artefacts_dir="proofstream-demo",
            )
        ]

    @hookimpl
    def proofstream_settings(self) -> type[Struct]:
        """Declare the keys of the table."""
        from proofstream_demo.settings import Settings

        return Settings
