"""The environment: which PROOFSTREAM_ variables are settings, which are ours or a service's, which are strangers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proofstream.config import HostSettings
from proofstream.config_variables import NO_SETTINGS, about_stranger, read_variables, split_value

REPOSITORY = Path(__file__).parents[2]
PLUGINS = ("otel", "probe", "probe-deep", "state-cost")
HOST_KEYS = ("strict", "lane_capacity")


def is_text(path: Path) -> bool:
    return path.suffix in ("", ".md", ".py", ".sh", ".toml", ".yaml", ".yml") and path.is_file()


def settings_in(**environ: str) -> list[tuple[str, str, str]]:
    variables, strangers = read_variables(environ, host_keys=HOST_KEYS, plugins=PLUGINS)
    assert strangers == []
    return [(variable.table, variable.key, variable.value) for variable in variables]


@pytest.mark.parametrize(
    ("variable", "table", "key"),
    [
        ("PROOFSTREAM_STRICT", "host", "strict"),
        ("PROOFSTREAM_HOST_STRICT", "host", "strict"),
        ("PROOFSTREAM_STATE_COST_FILE", "state-cost", "file"),
        ("PROOFSTREAM_PROBE_LEVEL", "probe", "level"),
        ("PROOFSTREAM_PROBE_DEEP_LEVEL", "probe-deep", "level"),
        ("PROOFSTREAM_OTEL_PORT", "otel", "port"),
        ("PROOFSTREAM_OTEL_NAME", "otel", "name"),
    ],
)
def test_a_variable_belongs_to_the_longest_table_whose_name_it_begins_with(variable: str, table: str, key: str) -> None:
    assert settings_in(**{variable: "1"}) == [(table, key, "1")]


def test_the_table_of_the_host_wins_over_the_short_form() -> None:
    found = settings_in(PROOFSTREAM_STRICT="0", PROOFSTREAM_HOST_STRICT="1", PROOFSTREAM_LANE_CAPACITY="9")
    assert found[-1] == ("host", "strict", "1")
    assert len(found) == 3


@pytest.mark.parametrize("service", ["", "_OTEL", "_OTHER_SERVICE", "_PORT"])
def test_the_variables_of_a_service_are_no_settings(service: str) -> None:
    """As Kubernetes injects them for a service of two ports, and Docker for a container that is linked."""
    address = "tcp://10.0.0.11:4318"
    suffixes = {
        "SERVICE_HOST": "10.0.0.11",
        "SERVICE_PORT": "4318",
        "SERVICE_PORT_OTLP_HTTP": "4318",
        "PORT": address,
        "PORT_4318_TCP": address,
        "PORT_4318_TCP_PROTO": "tcp",
        "PORT_4318_TCP_PORT": "4318",
        "PORT_4318_TCP_ADDR": "10.0.0.11",
        "PORT_4317_UDP": "udp://10.0.0.11:4317",
        "NAME": "/prover/proofstream",
        "ENV_PATH": "/bin",
    }
    assert settings_in(**{f"PROOFSTREAM{service}_{suffix}": value for suffix, value in suffixes.items()}) == []


def test_what_is_neither_is_returned_by_name() -> None:
    environ = {"PROOFSTREAM_OTLP_ENDPOINT": "x", "PROOFSTREAM_OTEL_": "x", "PROOFSTREAM_PORT": "80", "PATH": "/bin"}
    environ |= dict.fromkeys(NO_SETTINGS, "x")
    variables, strangers = read_variables(environ, host_keys=HOST_KEYS, plugins=PLUGINS)
    assert (variables, strangers) == ([], ["PROOFSTREAM_OTEL_", "PROOFSTREAM_OTLP_ENDPOINT", "PROOFSTREAM_PORT"])


@pytest.mark.parametrize("keys", [("endpoint", "rounds"), ()])
def test_a_stranger_is_named_with_a_setting_that_is_like_it(keys: tuple[str, ...]) -> None:
    line = about_stranger("PROOFSTREAM_OTLP_ENDPOINT", keys={"host": HOST_KEYS, "otel": keys})
    assert line == (
        "PROOFSTREAM_OTLP_ENDPOINT is not a setting, and has no effect; did you mean PROOFSTREAM_OTEL_ENDPOINT?"
        " (settings begin with PROOFSTREAM_HOST_, PROOFSTREAM_OTEL_)"
    )


def test_a_key_is_looked_for_in_the_table_that_the_variable_names() -> None:
    keys = {"otel": ("endpoint", "headers"), "demo": ("enabled",)}
    assert "mean PROOFSTREAM_OTEL_ENDPOINT?" in about_stranger("PROOFSTREAM_OTEL_ENDPONT", keys=keys)
    assert "mean" not in about_stranger("PROOFSTREAM_OTEL_ENABLED", keys=keys)


def test_a_key_of_the_host_is_suggested_in_its_short_form() -> None:
    assert "mean PROOFSTREAM_STRICT?" in about_stranger("PROOFSTREAM_STRCT", keys={"host": HOST_KEYS})
    assert "mean" not in about_stranger("PROOFSTREAM_FAVOURITE_COLOUR", keys={"host": HOST_KEYS})


def test_a_list_and_a_table_in_a_variable_have_commas() -> None:
    assert split_value("a, b,", "list_type") == ["a", "b"]
    assert split_value("a=1, b = c=d", "dict_type") == {"a": "1", "b": "c=d"}
    assert split_value("a=1,b", "dict_type") is None
    assert split_value("a", "int_parsing") is None


def test_every_variable_that_the_repository_itself_uses_is_known() -> None:
    """A name of ours that is no setting stands in the list, or our own users would be warned of it."""
    folders = ("deploy", "docs", "examples", "plugins", "scripts", "src")
    inside = [path for folder in folders for path in (REPOSITORY / folder).rglob("*")]
    texts = [path.read_text("utf-8") for path in [*REPOSITORY.iterdir(), *inside] if is_text(path)]
    names = {name for text in texts for name in re.findall(r"\bPROOFSTREAM_[A-Z0-9_]*[A-Z0-9]\b", text)}
    plugins = ["console", "demo", "gpu", "hello", "kinds", "otel", "record", "rerun", "state-cost"]
    _, strangers = read_variables(dict.fromkeys(names, "x"), host_keys=HostSettings.__struct_fields__, plugins=plugins)
    assert set(NO_SETTINGS) <= names
    examples = {
        "PROOFSTREAM_GREETER_TIMES",
        "PROOFSTREAM_PORT",
        "PROOFSTREAM_PROBE_DEEP_LEVEL",
        "PROOFSTREAM_TABLE_KEY",
    }
    assert set(strangers) - examples == set()
