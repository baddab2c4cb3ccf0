"""Greets every proof. The smallest plugin with its own event type, flag and source: copy it to start yours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from proofstream import (
    Batch,
    ConfigError,
    Feed,
    Option,
    OptionKind,
    PluginContext,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SourceRequest,
    SourceType,
    hookimpl,
)


class HelloSaid(ProofEvent, frozen=True, kw_only=True):
    """A proof that began was greeted.

    Attributes:
        greeting: The greeting.
        model_name: The proved model, as the producer named it.
    """

    greeting: str
    model_name: str | None


class HelloSource:
    """Delivers one empty proof, so that there is a proof to greet."""

    def __init__(self, request: SourceRequest) -> None:
        self._model_name = request.rest or "empty"

    def run(self, feed: Feed) -> None:
        """Open a session, emit the events of the proof, close the session."""
        session = feed.open_session(source=f"hello:{self._model_name}", time_source="arrival")
        session.emit(
            ProofStart(
                model_name=self._model_name, backend="hello", num_layers=0, input_shape=(0, 0), output_shape=(0, 0)
            )
        )
        session.emit(
            ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="none")
        )
        session.close()

    def stop(self) -> None:
        """Do nothing: the source ends by itself."""


class HelloPlugin:
    """The plugin `hello`. It acts only if it is given a name to greet in: ``--hello NAME``."""

    name: ClassVar[str] = "hello"  # for instances, as in tests; once installed, the entry point names the plugin

    def __init__(self) -> None:
        self._greeter = ""
        self._greeted = 0
        self._tell: Callable[[str], None]

    @hookimpl
    def proofstream_event_types(self) -> Iterable[type[ProofEvent]]:
        """Declare `HelloSaid`, so that recordings of it can be read."""
        return [HelloSaid]

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """Declare ``--hello NAME``, which sets the key `name` of the table `hello`."""
        summary = "Greet every proof in NAME's name."
        return [Option(flag="--hello", key="name", kind=OptionKind.VALUE, metavar="NAME", summary=summary)]

    @hookimpl
    def proofstream_sources(self) -> Iterable[SourceType]:
        """Declare the source ``hello:MODEL``."""
        summary = "one empty proof, to try things out"
        return [
            SourceType(scheme="hello", form="hello:MODEL", summary=summary, open=HelloSource, live=True, waits=False)
        ]

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Check the configuration; return False to sit the run out if no name is given."""
        unknown = sorted(context.config.keys() - {"name"})
        if unknown:
            raise ConfigError(f"hello.{unknown[0]} is not a setting", hint="settings: name")
        name = context.config.get("name", "")
        if not isinstance(name, str):
            raise ConfigError(f"hello.name: must be text, not {name!r}")
        self._greeter = name
        self._tell = context.tell
        return bool(name)

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> list[HelloSaid]:
        """Return a greeting for each proof that begins in this batch."""
        greetings = [
            HelloSaid(greeting=f"hello from {self._greeter}", model_name=event.model_name)
            for event in (envelope.event for envelope in batch)
            if isinstance(event, ProofStart)
        ]
        for said in greetings:
            self._tell(f"{said.greeting}, {said.model_name}")  # proofstream makes a producer's text safe to show
        self._greeted += len(greetings)
        return greetings

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Report how many proofs were greeted."""
        return {"greeted": self._greeted}
