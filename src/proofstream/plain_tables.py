"""Reads configuration tables that are declared as a `msgspec.Struct`, in the way that pydantic does.

Importing pydantic and building a model with it takes longer than importing all of proofstream. So a table that is right
as it stands is read by msgspec. Any other is left to a pydantic model of the same fields, which converts what can be
converted, such as a variable's text to a number, and says what is wrong with the rest.
"""

from __future__ import annotations

import enum
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from pydantic import BaseModel

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_LARGEST = 2**63
_LIMITS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")


class Prepare(msgspec.Struct, frozen=True):
    """Says, in a field's `Annotated`, what becomes of a value as the user wrote it, before its type is checked."""

    function: Callable[[Any], Any]


class Check(msgspec.Struct, frozen=True):
    """Says, in a field's `Annotated`, what becomes of a value of the right type; a ValueError says what is wrong."""

    function: Callable[[Any], Any]


def read_plainly(model: type[_Struct], table: Mapping[str, Any]) -> _Struct | None:
    """Return a table as its struct, or None if it is not right as it stands, or may not be."""
    try:
        hints = typing.get_type_hints(model, include_extras=True) if table else {}
        if not table.keys() <= set(model.__struct_fields__) or not _is_plain(table):
            return None
        prepared = {key: _applied(Prepare, hints[key], value) for key, value in table.items()}
        made = msgspec.convert(prepared, model, dec_hook=_to_path)
        checked = {key: _applied(Check, hints[key], getattr(made, key)) for key in table}
    except Exception:  # noqa: BLE001 - whatever is wrong, the model of pydantic says it
        return None
    return msgspec.structs.replace(made, **checked)


@functools.cache
def pydantic_model(model: type[msgspec.Struct]) -> type[BaseModel]:
    """Return a model of the same fields, which forbids others."""
    from pydantic import ConfigDict, Field, create_model

    hints = typing.get_type_hints(model, include_extras=True)
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(model):
        default: dict[str, Any] = {}
        if field.default is not msgspec.NODEFAULT:
            default = {"default": field.default}
        elif field.default_factory is not msgspec.NODEFAULT:
            default = {"default_factory": field.default_factory}
        fields[field.name] = (_for_pydantic(hints[field.name]), Field(**default))
    made: type[BaseModel] = create_model(model.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields)
    made.__doc__ = model.__doc__
    return made


def of_pydantic(model: type[_Struct], read: BaseModel) -> _Struct:
    """Return the struct with the values that its pydantic model has read."""
    return model(**{name: getattr(read, name) for name in model.__struct_fields__})


def _applied(kind: type[Prepare | Check], hint: Any, value: Any) -> Any:
    for rule in getattr(hint, "__metadata__", ()):
        if isinstance(rule, kind):
            value = rule.function(value)
    return value


def _is_plain(value: object) -> bool:
    """Return whether msgspec and pydantic surely take a value for the same."""
    if isinstance(value, str):
        return value.isprintable()  # lone surrogates and line ends are not
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -_LARGEST <= value < _LARGEST
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        return all(isinstance(key, str) and _is_plain(key) and _is_plain(inner) for key, inner in table.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, cast("list[object]", value)))
    return value is None or isinstance(value, Path | enum.Enum)


def _to_path(kind: type, value: object) -> Path:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError(f"{kind} is not read plainly")


def _for_pydantic(hint: Any) -> Any:
    """Return a type with its rules in pydantic's words."""
    origin: Any
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        rules = tuple(_rule_for_pydantic(rule) for rule in hint.__metadata__)
        return Annotated[(_for_pydantic(arguments[0]), *rules)]
    if origin is None or origin is typing.Literal:
        return hint
    inner = [_for_pydantic(argument) for argument in arguments]
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(inner)]  # noqa: UP007 - of types that are only known now
    return origin[tuple(inner)]


def _rule_for_pydantic(rule: Any) -> Any:
    from pydantic import AfterValidator, BeforeValidator, Field

    if isinstance(rule, msgspec.Meta):
        said = {limit: getattr(rule, limit) for limit in _LIMITS}
        return Field(**{limit: value for limit, value in said.items() if value is not None})
    if isinstance(rule, Prepare):
        return BeforeValidator(rule.function)
    return AfterValidator(rule.function) if isinstance(rule, Check) else rule
