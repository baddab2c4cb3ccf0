"""Lists the keys of the configuration: each with its value, where that comes from, its type and its meaning.

What a key means stands in one place: the section ``Attributes:`` of its model's docstring.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from proofstream.config import Config, HostSettings
from proofstream.config_table import as_pydantic
from proofstream.config_variables import HOST_TABLE, variable_of
from proofstream.errors import UsageError, did_you_mean
from proofstream.text import safe_text

if TYPE_CHECKING:
    from pydantic import BaseModel

    from proofstream.config_table import TableModel

DEFAULT = "default"
"""The origin of a value that nothing sets."""

_MASK = "***"
_SECRET = re.compile(
    r"(?:^|[_-])(?:headers?|token|secret|password|passphrase|credentials?|cookie|api[_-]?key)$", re.IGNORECASE
)
_USERINFO = re.compile(r"(?<=//)\S+(?=@)")
_INDENT = " " * 4
_ENTRY = re.compile(rf"{_INDENT}(\w+): (.*)")
_LONGEST_VALUE = 1000
_TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "table"}
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the configuration.

    Attributes:
        table: The plugin that it belongs to, or `host`.
        name: The key.
        value: Its value, which JSON can show; what is secret is masked.
        origin: Where that comes from: a file, a variable, a flag, `default`.
        type: What its value may be, in words; '' if the plugin does not say.
        default: Its default.
        meaning: What it does; '' if the plugin does not say.
    """

    table: str
    name: str
    value: Any
    origin: str
    type: str
    default: Any
    meaning: str

    @property
    def full_name(self) -> str:
        """The key as ``--set`` takes it."""
        return f"{self.table}.{self.name}"


def keys_of(config: Config, models: Mapping[str, TableModel]) -> list[Key]:
    """Return all keys of the host and of the plugins, and those that are set for plugins that declare none."""
    known: dict[str, TableModel] = {HOST_TABLE: HostSettings, **models}
    keys = [key for table, model in known.items() for key in _declared(table, as_pydantic(model), config)]
    for table, values in config.tables.items():
        if table not in known:
            keys.extend(_undeclared(table, name, value, config) for name, value in values.items())
    return keys


def defaults_of(table: str, model: TableModel) -> list[Key]:
    """Return the keys of one table, as they are where nothing is set."""
    return list(_declared(table, as_pydantic(model), Config()))


def chosen(keys: Sequence[Key], words: Iterable[str]) -> list[Key]:
    """Return the keys that the user asks for by a table, a key, or a part of one; all without a word.

    Raises:
        UsageError: A word fits no key.
    """
    found = dict.fromkeys(key.full_name for key in keys) if not words else dict[str, None]()
    for word in words:
        fitting = [key.full_name for key in keys if key.table == word] or [
            key.full_name for key in keys if word in key.full_name
        ]
        if not fitting:
            near = did_you_mean(word, sorted({name for key in keys for name in (key.table, key.name, key.full_name)}))
            raise UsageError(f"no table or key is named {word!r}{near}", hint="proofstream config lists all")
        found.update(dict.fromkeys(fitting))
    return [key for key in keys if key.full_name in found]


def for_programs(keys: Iterable[Key]) -> list[dict[str, Any]]:
    """Return each key with all that is known of it."""
    return [
        {
            "key": key.full_name,
            "value": key.value,
            "origin": key.origin,
            "default": key.default,
            "type": key.type,
            "variable": variable_of(key.table, key.name),
            "meaning": key.meaning,
        }
        for key in keys
    ]


def for_people(keys: Iterable[Key], *, columns: int) -> Iterator[str]:
    """Yield lines: each key with its value and origin, and below it its type and meaning."""
    for key in keys:
        yield f"{safe_text(key.full_name)} = {shown(key.value)}  ({safe_text(key.origin, _LONGEST_VALUE)})"
        what = ". ".join(text for text in (key.type, key.meaning) if text)
        yield from textwrap.wrap(
            safe_text(what, _LONGEST_VALUE), columns, initial_indent=_INDENT, subsequent_indent=_INDENT
        )


def shown(value: object) -> str:
    """Return a value as a configuration file may have it, or none."""
    return "none" if value is None else safe_text(json.dumps(value, ensure_ascii=False), _LONGEST_VALUE)


