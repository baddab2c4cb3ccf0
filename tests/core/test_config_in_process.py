"""`open_session` and the configuration: nothing around a prover ends it, and what the call says wrongly is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from proofstream import ConfigError, PluginError, hookimpl, open_session
from proofstream.testing import RecordingPlugin
from proofstream_gpu import GpuPlugin
from proofstream_otel import OtelPlugin
from proofstream_rerun import RerunPlugin
from proofstream_state_cost import StateCostPlugin

PROVE = """
import proofstream
with proofstream.open_session(plugins=["record"], config={"record": {"path": "r.jsonl"}}) as session:
    with session.proof(num_layers=0):
        pass
"""


def proved(folder: Path, **environ: str) -> tuple[int, list[str]]:
    """Run a prover without logging; return its status and what stands on standard error."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PROOFSTREAM_", "XDG_"))}
    ran = subprocess.run(
        [sys.executable, "-c", PROVE],
        cwd=folder,
        env=clean | {"HOME": str(folder)} | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (folder / "r.jsonl").read_text().count("ProofComplete") == 1
    return ran.returncode, ran.stderr.splitlines()


def test_names_of_ours_and_links_to_services_are_passed_over(tmp_path: Path) -> None:
    links = {"PROOFSTREAM_PORT": "tcp://10.0.0.1:4318", "PROOFSTREAM_RECORD_SERVICE_HOST": "10.0.0.1"}
    assert proved(tmp_path, PROOFSTREAM_SPOOL="./spool", PROOFSTREAM_LOG="debug", **links) == (0, [])


def test_nothing_in_a_prover_s_environment_ends_it(tmp_path: Path) -> None:
    own = tmp_path / ".config" / "proofstream" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('lane_capacity = "wide"\n[elsewhere]\na = 1\n[record]\nmax_bytes = -1\n')
    environ = {
        "PROOFSTREAM_CONFIG": "nowhere.toml",
        "PROOFSTREAM_RECORD_OVERWRITE": "perhaps",
        "PROOFSTREAM_RECORD_MAX_BYTE": "1",
        "PROOFSTREAM_STRICT": "?",
        "PROOFSTREAM_OTLP_ENDPOINT": "http://h",
    }
    status, said = proved(tmp_path, **environ)
    assert status == 0
    assert all(line.startswith("proofstream: ") for line in said)
    places = ["config.toml: [elsewhere]", "config.toml: lane_capacity", "config.toml: record.max_bytes", *environ]
    assert [(place, sum(place in line for line in said)) for place in places] == [(place, 1) for place in places]
    assert len(said) == len(places)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"otel": {"endpoimt": "x"}}, "otel.endpoimt: there is no such key; did you mean endpoint?"),
        ({"otle": {"endpoint": "x"}}, "[otle] is the table of no plugin that is installed here; did you mean otel?"),
        ({"host": {"strct": True}}, "strct: there is no such key; did you mean strict?"),
        ({"otel": None}, "otel must be a table, not NoneType"),
        ({"demo": {"model": "x"}}, "demo.model: there is no such key; there are none"),
    ],
)
def test_a_mistake_in_the_call_is_an_error_at_once(config: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_session(plugins=["otel", "demo"], config=config)
    assert str(caught.value) == f"open_session(config=...): {says}"


def test_the_table_of_a_plugin_that_is_handed_over_is_known() -> None:
    plugin = RecordingPlugin("mine")
    with open_session(plugins=[plugin], config={"mine": {"a": 1}, "host": {"lane_capacity": 9}}) as session:
        session.flush()
    assert plugin.context is not None
    assert plugin.context.config == {"a": 1}


@pytest.mark.parametrize("plugin", [OtelPlugin, GpuPlugin, RerunPlugin, StateCostPlugin])
def test_what_a_constructor_was_given_is_checked_as_the_table_is(plugin: type) -> None:
    with pytest.raises(ConfigError, match=rf"^{plugin.__name__}\(...\): [a-z-]+\.nonsense: there is no such key"):
        open_session(plugins=[plugin(nonsense=1)])


class Greeter(RecordingPlugin):
    """A plugin with a table of its own."""

    class Settings(BaseModel):
        model_config = ConfigDict(extra="forbid")
        name: str = "you"

    def __init__(self, **given: object) -> None:
        super().__init__("greeter")
        self.given_settings = given
        self.asked_for_model = 0

    @hookimpl
    def proofstream_settings(self) -> type[BaseModel]:
        self.asked_for_model += 1
        return self.Settings


def test_a_plugin_is_asked_for_its_model_only_if_its_table_has_keys() -> None:
    idle, busy = Greeter(), Greeter(name="Ada")
    for plugin in (idle, busy):
        with open_session(plugins=[plugin], config={"greeter": {}}):
            pass
    assert (idle.asked_for_model, busy.asked_for_model) == (0, 1)
    assert busy.context is not None
    assert busy.context.config == {"name": "Ada"}


def test_what_is_given_must_be_a_mapping() -> None:
    plugin = Greeter()
    plugin.given_settings = "Ada"  # type: ignore[assignment]
    with pytest.raises(PluginError, match="given_settings is 'Ada'; it must be a mapping"):
        open_session(plugins=[plugin])


class Broken(RecordingPlugin):
    """A plugin whose model cannot be had."""

    @hookimpl
    def proofstream_settings(self) -> type[BaseModel]:
        raise ImportError("no pydantic of that version")


class Wrong(RecordingPlugin):
    """A plugin whose model is none."""

    @hookimpl
    def proofstream_settings(self) -> type[BaseModel]:
        return dict  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (Broken("b"), "ImportError: no pydantic of that version"),
        (Wrong("b"), "TypeError: proofstream_settings did not return a pydantic model"),
    ],
)
def test_a_table_without_a_model_is_left_to_its_plugin(
    plugin: RecordingPlugin, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_session(plugins=[plugin], config={"b": {"a": 1}}):
        pass
    assert plugin.context is not None
    assert plugin.context.config == {"a": 1}
    assert [r.getMessage() for r in caplog.records] == [f"plugin b: its table is not checked: {why}"]


def test_settings_for_a_plugin_that_the_session_does_not_use_are_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofstream.notices._said", set[str]())
    config: dict[str, dict[str, Any]] = {
        "otel": {"endpoint": "http://h"},
        "greeter": {"name": "Ada"},
        "host": {"strict": True},
    }
    with open_session(plugins=[Greeter()], config=config):
        pass
    (record,) = caplog.records
    assert "settings for plugin otel, which this session does not use" in record.getMessage()


def test_no_plugin_takes_the_host_s_name() -> None:
    with pytest.raises(PluginError, match="a plugin cannot be named 'host'"):
        open_session(plugins=[RecordingPlugin("host")])
