"""Sorts the environment's PROOFSTREAM_ variables: settings, names that are ours but no settings, and strangers.

A setting is ``PROOFSTREAM_`` and a key of the host, or ``PROOFSTREAM_TABLE_KEY``. Among tables of which one's name
begins with another's, such as ``probe`` and ``probe-deep``, the longest name wins.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from proofstream.errors import did_you_mean
from proofstream.text import safe_text

PREFIX = "PROOFSTREAM_"
HOST_TABLE = "host"
"""The table of the host's own keys, which need not be named."""

NO_SETTINGS = {
    "PROOFSTREAM_CONFIG": "names a configuration file",
    "PROOFSTREAM_LOG": "sets how much the command logs",
    "PROOFSTREAM_PICTURES": "names the folder of the pictures that tests draw",
    "PROOFSTREAM_SPOOL": "names the folder that compose.yaml shows to the Collector",
}
"""The variables of ours that are no settings, and what each does."""

_LINK = re.compile(
    rf"({PREFIX}(?:\w+?_)??)"
    r"(SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?|NAME|ENV_\w+)"
)
"""Variables that Kubernetes and Docker inject for a service or container whose name begins with ours."""
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


class Variable(NamedTuple):
    """A setting in the environment."""

    name: str
    table: str
    key: str
    value: str


def read_variables(
    environ: Mapping[str, str], *, host_keys: Collection[str], plugins: Iterable[str]
) -> tuple[list[Variable], list[str]]:
    """Return the settings, in rising precedence, and the names that are neither settings nor to be ignored.

    Args:
        environ: The environment.
        host_keys: The host's own keys, which need no table's name.
        plugins: The names of the plugins.
    """
    short: list[Variable] = []
    long: list[Variable] = []
    strangers: list[str] = []
    prefixes = _prefixes(plugins)
    for name, value in sorted(environ.items()):
        rest = name.removeprefix(PREFIX)
        if rest == name or name in NO_SETTINGS or _is_service_link(name, environ):
            continue
        prefix = next((prefix for prefix in prefixes if rest.startswith(prefix) and rest != prefix), None)
        if rest.lower() in host_keys:
            short.append(Variable(name, HOST_TABLE, rest.lower(), value))
        elif prefix is not None:
            long.append(Variable(name, prefixes[prefix], rest.removeprefix(prefix).lower(), value))
        else:
            strangers.append(name)
    return [*short, *long], strangers


def split_value(text: str, mistake: str) -> list[str] | dict[str, str] | None:
    """Return a variable's text as a list (``a,b``) or a table (``a=1,b=2``) if it must be one; else None.

    Args:
        text: The text.
        mistake: What is wrong with a mere text, in pydantic's word.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if mistake in ("list_type", "tuple_type"):
        return parts
    if mistake != "dict_type" or not all("=" in part for part in parts):
        return None
    pairs = [part.partition("=") for part in parts]
    return {key.strip(): value.strip() for key, _, value in pairs}


def about_stranger(name: str, *, keys: Mapping[str, Collection[str]]) -> str:
    """Return a line about a variable that is not a setting.

    Args:
        name: The variable.
        keys: The tables, and the keys of each as far as they are known.
    """
    near = _like(name.removeprefix(PREFIX), keys)
    begin = ", ".join(f"{PREFIX}{prefix}" for prefix in sorted(_prefixes(keys)))
    return f"{safe_text(name)} is not a setting, and has no effect{near} (settings begin with {begin})"


def _like(rest: str, keys: Mapping[str, Collection[str]]) -> str:
    """Return the end of a message that names a setting like a variable, or nothing."""
    for prefix, table in _prefixes(keys).items():
        if rest.startswith(prefix) and keys.get(table):  # the table is right, so the key is not
            near = did_you_mean(rest.removeprefix(prefix), sorted(key.upper() for key in keys[table]))
            return near.replace("mean ", f"mean {PREFIX}{prefix}")
    known = {_prefix(table) + key.upper() for table, of_table in keys.items() for key in of_table}
    known.update(key.upper() for key in keys.get(HOST_TABLE, ()))
    known.update(own.removeprefix(PREFIX) for own in NO_SETTINGS)
    known.update(_moved(rest, table) for table, of_table in keys.items() if not of_table)
    return did_you_mean(rest, sorted(known)).replace("mean ", f"mean {PREFIX}")


def variable_of(table: str, key: str) -> str:
    """Return the name of a key's variable."""
    return PREFIX + _prefix(table) + key.upper()


def _moved(rest: str, table: str) -> str:
    """Return what the variable would be if the beginning of its name meant this table."""
    prefix = _prefix(table)
    return prefix + "_".join(rest.split("_")[prefix.count("_") :])


def _prefixes(tables: Iterable[str]) -> dict[str, str]:
    """Return the tables by what their variables begin with, longest first."""
    return {_prefix(name): name for name in sorted({HOST_TABLE, *tables}, key=lambda name: (-len(name), name))}


def _prefix(table: str) -> str:
    return table.replace("-", "_").upper() + "_"


def _is_service_link(name: str, environ: Mapping[str, str]) -> bool:
    link = _LINK.fullmatch(name)
    if link is None:
        return False
    service, kind = link.groups()
    # A plugin may well have a key `port` or `name`; those of a service come with its address.
    may_be_key = kind in ("PORT", "NAME") or kind.startswith("ENV_")
    return not may_be_key or _ADDRESS.match(environ.get(f"{service}PORT", "")) is not None
