"""A table of a struct is read by msgspec where that gives what pydantic would give, and else by pydantic itself."""

from __future__ import annotations

import enum
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from proofstream import Check, Prepare
from proofstream.config import HostSettings
from proofstream.config_table import TableMistake, as_pydantic, read_table
from proofstream.plain_tables import of_pydantic, read_plainly

PLUGINS = ("console", "demo", "gpu", "otel", "record", "rerun")


class Word(enum.Enum):
    """A word."""

    YES = "yes"
    NO = "no"


def split(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


def not_a(value: str) -> str:
    if value == "a":
        raise ValueError("it is a")
    return value.strip()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of every kind that there is."""

    number: Annotated[int, Meta(ge=1, lt=100)] = 8
    few: Annotated[int, Meta(gt=1, le=3)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    seconds: float = 1
    is_on: bool = False
    text: Annotated[str, Check(not_a)] = ""
    code: Annotated[str, Meta(pattern="^[0-9]+$")] = "1"
    path: Path | None = None
    word: Word = Word.YES
    mode: Literal["on", "off"] = "on"
    names: Annotated[tuple[str, ...], Prepare(split)] = ()
    short: Annotated[list[Annotated[str, Meta(min_length=1, max_length=2)]], Meta(max_length=2)] = []
    table: dict[str, str] = {}
    need: Annotated[tuple[str, ...] | None, Prepare(split)] = None


MODELS: list[type[msgspec.Struct]] = [
    Settings,
    HostSettings,
    *(importlib.import_module(f"proofstream_{name}.settings").Settings for name in PLUGINS),
]
KEYS = sorted({key for model in MODELS for key in model.__struct_fields__} | {"no_such_key"})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 200),
    st.floats(),
    st.sampled_from([0.5, 1.0, 8.0, 2.0**70]),
    st.text(max_size=3),
    st.sampled_from(
        ["", "a", " a ", "a,b", "1", "1\n", "yes", "on", "auto", "\udcff", "256MiB", "~", "~nobody/x", "-"]
    ),
    st.sampled_from([Word.NO, Path("a"), b"a", Path, object()]),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.tuples(SCALARS),
    st.dictionaries(st.text(max_size=2), SCALARS, max_size=2),
    st.sets(st.text(max_size=2), max_size=2),
)


def by_pydantic(model: type[msgspec.Struct], table: dict[str, Any]) -> msgspec.Struct | str:
    try:
        return of_pydantic(model, as_pydantic(model).model_validate(table))
    except Exception as error:  # noqa: BLE001 - a rule may raise anything, and both must agree
        return type(error).__name__


def typed(values: msgspec.Struct) -> list[object]:
    return [(type(value), value) for value in msgspec.structs.astuple(values)]


@given(model=st.sampled_from(MODELS), table=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_what_is_read_plainly_is_what_pydantic_reads(model: type[msgspec.Struct], table: dict[str, Any]) -> None:
    table = {key: value for key, value in table.items() if key in model.__struct_fields__ or key == "no_such_key"}
    read = read_plainly(model, table)
    if read is not None:
        expected = by_pydantic(model, table)
        assert not isinstance(expected, str), expected
        assert typed(read) == typed(expected)


RIGHT: list[dict[str, Any]] = [
    {"number": 1, "few": 2, "share": 1, "seconds": 2.5, "is_on": True},
    {"text": " b ", "code": "12", "path": "a/b", "word": "no", "mode": "off"},
    {"names": "a,b", "short": ["a", "bc"], "table": {"a": "b"}, "need": ["c"]},
    {"few": None, "path": Path("a"), "names": [], "word": Word.NO, "need": None},
]


@pytest.mark.parametrize("table", [{}, *RIGHT])
def test_a_right_table_is_read_plainly(table: dict[str, Any]) -> None:
    read = read_plainly(Settings, table)
    assert read is not None
    assert typed(read) == typed(of_pydantic(Settings, as_pydantic(Settings).model_validate(table)))


@pytest.mark.parametrize("model", MODELS)
def test_so_are_the_defaults(model: type[msgspec.Struct]) -> None:
    assert read_plainly(model, {}) == model() == by_pydantic(model, {})


@pytest.mark.parametrize(
    ("table", "message", "kind"),
    [
        ({"number": 0}, "x.number: input should be greater than or equal to 1", "greater_than_equal"),
        ({"nubmer": 1}, "x.nubmer: there is no such key; did you mean number?", "extra_forbidden"),
        ({"text": "a"}, "x.text: it is a", "value_error"),
        ({"short": ["a", ""]}, "x.short.1: string should have at least 1 character", "string_too_short"),
        ({"table": "a"}, "x.table: input should be a valid dictionary", "dict_type"),
    ],
)
def test_a_mistake_is_told_in_the_words_of_pydantic(table: dict[str, Any], message: str, kind: str) -> None:
    with pytest.raises(TableMistake) as caught:
        read_table(Settings, table, name="x")
    assert (str(caught.value), caught.value.kind, caught.value.key) == (message, kind, next(iter(table)))


def test_a_variable_s_text_becomes_a_number() -> None:
    assert read_table(Settings, {"number": "7", "is_on": "true"}) == Settings(number=7, is_on=True)


def test_a_right_table_loads_no_pydantic() -> None:
    script = (
        "import sys; from proofstream.config import HostSettings; from proofstream import read_table; "
        "read_table(HostSettings, {'strict': True, 'lane_capacity': 9, 'plugins': 'a, b'}); "
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
