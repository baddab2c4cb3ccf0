"""Commands of plugins that work by themselves: their arguments, and the ways in which they may end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proofstream.command import cli
from proofstream.contracts import Option, OptionKind, Tool, ToolCall
from proofstream.errors import ConfigError
from proofstream.hookspecs import hookimpl
from proofstream.loader import Registry, Selection, load


class Weighing:
    """A plugin with one tool."""

    name = "weighing"

    def __init__(self, run: Callable[[ToolCall], int]) -> None:
        self._run = run

    @hookimpl
    def proofstream_commands(self) -> list[Tool]:
        heavy = Option(flag="--heavy", key="heavy", kind=OptionKind.SWITCH, summary="s")
        stone = Option(flag="--stone", key="stones", kind=OptionKind.REPEATED, summary="s")
        return [Tool(name="weigh", summary="Weigh.", argument="THING", options=(heavy, stone), run=self._run)]


@pytest.fixture
def weigh(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the command line with a plugin whose tool does the given work."""

    def run(tool: Callable[[ToolCall], int], *words: str) -> int:
        registry = load(Selection(), found=[], instances=[Weighing(tool)])

        def load_it(*_: object, **__: object) -> Registry:
            return registry

        monkeypatch.setattr(cli, "load", load_it)
        return cli.main(["weigh", *words])

    return run


def test_a_tool_gets_its_argument_its_flags_and_what_is_set(
    weigh: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[ToolCall] = []

    def tool(call: ToolCall) -> int:
        calls.append(call)
        call.write("3 kg")
        call.note("a stone was added")
        return 1

    words = ("thing", "--stone", "a", "--stone", "b", "--heavy", "--set", "weighing.unit=kg", "--json")
    assert weigh(tool, *words) == 1
    (call,) = calls
    assert (call.argument, call.as_json) == ("thing", True)
    assert call.settings == {"stones": ["a", "b"], "heavy": True, "unit": "kg"}
    assert capsys.readouterr() == ("3 kg\n", "proofstream: a stone was added\n")

    assert weigh(tool, "thing", "-q") == 1
    assert calls[-1].settings == {}
    assert capsys.readouterr() == ("3 kg\n", "")


def _mistaken(_call: ToolCall) -> int:
    raise ConfigError("the thing is not there", hint="bring it")


def _broken(_call: ToolCall) -> int:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("tool", "status", "says"),
    [
        (_mistaken, 2, ["proofstream: error: the thing is not there", "proofstream: hint: bring it"]),
        (
            _broken,
            1,
            ["proofstream: plugin weighing failed: ZeroDivisionError: division by zero (--traceback shows where)"],
        ),
    ],
)
def test_what_a_tool_raises_is_one_line(
    weigh: Callable[..., int], capsys: pytest.CaptureFixture[str], tool: Any, status: int, says: list[str]
) -> None:
    assert weigh(tool, "thing") == status
    assert capsys.readouterr().err.splitlines() == says
