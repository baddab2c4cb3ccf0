"""Prints listings and descriptions on standard output, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from proofstream.command.listings import cell, for_people

_WHOLE = frozenset({"example"})
"""What is printed as it is, so that it can be copied: never wrapped."""


def print_rows(rows: Sequence[Mapping[str, str]]) -> None:
    """Print a table. Columns without any value are left out."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [key for key in (rows[0].keys() if rows else ()) if any(row[key] for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=place == 0)  # a name in two pieces cannot be copied
    for row in rows:
        table.add_row(*[Text(row[column]) for column in columns])
    Console().print(table)


def print_details(details: Mapping[str, Any]) -> None:
    """Print a description: what is one value first, then a table for each list."""
    single = {key: value for key, value in details.items() if _is_single(value) and key not in _WHOLE}
    _print_pairs({key: cell(value) for key, value in single.items() if value not in (None, "", [])})
    for title, rows in _tables(details):
        click.echo(f"\n{title}")
        print_rows(for_people(rows))
    for key in _WHOLE.intersection(details):
        if details[key]:
            click.echo(f"\n{key}\n{details[key]}")


def _is_single(value: object) -> bool:
    return not isinstance(value, dict) and not (isinstance(value, list) and value and isinstance(value[0], dict))


def _tables(details: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for key, value in details.items():
        if isinstance(value, dict):
            found += cast("dict[str, list[dict[str, Any]]]", value).items()
        elif not _is_single(value):
            found.append((key, value))
    return found


def _print_pairs(pairs: Mapping[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for key, value in pairs.items():
        table.add_row(key, Text(value))
    Console().print(table)