def markdown(keys: Iterable[Key]) -> str:
    """Return the tables of docs/configuration.md: one for each table of the configuration."""
    lines: list[str] = []
    table = ""
    for key in keys:
        if key.table != table:
            table = key.table
            lines += ["", f"### `{table}`", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        cells = (f"`{key.name}`", key.type, shown(key.default), key.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


# One key


def _declared(table: str, model: type[BaseModel], config: Config) -> Iterator[Key]:
    meanings = meanings_of(model)
    schemas, definitions = _schemas(model)
    defaults, values = _values(model, {}), _values(model, config.table(table))
    for name, field in model.model_fields.items():
        yield Key(
            table=table,
            name=name,
            value=masked(name, values.get(name)),
            origin=config.origin_of(table, name) or DEFAULT,
            type=_type_of(schemas.get(name, {}), definitions),
            default=masked(name, defaults.get(name)),
            meaning=meanings.get(name) or field.description or "",
        )


def _undeclared(table: str, name: str, value: object, config: Config) -> Key:
    origin = config.origin_of(table, name) or DEFAULT
    return Key(
        table=table, name=name, value=masked(name, _plain(value)), origin=origin, type="", default=None, meaning=""
    )


def _values(model: type[BaseModel], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a table that was found to be right, as JSON has them."""
    if not table:  # the defaults of a model with required keys, too
        fields = model.model_fields.items()
        return {
            name: None if field.is_required() else _plain(field.get_default(call_default_factory=True))
            for name, field in fields
        }
    read = model.model_validate(dict(table))
    return {name: _plain(getattr(read, name)) for name in model.model_fields}


def _plain(value: object) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Any).dump_python(value, mode="json", fallback=str)


def masked(name: str, value: object) -> object:
    """Return a value without what is secret: under a key that says so, and the user and password of a URL."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {key: masked(name if _SECRET.search(name) else key, inner) for key, inner in table.items()}
    if isinstance(value, list):
        return [masked(name, inner) for inner in cast("list[object]", value)]
    if value is not None and _SECRET.search(name):
        return _MASK
    return _USERINFO.sub(_MASK, value) if isinstance(value, str) else value


# Meanings and types


def meanings_of(model: type[BaseModel]) -> dict[str, str]:
    """Return what each key means, from the section ``Attributes:`` of the model's docstring."""
    _, _, section = (inspect.getdoc(model) or "").partition("\nAttributes:\n")
    meanings: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        entry = _ENTRY.match(line)
        if entry is not None:
            name = entry[1]
            meanings[name] = entry[2]
        elif line.startswith(_INDENT * 2) and name:
            meanings[name] += " " + line.strip()
        elif line.strip():
            break  # the section has ended
    return {name: text.replace("``", "`") for name, text in meanings.items()}


def _schemas(model: type[BaseModel]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON schema of each key, and the definitions that they refer to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of defaults that JSON cannot have
            schema = model.model_json_schema(by_alias=False)
    except Exception:  # noqa: BLE001 - not every type of a third party has a schema
        return {}, {}
    return schema.get("properties", {}), schema.get("$defs", {})


def _type_of(schema: Any, definitions: Mapping[str, Any]) -> str:
    """Return a JSON schema in words."""
    if "$ref" in schema:
        return _type_of(definitions[str(schema["$ref"]).rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        kinds = [_type_of(each, definitions) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        *words, last = [f"`{word}`" for word in schema["enum"]]
        return f"{', '.join(words)} or {last}" if words else last
    kind = str(schema.get("type", ""))
    if kind == "array":
        inner = _type_of(schema.get("items", {}), definitions)
        return f"list of {inner}" if inner else "list"
    if kind == "object":
        each = schema.get("additionalProperties")
        return f"table of {_type_of(each, definitions)}" if isinstance(each, dict) else "table"
    name = "path" if schema.get("format") == "path" else _TYPES.get(kind, kind)
    return ", ".join([name, *_limits(schema)]) if name else ""


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if "minimum" in schema and "maximum" in schema:
        yield f"{_number(schema['minimum'])} to {_number(schema['maximum'])}"
        return
    for limit, words in _LIMITS.items():
        if limit in schema:
            yield f"{words} {_number(schema[limit])}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
