"""Configuration: where values come from, which one wins, and how mistakes are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proofstream import ConfigError
from proofstream.config import Config, load_config, parse_set
from proofstream.trust import give_trust, place_of

PLUGINS = ("otel", "state-cost", "record")


def configured(folder: Path, environ: dict[str, str] | None = None, **more: Any) -> Config:
    return load_config(plugins=PLUGINS, folder=folder, environ=environ or {}, **more)


def trusted(folder: Path, name: str = "proofstream.toml") -> dict[str, str]:
    """Trust a file of the folder; return the environment that knows it."""
    environ = {"XDG_STATE_HOME": str(folder / "state")}
    give_trust(place_of(folder / name), (folder / name).read_bytes(), environ)
    return environ


def test_defaults(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert config.origin is None
    assert (config.host.lane_capacity, config.host.intake_capacity) == (8192, 131_072)
    assert config.table("otel") == {}


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    (tmp_path / "proofstream.toml").write_text(
        'strict = true\nclose_timeout_s = 2\n[otel]\nendpoint = "a"\nrounds = "off"\nx = 1'
    )
    config = configured(
        tmp_path,
        trusted(tmp_path)
        | {"PROOFSTREAM_OTEL_ENDPOINT": "b", "PROOFSTREAM_OTEL_X": "2", "PROOFSTREAM_CLOSE_TIMEOUT_S": "3"},
        call={"otel": {"x": 3}},
    )
    assert config.table("otel") == {"endpoint": "b", "rounds": "off", "x": 3}
    assert config.host.strict
    assert config.host.close_timeout_s == 3.0
    assert config.origin == tmp_path / "proofstream.toml"


def test_a_table_of_pyproject_is_read_without_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.proofstream]\nplugins = ["otel"]\n')
    environ = trusted(tmp_path, "pyproject.toml")
    assert configured(tmp_path, environ).host.plugins == ("otel",)
    (tmp_path / "proofstream.toml").write_text("strict = false")
    assert configured(tmp_path, trusted(tmp_path)).host.plugins is None


def test_a_named_pyproject_is_read_by_its_table(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.proofstream]\nstrict = true\n[tool.other]\nx = 1")
    assert configured(tmp_path / "nowhere", path=path).host.strict


def test_names_with_a_hyphen_have_an_underscore_in_the_environment(tmp_path: Path) -> None:
    assert configured(tmp_path, {"PROOFSTREAM_STATE_COST_FILE": "m.toml"}).table("state-cost") == {"file": "m.toml"}


def test_a_list_in_the_environment_has_commas(tmp_path: Path) -> None:
    assert configured(tmp_path, {"PROOFSTREAM_PLUGINS": "otel, record"}).host.plugins == ("otel", "record")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strct = true", r"proofstream.toml: strct: there is no such key; did you mean strict\?"),
        ("lane_capacity = 0", "lane_capacity: input should be greater than 1"),
        ('close_timeout_s = "soon"', "close_timeout_s: input should be a valid number"),
        (
            "[oetl]\nendpoint = 1",
            r"proofstream.toml: \[oetl\] is the table of no plugin that is installed here; did you mean otel\?",
        ),
        ("strict = ", "proofstream.toml: "),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_says_where(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "proofstream.toml").write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        configured(tmp_path, path=tmp_path / "proofstream.toml")
    assert "\n" not in str(caught.value)


def test_a_wrong_value_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^PROOFSTREAM_LANE_CAPACITY: lane_capacity: input should be greater than 1"):
        configured(tmp_path, {"PROOFSTREAM_LANE_CAPACITY": "0"})


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        configured(tmp_path, path=tmp_path / "none.toml")


def test_other_variables_are_left_alone(tmp_path: Path) -> None:
    configured(tmp_path, {"PATH": "/bin", "PROOFSTREAM_LOG": "debug"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("otel.x=3", 3), ("otel.x=true", True), ("otel.x=[1, 2]", [1, 2]), ("otel.x=a b", "a b"), ("otel.x=", "")],
)
def test_set_parses_valid_toml_and_keeps_other_text(text: str, value: object) -> None:
    assert parse_set(text) == ("otel", "x", value)


@pytest.mark.parametrize("text", ["otel", "otel.x", "=3", "otel=3", ".x=3"])
def test_set_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"plugin\.key=value"):
        parse_set(text)


def own_file(folder: Path, text: str) -> dict[str, str]:
    """Write the user's own file; return the environment that leads to it."""
    path = folder / "xdg" / "proofstream" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return {"XDG_CONFIG_HOME": str(folder / "xdg")}


def test_the_user_s_own_file_then_another(tmp_path: Path) -> None:
    environ = own_file(tmp_path, 'strict = true\n[otel]\nendpoint = "own"\nrounds = "off"')
    (tmp_path / "proofstream.toml").write_text('[otel]\nendpoint = "named"')
    config = configured(tmp_path, environ, path=tmp_path / "proofstream.toml")
    assert config.table("otel") == {"endpoint": "named", "rounds": "off"}
    assert (config.host.strict, config.origin) == (True, tmp_path / "proofstream.toml")
    assert configured(tmp_path, environ).table("otel") == {"endpoint": "own", "rounds": "off"}


def test_the_user_s_own_file_may_name_plugins_of_another_environment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(tmp_path, own_file(tmp_path, "[elsewhere]\na = 1\n[otel]\nx = 1"))
    assert config.tables == {"otel": {"x": 1}}
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "[elsewhere] is the table of no plugin that is installed here (left out)"
    ]


@pytest.mark.parametrize("text", ["strct = true", "lane_capacity = 0", "[otel"])
def test_a_mistake_in_the_user_s_own_file_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"xdg/proofstream/config\.toml: "):
        configured(tmp_path, own_file(tmp_path, text))


def test_an_own_file_in_a_folder_that_cannot_be_searched_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert configured(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "file")}).tables == {}


def test_a_variable_names_a_file_unless_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("strict = true")
    assert configured(tmp_path, {"PROOFSTREAM_CONFIG": str(tmp_path / "c.toml")}).host.strict
    assert not configured(tmp_path, {"PROOFSTREAM_CONFIG": ""}).host.strict
    with pytest.raises(ConfigError, match="No such file"):
        configured(tmp_path, {"PROOFSTREAM_CONFIG": str(tmp_path / "none.toml")})
