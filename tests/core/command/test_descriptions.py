"""What `events KIND` and `plugins NAME` say, and what the command says of names that it does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proofstream.catalog import Catalog
from proofstream.command import cli
from proofstream.command.kinds import describe_kind
from proofstream.events import HOST_EVENTS, PRODUCER_EVENTS, ProofEvent
from proofstream.wire import LineDecoder

PLUGIN = '''
"""Counts sheep.

And says so."""
from pathlib import Path
from proofstream import *

class Sheep(ProofEvent, frozen=True, kw_only=True):
    """A sheep jumped.

    Attributes:
        name: What it is called,
            if it is.
        wool: Much of it.
    """
    name: str | None
    wool: int | msgspec.UnsetType = msgspec.UNSET
    def __post_init__(self):
        if self.name == "...":
            raise ValueError("no such sheep")

class Counter:
    """A class."""
    autoload = False
    derives = ("Sheep",)
    @hookimpl
    def proofstream_event_types(self): return [Sheep]
    @hookimpl
    def proofstream_options(self):
        return [
            Option(flag="--sheep", key="on", kind=OptionKind.SWITCH, summary="Count."),
            Option(flag="--field", key="fields", kind=OptionKind.REPEATED, summary="Where.", metavar="FIELD"),
        ]
    @hookimpl
    def proofstream_sources(self):
        return [SourceType(scheme="field", form="field:NAME", summary="a field", open=print, live=True, waits=False)]
    @hookimpl
    def proofstream_commands(self):
        option = Option(flag="--deep", key="deep", kind=OptionKind.VALUE, summary="How.", metavar="M")
        return [
            Command(name="sleep", summary="Sleep", sources={"now": "field:now"}, artefacts_dir="x"),
            Tool(name="shear", summary="Shear.", argument="FILE", options=(option,), run=print),
        ]
    @hookimpl
    def proofstream_consume(self, batch): ...
'''


@pytest.fixture(name="counter")
def fixture_counter(tmp_path: Path) -> str:
    file = tmp_path / "counter.py"
    file.write_text(PLUGIN.replace("from pathlib", "import msgspec\nfrom pathlib"))
    return f"--plugin-file={file}"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("event_type", [*PRODUCER_EVENTS, *HOST_EVENTS], ids=lambda each: each.__name__)
def test_every_field_has_a_type_and_a_meaning_and_the_example_can_be_read(event_type: type[ProofEvent]) -> None:
    catalog = Catalog()
    kind = event_type.__name__
    told = describe_kind(kind, event_type, "proofstream", catalog)
    assert [field["name"] for field in told["fields"]] == list(event_type.__struct_fields__)
    for field in (*told["fields"], *(field for part in told["parts"].values() for field in part)):
        assert field["type"]
        assert field["meaning"].endswith((".", ")")), field
    decoded = LineDecoder(catalog).decode(told["example"].encode())
    assert type(decoded.event) is event_type
    optional = {f.name for f in msgspec.structs.fields(event_type) if not f.required}
    assert {field["name"] for field in told["fields"] if field["optional"]} == optional


def test_types_are_words(capsys: pytest.CaptureFixture[str]) -> None:
    described = told(capsys, "events", "SumcheckRound")
    types = {field["name"]: (field["type"], field["optional"], field["nullable"]) for field in described["fields"]}
    assert types["round"] == ("integer", False, False)
    assert types["poly_deg2"] == ("RoundPoly", True, True)
    assert types["claim_value_approx"] == ("number", True, True)
    assert [field["type"] for field in described["parts"]["RoundPoly"]] == ["SecureField"] * 3
    assert [field["type"] for field in described["parts"]["SecureField"]] == ["integer below 2^32"] * 4
    assert described["bulk"] is True


def test_people_see_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["events", "StateProgramRun"]) == 0
    out = capsys.readouterr().out
    assert "An inference engine ran a state program." in out
    assert "duration_ns  integer  absent  How long it took, in nanoseconds." in " ".join(out.split("\n"))
    assert '\n{"StateProgramRun":{"program":"...","sequences":1}}\n' in out


def test_a_plugin_is_described(capsys: pytest.CaptureFixture[str], counter: str) -> None:
    described = told(capsys, "plugins", "counter", counter)
    assert (described["summary"], described["status"], described["used"]) == (
        "Counts sheep.",
        "available",
        "only when asked for",
    )
    assert [(row["flag"], row["key"]) for row in described["flags"]] == [
        ("--sheep/--no-sheep", "on"),
        ("--field FIELD ...", "fields"),
    ]
    assert [row["command"] for row in described["commands"]] == ["sleep [now]", "shear FILE"]
    assert [row["flag"] for row in described["commands"][1]["flags"]] == ["--deep M"]
    assert described["sources"] == [{"source": "field:NAME", "summary": "a field", "live": True, "waits": False}]
    assert described["events"] == [{"kind": "Sheep", "summary": "A sheep jumped."}]
    assert described["derives"] == ["Sheep"]
    assert cli.main(["plugins", "counter", counter]) == 0
    out = capsys.readouterr().out
    assert "--field FIELD ...   Where." in out
    assert "shear FILE" in out


def test_a_plugin_s_settings_are_those_that_the_listing_of_keys_has(capsys: pytest.CaptureFixture[str]) -> None:
    described = told(capsys, "plugins", "record")["settings"]
    listed = told(capsys, "config", "record")
    assert [(row["key"], row["type"], row["meaning"]) for row in described] == [
        (row["key"], row["type"], row["meaning"]) for row in listed
    ]
    assert {"key": "record.overwrite", "type": "true or false", "default": "false"}.items() <= described[1].items()


def test_a_plugin_s_kind_is_described_too(capsys: pytest.CaptureFixture[str], counter: str) -> None:
    described = told(capsys, "events", "Sheep", counter)
    assert [(f["name"], f["nullable"], f["optional"], f["meaning"]) for f in described["fields"]] == [
        ("name", True, False, "What it is called, if it is."),
        ("wool", False, True, "Much of it."),
    ]
    assert (described["plugin"], described["summary"]) == ("counter", "A sheep jumped.")
    assert described["example"] is None, "this kind takes other values than its types allow"


def test_a_plugin_that_cannot_be_used_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    described = told(capsys, "plugins", "demo", "--no-plugin", "demo")
    assert (described["status"], described["reason"], described["flags"]) == ("disabled", "switched off", [])


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["events", "layerend"], ["no event type is named 'layerend'", "did you mean LayerEnd?"]),
        (["plugins", "oltp"], ["no plugin is named 'oltp'", "did you mean otel?"]),
        (["plugins", "zzzz"], ["no plugin is named 'zzzz'", "there are: console, demo, gpu, otel, record, "]),
    ],
)
def test_an_unknown_name(capsys: pytest.CaptureFixture[str], words: list[str], lines: list[str]) -> None:
    assert cli.main(words) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == f"proofstream: error: {lines[0]}"
    assert hint.startswith(f"proofstream: hint: {lines[1]}")


@pytest.mark.parametrize(
    "words", [[], ["run"], ["events"], ["plugins"], ["sources"], ["trust"], ["demo"], ["state-cost"], ["completion"]]
)
def test_a_short_flag_shows_the_same_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert cli.main([*words, "--help"]) == 0
    long = capsys.readouterr().out
    assert cli.main([*words, "-h"]) == 0
    assert capsys.readouterr().out == long != ""
