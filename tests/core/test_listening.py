"""Who listens: from a session's first moment on, `emit_if` makes no event that would reach nothing."""

from __future__ import annotations

import importlib
import threading
import time
from typing import ClassVar

import pytest

from proofstream import Log, LogLevel, PluginContext, Session, hookimpl, open_session
from proofstream.config import Config, HostSettings
from proofstream.host import Host
from proofstream.loader import Selection, load
from proofstream.testing import RecordingPlugin
from proofstream.waiting import wait_until
from proofstream_gpu import GpuPlugin
from proofstream_otel import OtelPlugin
from proofstream_record import RecordPlugin
from proofstream_rerun import RerunPlugin
from proofstream_state_cost import StateCostPlugin


class Late(RecordingPlugin):
    """Is configured when it is let, and then listens or not."""

    needs_settings: ClassVar[bool] = False

    def __init__(self, *, listens: bool) -> None:
        super().__init__("late")
        self.let = threading.Event()
        self._listens = listens

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        self.let.wait(10.0)
        return self._listens


class InNeed(Late):
    needs_settings = True


class OnlyPublishes(RecordingPlugin):
    only_publishes = True


def is_made_for(session: Session) -> bool:
    """Whether an event is made."""
    made: list[int] = []

    def make() -> Log:
        made.append(1)
        return Log(level=LogLevel.Info, message="made")

    session.emit_if(make)
    return bool(made)


@pytest.mark.parametrize("listens", [True, False])
def test_a_plugin_that_may_listen_counts_until_it_says_that_it_does_not(*, listens: bool) -> None:
    plugin = Late(listens=listens)
    with open_session(plugins=[plugin]) as session:
        assert is_made_for(session)
        plugin.let.set()
        assert wait_until(lambda: is_made_for(session) is listens, deadline=time.monotonic() + 10.0)


def test_a_plugin_that_needs_settings_does_not_count_without_any_unless_it_listens_all_the_same() -> None:
    plugin = InNeed(listens=True)
    with open_session(plugins=[plugin]) as session:
        assert not is_made_for(session)
        plugin.let.set()
        assert wait_until(lambda: is_made_for(session), deadline=time.monotonic() + 10.0)


def test_a_plugin_that_needs_settings_counts_with_some() -> None:
    plugin = InNeed(listens=False)
    with open_session(plugins=[plugin], config={"late": {"any": 1}}) as session:
        assert is_made_for(session)
        plugin.let.set()


@pytest.mark.parametrize("asked", [True, False])
def test_a_plugin_that_only_publishes_counts_if_the_user_asked_for_it(*, asked: bool) -> None:
    registry = load(Selection(), found=[], instances=[OnlyPublishes("publisher")])
    names = ["publisher"]
    host = Host(registry=registry, config=Config(host=HostSettings()), asked=names if asked else [], wanted=names)
    host.start()
    assert is_made_for(host.new_session(source="test")) is asked
    host.close(5.0)


def test_our_own_plugins_make_no_event_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for plugin in (OtelPlugin(), RecordPlugin(), RerunPlugin()):
        assert plugin.needs_settings
    assert GpuPlugin.only_publishes
    assert StateCostPlugin.only_publishes
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert not OtelPlugin().needs_settings


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("opentelemetry.trace", "_TRACER_PROVIDER"),
        ("opentelemetry.metrics._internal", "_METER_PROVIDER"),
        ("opentelemetry._logs._internal", "_LOGGER_PROVIDER"),
    ],
)
def test_a_provider_of_the_application_is_a_reason_to_listen(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    assert hasattr(importlib.import_module(module), name)
    monkeypatch.setattr(f"{module}.{name}", object())
    assert not OtelPlugin().needs_settings
    assert not OtelPlugin(logger_provider=object()).needs_settings
