"""Configuration: where values come from, which one wins, and how mistakes are reported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

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


# The host's own table


@pytest.mark.parametrize("text", ["lane_capacity = 9", "lane_capacity = 8\n[host]\nlane_capacity = 9"])
def test_the_host_has_a_table_which_wins_over_the_keys_at_the_top(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    config = configured(tmp_path, path=tmp_path / "c.toml")
    assert (config.host.lane_capacity, config.tables) == (9, {})
    assert config.origin_of("host", "lane_capacity") == str(tmp_path / "c.toml")


def test_variables_and_the_call_set_keys_of_the_host_s_table(tmp_path: Path) -> None:
    environ = {"PROOFSTREAM_HOST_LANE_CAPACITY": "7", "PROOFSTREAM_LANE_CAPACITY": "6"}
    assert configured(tmp_path, environ).host.lane_capacity == 7
    assert configured(tmp_path, environ, call={"host": {"lane_capacity": 8}}).host.lane_capacity == 8
    with pytest.raises(ConfigError, match=r"^open_session\(config=...\): host must be a table, not bool"):
        configured(tmp_path, call={"host": True})


# Whose mistake ends what


class Settings(BaseModel):
    """A plugin's table."""

    model_config = ConfigDict(extra="forbid")

    endpoint: str = ""
    rounds: Literal["on", "off"] = "on"
    names: list[str] = []
    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def _in_order(self) -> Settings:
        if self.low > self.high:
            raise ValueError("Low is above high")
        return self


