"""Greets every proof. The smallest plugin with its own event type, flag and source: copy it to begin yours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    """A proof that began was greeted; `model_name` is the proof's."""

    greeting: str
    model_name: str | None


class HelloSource:
    """Delivers one proof of nothing, so that there is somebody to greet."""

    def __init__(self, request: SourceRequest) -> None:
        self._model_name = request.rest or "nobody"

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
        """Do nothing: it ends by itself."""


class HelloPlugin:
    """The plugin `hello`. It only acts if it is told whose greetings to send: ``--hello NAME``."""

    def __init__(self) -> None:
        self._name = ""
        self._greeted = 0

    @hookimpl
    def proofstream_event_types(self) -> Iterable[type[ProofEvent]]:
        """Make `HelloSaid` known, so that a recording of it reads back."""
        return [HelloSaid]

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """``--hello NAME`` sets the key `name` of the table `hello`."""
        summary = "Greet every proof in NAME's name."
        return [Option(flag="--hello", key="name", kind=OptionKind.VALUE, metavar="NAME", summary=summary)]

    @hookimpl
    def proofstream_sources(self) -> Iterable[SourceType]:
        """The source ``hello:MODEL``."""
        summary = "one proof of nothing, to try things out"
        return [
            SourceType(scheme="hello", form="hello:MODEL", summary=summary, open=HelloSource, live=True, waits=False)
        ]

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Check the configuration; without a name there is nothing to do."""
        unknown = sorted(context.config.keys() - {"name"})
        if unknown:
            raise ConfigError(f"hello.{unknown[0]} is not a setting", hint="settings: name")
        name = context.config.get("name", "")
        if not isinstance(name, str):
            raise ConfigError(f"hello.name: must be text, not {name!r}")
        self._name = name
        return bool(name)

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> list[HelloSaid]:
        """Greet the proofs that begin in this batch."""
        greetings = [
            HelloSaid(greeting=f"hello from {self._name}", model_name=event.model_name)
            for event in (envelope.event for envelope in batch)
            if isinstance(event, ProofStart)
        ]
        self._greeted += len(greetings)
        return greetings

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """How many proofs were greeted."""
        return {"greeted": self._greeted}
