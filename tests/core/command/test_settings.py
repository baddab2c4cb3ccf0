"""``proofstream config``: every key with its value, origin, type and meaning, and no secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from proofstream.command import cli
from proofstream.command.settings import for_people, keys_of, masked, meanings_of
from proofstream.config import Config


@pytest.fixture
def listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command in an empty folder, with a clean environment and the given variables."""
    for name in list(os.environ):
        if name.startswith(("PROOFSTREAM_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*words: str, **environ: str) -> tuple[int, str, str]:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        status = cli.main(["config", *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def as_rows(text: str) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in json.loads(text)}


def test_each_key_is_listed_with_the_place_that_its_value_comes_from(
    listed: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(
        'strict = true\n[otel]\nendpoint = "http://a"\nrounds = "off"\n[gpu]\npcie = false'
    )
    words = ("--json", "--config", "c.toml", "--otlp-file", "out", "--set", "host.lane_capacity=9", "--no-console")
    status, out, _ = listed(*words, PROOFSTREAM_OTEL_ENDPOINT="http://b", PROOFSTREAM_CLOSE_TIMEOUT_S="3")
    rows = as_rows(out)
    found = {key: (row["value"], row["origin"]) for key, row in rows.items() if row["origin"] != "default"}
    assert (status, found) == (
        0,
        {
            "host.strict": (True, "c.toml"),
            "host.lane_capacity": (9, "--set"),
            "host.close_timeout_s": (3.0, "PROOFSTREAM_CLOSE_TIMEOUT_S"),
            "otel.endpoint": ("http://b", "PROOFSTREAM_OTEL_ENDPOINT"),
            "otel.file": ("out", "--otlp-file"),
            "otel.rounds": ("off", "c.toml"),
            "gpu.pcie": (False, "c.toml"),
            "console.enabled": (False, "--console"),
        },
    )
    assert rows["host.lane_capacity"]["default"] == 8192
    assert rows["state-cost.kv_blocks"]["variable"] == "PROOFSTREAM_STATE_COST_KV_BLOCKS"


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("record",), ["record.path", "record.overwrite", "record.max_bytes"]),
        (("otel.file", "strict"), ["host.strict", "otel.file"]),
        (("memory",), ["host.memory_bytes", "rerun.server_memory", "rerun.viewer_memory"]),
    ],
)
def test_a_word_chooses_a_table_or_keys(
    listed: Callable[..., tuple[int, str, str]], words: tuple[str, ...], keys: list[str]
) -> None:
    assert list(as_rows(listed("--json", *words)[1])) == keys


def test_a_word_that_fits_no_key_is_a_mistake_with_one_that_is_like_it(
    listed: Callable[..., tuple[int, str, str]],
) -> None:
    status, out, err = listed("endpoimt")
    assert (status, out) == (2, "")
    assert err.startswith("proofstream: error: no table or key is named 'endpoimt'; did you mean endpoint?\n")


def test_people_get_two_lines_for_each_key(listed: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = listed("record.overwrite", "refresh_s", PROOFSTREAM_RECORD_OVERWRITE="yes")
    assert out.splitlines() == [
        "console.refresh_s = 0.2  (default)",
        "    number, 0.02 to 10. The fewest seconds between two drawings of the live view.",
        "record.overwrite = true  (PROOFSTREAM_RECORD_OVERWRITE)",
        "    true or false. True to replace an existing file. Off by default, because a recorded proof may",
        "    have taken hours.",
    ]


def test_no_secret_is_shown(listed: Callable[..., tuple[int, str, str]]) -> None:
    words = ("--set", "otel.headers={authorization = 'hunter2', x = 'hunter2'}")
    for more in ((), ("--json",)):
        status, out, err = listed(*words, *more, PROOFSTREAM_OTEL_ENDPOINT="https://ada:hunter2@h:1/p@q")
        assert status == 0
        assert "hunter2" not in out + err
        assert "https://***@" in out
    assert '"authorization": "***"' in out


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("token", "x", "***"),
        ("api_key", ["x", "y"], ["***", "***"]),
        ("headers", {"a": "x"}, {"a": "***"}),
        ("auth", {"password": "x", "user": "ada"}, {"password": "***", "user": "ada"}),
        ("speculative_tokens", 3, 3),
        ("token", None, None),
        ("urls", ["http://a:b@c", "http://c"], ["http://***@c", "http://c"]),
        ("mail", "ada@example.org", "ada@example.org"),
    ],
)
def test_what_is_secret_is_known_by_its_key_and_place(name: str, value: object, shown: object) -> None:
    assert masked(name, value) == shown


class Greeting(BaseModel):
    """The table of a third party.

    Attributes:
        name: Whom to greet, by ``name``,
            over two lines.
        volume: How loud.

    It has no more.
    """

    name: str
    volume: Annotated[float, Field(gt=0, lt=11)] = 5
    secret_word: SecretStr = SecretStr("xyzzy")
    moods: list[str] | None = Field(default=None, description="In which moods.")
    anything: Any = object


def test_the_keys_of_a_third_party_are_listed_as_far_as_it_says() -> None:
    config = Config.of({"greet": {"name": "ada"}, "silent": {"a": object(), "token": "x"}})
    keys = {key.full_name: key for key in keys_of(config, {"greet": Greeting}) if key.table != "host"}
    assert {name: (key.type, key.meaning) for name, key in keys.items()} == {
        "greet.name": ("text", "Whom to greet, by `name`, over two lines."),
        "greet.volume": ("number, above 0, below 11", "How loud."),
        "greet.secret_word": ("text", ""),
        "greet.moods": ("list of text", "In which moods."),
        "greet.anything": ("", ""),
        "silent.a": ("", ""),
        "silent.token": ("", ""),
    }
    assert "xyzzy" not in str(keys)
    assert (keys["greet.name"].value, keys["greet.name"].origin, keys["silent.token"].value) == ("ada", "config", "***")
    assert len(list(for_people(keys.values(), columns=80))) >= len(keys)


def test_meanings_end_with_their_section() -> None:
    assert list(meanings_of(Greeting)) == ["name", "volume"]