class Plugins:
    """Plugins of which one declares its table."""

    def __init__(self, **given: object) -> None:
        self._given = given

    def settings_models(self, names: Collection[str] | None = None) -> dict[str, type[BaseModel]]:
        return {"otel": Settings} if names is None or "otel" in names else {}

    def settings_given(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        return {"otel": ("OtelPlugin(...)", self._given)}


def settled(folder: Path, environ: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    config = configured(folder, environ, **more)
    config.settle(Plugins())
    return config.table("otel")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Returns the warnings so far, as in a process that has said nothing yet."""
    monkeypatch.setattr("proofstream.notices._said", set[str]())
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_wrong_value_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[otel]\nrounds = "of"')
    with pytest.raises(ConfigError, match=r"^.*/c\.toml: otel\.rounds: input should be 'on' or 'off'"):
        settled(tmp_path, path=tmp_path / "c.toml")
    with pytest.raises(ConfigError, match=r"^PROOFSTREAM_OTEL_ROUNDS: otel\.rounds: "):
        settled(tmp_path, {"PROOFSTREAM_OTEL_ROUNDS": "of"})
    with pytest.raises(ConfigError, match=r"^open_session\(config=...\): otel\.rounds: "):
        settled(tmp_path, call={"otel": {"rounds": "of"}})


def test_a_later_value_mends_an_earlier_one(tmp_path: Path) -> None:
    environ = {"PROOFSTREAM_OTEL_ROUNDS": "of"}
    assert settled(tmp_path, environ, call={"otel": {"rounds": "off"}}) == {"rounds": "off"}


def test_an_unknown_key_in_a_variable_is_a_warning_with_the_setting_that_is_like_it(
    tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    assert settled(tmp_path, {"PROOFSTREAM_OTEL_ENDPOIMT": "x", "PROOFSTREAM_STRCT": "1"}) == {}
    begin = "(settings begin with PROOFSTREAM_HOST_, PROOFSTREAM_OTEL_, PROOFSTREAM_RECORD_, PROOFSTREAM_STATE_COST_)"
    assert said() == [
        f"PROOFSTREAM_{wrong} is not a setting, and has no effect; did you mean PROOFSTREAM_{right}? {begin}"
        for wrong, right in (("STRCT", "STRICT"), ("OTEL_ENDPOIMT", "OTEL_ENDPOINT"))
    ]


def test_where_files_and_variables_may_be_wrong_the_value_before_counts(
    tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    (tmp_path / "proofstream.toml").write_text(
        'strct = true\n[otel]\nrounds = "off"\nendpoimt = 1\n[oetl]\na = 1\n[host]\nlane_capacity = 9'
    )
    environ = trusted(tmp_path) | {"PROOFSTREAM_OTEL_ROUNDS": "of", "PROOFSTREAM_LANE_CAPACITY": "0"}
    for _ in range(2):
        config = configured(tmp_path, environ, lenient=True)
        config.settle(Plugins())
        assert (config.table("otel"), config.host.lane_capacity) == ({"rounds": "off"}, 9)
    file = tmp_path / "proofstream.toml"
    assert sorted(said()) == [
        f"{file}: [oetl] is the table of no plugin that is installed here; did you mean otel? (left out)",
        f"{file}: otel.endpoimt: there is no such key; did you mean endpoint? (left out)",
        f"{file}: strct: there is no such key; did you mean strict? (left out)",
        "PROOFSTREAM_LANE_CAPACITY: lane_capacity: input should be greater than 1 (left out)",
        "PROOFSTREAM_OTEL_ROUNDS: otel.rounds: input should be 'on' or 'off' (left out)",
    ]


def test_the_call_s_own_mistakes_are_never_left_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"otel\.endpoimt: there is no such key; did you mean endpoint\?"):
        settled(tmp_path, call={"otel": {"endpoimt": "x"}}, lenient=True)
    with pytest.raises(ConfigError, match=r"\[oetl\] is the table of no plugin") as caught:
        settled(tmp_path, call={"oetl": {}}, lenient=True)
    assert caught.value.hint == "plugins: otel, record, state-cost"
    with pytest.raises(ConfigError, match=r"^OtelPlugin\(...\): otel.rounds: input should be"):
        configured(tmp_path, lenient=True).settle(Plugins(rounds="of"))


def test_settings_that_do_not_fit_together_are_left_out_together(tmp_path: Path, said: Callable[[], list[str]]) -> None:
    environ = {"PROOFSTREAM_OTEL_LOW": "5", "PROOFSTREAM_OTEL_HIGH": "3"}
    with pytest.raises(ConfigError, match=r"^PROOFSTREAM_OTEL_HIGH, PROOFSTREAM_OTEL_LOW: otel: low is above high"):
        settled(tmp_path, environ)
    assert settled(tmp_path, environ, lenient=True) == {}
    assert len(said()) == 2
    assert settled(tmp_path, environ, call={"otel": {"high": 7}}) == {"low": "5", "high": 7}
    with pytest.raises(ConfigError, match="low is above high"):
        settled(tmp_path, call={"otel": {"high": 3, "low": 5}}, lenient=True)


def test_a_variable_s_text_becomes_the_list_that_its_key_has(tmp_path: Path) -> None:
    assert settled(tmp_path, {"PROOFSTREAM_OTEL_NAMES": "a, b"}) == {"names": ["a", "b"]}


@pytest.mark.parametrize("text", [None, "[otel"])
def test_a_file_that_cannot_be_read_is_left_out(
    tmp_path: Path, said: Callable[[], list[str]], text: str | None
) -> None:
    path = tmp_path / "c.toml"
    if text is not None:
        path.write_text(text)
    assert settled(tmp_path, {"PROOFSTREAM_CONFIG": str(path)} | own_file(tmp_path, "strict ="), lenient=True) == {}
    own, named = said()
    assert own.endswith(" (this file is not used)")
    assert named.startswith(f"PROOFSTREAM_CONFIG: {path}: ")


def test_a_plugin_that_is_to_be_used_and_does_not_exist_is_named(tmp_path: Path, said: Callable[[], list[str]]) -> None:
    assert configured(tmp_path, {"PROOFSTREAM_PLUGINS": "otle,record"}).host.plugins == ("otle", "record")
    assert said() == ["PROOFSTREAM_PLUGINS: no plugin is named otle; did you mean otel?"]
