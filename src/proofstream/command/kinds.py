"""Describes one kind of event: its fields, their types and meanings, and how a line of it looks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect as types

from proofstream.catalog import Catalog
from proofstream.errors import WireError
from proofstream.events import ProofEvent, is_bulk
from proofstream.wire import LineDecoder

_ATTRIBUTES = re.compile(r"^Attributes:$", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+):\s*(.*(?:\n(?: {5,}.*)?$)*)", re.MULTILINE)
_LARGEST_U32 = 2**32 - 1


def describe_kind(kind: str, event_type: type[ProofEvent], owner: str, catalog: Catalog) -> dict[str, Any]:
    """Return all that is to be said of one kind of event, as JSON can hold it.

    Args:
        kind: Its name.
        event_type: Its class.
        owner: The plugin that declares it, or the core.
        catalog: All kinds, which an example has to agree with.
    """
    struct = _struct_of(event_type)
    parts = {part.cls.__name__: _fields(part) for part in _parts(struct)}
    return {
        "kind": kind,
        "summary": _without_attributes(event_type),
        "plugin": owner,
        "bulk": is_bulk(event_type),
        "fields": _fields(struct),
        "parts": parts,
        "example": _example_line(kind, struct, catalog),
    }


def _struct_of(event_type: type[msgspec.Struct]) -> types.StructType:
    found = types.type_info(event_type)
    assert isinstance(found, types.StructType)
    return found


def _fields(struct: types.StructType) -> list[dict[str, Any]]:
    meanings = _meanings(struct.cls)
    return [
        {
            "name": field.encode_name,
            "type": _words(field.type),
            "optional": not field.required,
            "nullable": _is_nullable(field.type),
            "meaning": meanings.get(field.name, ""),
        }
        for field in struct.fields
    ]


def _without_attributes(cls: type) -> str:
    text = _ATTRIBUTES.split(inspect.cleandoc(cls.__doc__ or ""))[0]
    return " ".join(text.split())


def _meanings(cls: type) -> Mapping[str, str]:
    """Return what the docstrings of a class and its bases say of each field."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, *attributes = _ATTRIBUTES.split(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
        for name, text in _ENTRY.findall("".join(attributes)):
            found[name] = " ".join(text.split())
    return found


def _parts(struct: types.StructType) -> Iterator[types.StructType]:
    """Yield each struct inside another one, once."""
    seen = {struct.cls}
    waiting = [field.type for field in struct.fields]
    while waiting:
        inner = waiting.pop(0)
        if isinstance(inner, types.StructType):
            if inner.cls in seen:
                continue
            seen.add(inner.cls)
            yield inner
        waiting += _inside(inner)


def _inside(a_type: types.Type) -> list[types.Type]:
    match a_type:
        case types.StructType():
            return [field.type for field in a_type.fields]
        case types.UnionType():
            return list(a_type.types)
        case types.TupleType():
            return list(a_type.item_types)
        case types.CollectionType():
            return [a_type.item_type]
        case types.DictType():
            return [a_type.value_type]
        case _:
            return []


def _is_nullable(a_type: types.Type) -> bool:
    return isinstance(a_type, types.NoneType) or (
        isinstance(a_type, types.UnionType) and any(isinstance(each, types.NoneType) for each in a_type.types)
    )


_NAMES: dict[type[types.Type], str] = {
    types.BoolType: "true or false",
    types.FloatType: "number",
    types.StrType: "text",
    types.AnyType: "anything",
    types.NoneType: "null",
}


_EXAMPLES: dict[type[types.Type], Any] = {
    types.BoolType: True,
    types.FloatType: 0.5,
    types.IntType: 1,
    types.StrType: "...",
}


def _words(a_type: types.Type) -> str:
    """Return a type in words, without the null that it may allow."""
    match a_type:
        case types.IntType():
            return "integer below 2^32" if a_type.le == _LARGEST_U32 else "integer"
        case types.EnumType():
            return " | ".join(str(member.value) for member in a_type.cls)
        case types.StructType():
            return a_type.cls.__name__
        case types.UnionType():
            return " or ".join(_words(each) for each in a_type.types if not isinstance(each, types.NoneType))
        case types.TupleType():
            return f"[{', '.join(map(_words, a_type.item_types))}]"
        case types.CollectionType():
            return f"list of {_words(a_type.item_type)}"
        case types.DictType():
            return f"{_words(a_type.value_type)}, by name"
        case _:
            return _NAMES.get(type(a_type), type(a_type).__name__.removesuffix("Type").lower())


def _example_line(kind: str, struct: types.StructType, catalog: Catalog) -> str | None:
    """Return a line with the required fields; None if the kind wants values that its types do not tell."""
    line = msgspec.json.encode({kind: _example(struct)})
    try:
        LineDecoder(catalog).decode(line)
    except WireError:
        return None
    return line.decode()


def _example(a_type: types.Type) -> Any:
    match a_type:
        case types.StructType():
            return {field.encode_name: _example(field.type) for field in a_type.fields if field.required}
        case types.UnionType():
            return _example(a_type.types[0])
        case types.TupleType():
            return [_example(each) for each in a_type.item_types]
        case types.CollectionType():
            return [_example(a_type.item_type)]
        case types.DictType():
            return {"...": _example(a_type.value_type)}
        case types.EnumType():
            return next(iter(a_type.cls)).value
        case _:
            return _EXAMPLES.get(type(a_type))
