"""The catalog: which event types may be declared, and who owns them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from proofstream import events as ev
from proofstream.catalog import CORE, Catalog
from proofstream.errors import PluginError


class Beat(ev.ProofEvent, frozen=True, kw_only=True):
    count: int


class Pause(ev.ProofEvent, frozen=True, kw_only=True):
    seconds: float


Loose = msgspec.defstruct("Loose", [("count", int)], bases=(ev.ProofEvent,), frozen=False)


class lower(ev.ProofEvent, frozen=True, kw_only=True):  # noqa: N801 - the mistake under test
    count: int


class Unreadable(ev.ProofEvent, frozen=True, kw_only=True):
    what: NoSuchType  # type: ignore[name-defined]  # noqa: F821 - the mistake under test  # pyright: ignore[reportUndefinedVariable]


def named(name: str, base: type = ev.ProofEvent) -> Any:
    return type(name, (base,), {}, frozen=True)


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


def test_it_knows_all_kinds_of_the_core(catalog: Catalog) -> None:
    rows = list(catalog)

    assert [kind for kind, _, _ in rows] == sorted(t.__name__ for t in (*ev.PRODUCER_EVENTS, *ev.HOST_EVENTS))
    assert {owner for _, _, owner in rows} == {CORE}
    assert all(event_type.__name__ == kind for kind, event_type, _ in rows)
    assert "UnknownEvent" not in catalog


def test_a_declared_type_is_decoded(catalog: Catalog) -> None:
    assert catalog.decoder("Beat") is None
    catalog.add("beats", [Beat])

    decoder = catalog.decoder("Beat")
    assert decoder is not None
    assert decoder.decode(b'{"count":3}') == Beat(count=3)
    assert "Beat" in catalog
    assert ("Beat", Beat, "beats") in list(catalog)


def test_two_owners_of_a_kind_are_both_named(catalog: Catalog) -> None:
    catalog.add("beats", [Beat])

    with pytest.raises(PluginError, match="Beat is declared by both beats and drums"):
        catalog.add("drums", [Beat])


@pytest.mark.parametrize("kind", ["Log", "TraceStarted"])
def test_the_cores_kinds_cannot_be_declared_again(catalog: Catalog, kind: str) -> None:
    with pytest.raises(PluginError, match=f"{kind} is declared by both proofstream and beats"):
        catalog.add("beats", [named(kind)])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (int, "not a subclass of ProofEvent"),
        (Beat(count=1), "not a subclass of ProofEvent"),
        (None, "not a subclass of ProofEvent"),
        (ev.ProofEvent, "not a subclass of ProofEvent"),
        (ev.UnknownEvent, "not a subclass of ProofEvent"),
        (ev.SecureField, "not a subclass of ProofEvent"),
        (lower, "begin with a capital letter"),
        (named(""), "begin with a capital letter"),
        (named('A"b'), "begin with a capital letter"),
        (named("event"), "begin with a capital letter"),
        (Loose, "not frozen"),
        (Unreadable, "NoSuchType"),
        (Beat, "declared by both"),
    ],
    ids=str,
)
def test_an_invalid_declaration_leaves_the_catalog_unchanged(catalog: Catalog, wrong: Any, reason: str) -> None:
    before = list(catalog)

    with pytest.raises(PluginError, match=reason):
        catalog.add("beats", [Pause, Beat, wrong])

    assert list(catalog) == before
    assert catalog.decoder("Beat") is None
    catalog.add("beats", [Pause, Beat])
