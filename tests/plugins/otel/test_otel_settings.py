"""The configuration table, the flags, and the plugin before it is configured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proofstream import ConfigError, OptionKind
from proofstream.testing import InlineHost
from proofstream_otel import OtelPlugin
from proofstream_otel.settings import read
from proofstream_otel.values.span_limits import Rounds


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"endpoint": "localhost:4318"},
            "otel.endpoint: 'localhost:4318' has no scheme; write http://localhost:4318",
        ),
        ({"endpoint": "http://"}, "otel.endpoint: 'http://' has no host"),
        ({"rounds": "some"}, "otel.rounds: input should be 'span_events', 'logs', 'both', 'aggregate' or 'off'"),
        ({"metric_interval_s": 0}, "otel.metric_interval_s: input should be greater than or equal to 0.1"),
        ({"metrics": "some"}, "otel.metrics: input should be a valid boolean, unable to interpret input"),
        ({"max_round_events": -1}, "otel.max_round_events: input should be greater than or equal to 0"),
        ({"phase_metrics": "commit"}, "otel.phase_metrics: input should be a valid list"),
        ({"headers": {"a": 1}}, "otel.headers.a: input should be a valid string"),
        ({"pipeline": "theirs"}, "otel.pipeline: input should be 'auto', 'own' or 'sdk'"),
        (
            {"pipeline": "sdk", "file": "here"},
            'otel.file: only our own pipeline writes files: remove otel.pipeline = "sdk"',
        ),
    ],
)
def test_a_wrong_value_is_named_in_one_line(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        InlineHost(OtelPlugin(), table)
    assert str(raised.value) == message


def test_an_error_about_a_misspelt_key_names_the_right_ones() -> None:
    with pytest.raises(ConfigError) as raised:
        read({"endpont": "http://localhost"})
    assert str(raised.value) == "otel.endpont: there is no such key; did you mean endpoint?"


def test_values_given_to_the_class_win_over_the_table(tmp_path: Path, kit: Any) -> None:
    host = InlineHost(OtelPlugin(file=str(tmp_path / "own")), {"file": str(tmp_path / "table"), "rounds": "off"})
    host.close()
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
    assert read({"rounds": "off"}).rounds is Rounds.OFF


def test_text_from_the_environment_becomes_numbers() -> None:
    limits = read({"max_round_events": "64"}).span_limits
    assert limits.max_rounds == 64
    assert limits.max_notes == 512


def test_the_flags() -> None:
    otlp, file = OtelPlugin().proofstream_options()
    assert (otlp.flag, otlp.key, otlp.kind) == ("--otlp", "endpoint", OptionKind.OPTIONAL_VALUE)
    assert otlp.value_prefixes == ("http://", "https://", "grpc://", "grpcs://")
    assert (file.flag, file.key, file.kind) == ("--otlp-file", "file", OptionKind.VALUE)
    assert file.artefact is not None
    assert file.artefact.name == "otlp"


LIGHT = """
import sys
import proofstream_otel
print({"opentelemetry", "pydantic", "requests", "grpc"} & {name.partition(".")[0] for name in sys.modules})
"""


def test_importing_the_plugin_imports_no_sdk() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "set()"


def test_an_unconfigured_plugin_is_harmless() -> None:
    plugin = OtelPlugin()
    assert plugin.requires == ("opentelemetry.proto", "opentelemetry.sdk", "requests")
    assert plugin.proofstream_consume(()) is None
    assert plugin.proofstream_report_health() == {}
    plugin.proofstream_unconfigure(1.0)
