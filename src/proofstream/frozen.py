"""Frozen values: a list, dict or set that is given to one is copied into a form that does not change.

A producer may reuse its list for the next event while the bus still encodes the last one, and a plugin may change a
list that it gets. Without a copy, the first would send values that it never emitted, or crash the encoder, and the
second would change what other plugins see.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast
from weakref import WeakSet

import msgspec
from msgspec.structs import force_setattr

_K = TypeVar("_K")
_V = TypeVar("_V")

_POST_INIT = "__post_init__"
_NAME = re.compile(r"[A-Za-z_]\w*")
_PLAIN = frozenset({"None", "bool", "float", "int", "str"})
_COLLECTION = re.compile(
    r"\b(?:(?:ordered|default)?dict|list|(?:frozen|abstract|mutable)?set|tuple|deque|(?:mutable)?(?:sequence|mapping)"
    r"|iterable|collection|bytes|bytearray)\b",
    re.IGNORECASE,
)
_ANYTHING = re.compile(r"\b(?:any|object)\b", re.IGNORECASE)
_NESTED = 2


class FrozenDict(dict[_K, _V]):
    """A dict that refuses every change. It equals a dict of the same items, and is encoded as one."""

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("an event does not change; make a dict of it to change that")

    if not TYPE_CHECKING:  # a type checker would compare them with what a dict's take and return
        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict[_K, _V]], tuple[dict[_K, _V]]]:
        return FrozenDict, (dict(self),)


class Frozen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of values whose collections are frozen when the value is made.

    Classes without such fields pay nothing: only those that have some get a ``__post_init__``.
    """

    __flat_fields__: ClassVar[tuple[str, ...]] = ()
    """The fields that hold a collection of plain values."""

    __nested_fields__: ClassVar[tuple[str, ...]] = ()
    """The fields that may hold collections of collections, which are visited item by item."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {
            name: _collections_in(cls, annotation)
            for name, annotation in cls.__annotations__.items()
            if "ClassVar" not in str(annotation)
        }
        flat = (name for name, collections in own.items() if collections == 1)
        nested = (name for name, collections in own.items() if collections >= _NESTED)
        cls.__flat_fields__ = (*_inherited(cls, "__flat_fields__"), *flat)
        cls.__nested_fields__ = (*_inherited(cls, "__nested_fields__"), *nested)
        # A subclass with a hook of its own, or with one of a mixin, would otherwise lose the freezing of what it
        # inherits.
        hook = getattr(cls, _POST_INIT, None)
        if (cls.__flat_fields__ or cls.__nested_fields__) and hook not in _freezing:
            setattr(cls, _POST_INIT, _then_freeze(hook))


_freezing: WeakSet[Callable[[Frozen], None]] = WeakSet()
"""The hooks that freeze; each does so for all fields of the value's own class."""


def _inherited(cls: type[Frozen], fields: str) -> dict[str, None]:
    return dict.fromkeys(name for base in cls.__mro__[1:] for name in vars(base).get(fields, ()))


def _collections_in(cls: type[Frozen], annotation: object) -> int:
    """Return how many collections an annotation names, one inside the other; `_NESTED` if that cannot be known."""
    text = annotation if isinstance(annotation, str) else repr(annotation)
    if isinstance(annotation, str) and not _COLLECTION.search(text) and not _PLAIN.issuperset(_NAME.findall(text)):
        # An alias, such as `Values = list[float]`, does not show what it stands for.
        try:
            text = repr(eval(annotation, dict(vars(sys.modules[cls.__module__]))))  # noqa: S307 - the class's own code
        except Exception:  # noqa: BLE001 - a name that exists for type checkers only, for example
            return _NESTED
    return _NESTED if _ANYTHING.search(text) else len(_COLLECTION.findall(text))


def _then_freeze(before: Callable[[Frozen], None] | None) -> Callable[[Frozen], None]:
    def __post_init__(self: Frozen) -> None:  # noqa: N807 - it is one
        if before is not None:
            before(self)
        for name in self.__flat_fields__:
            # The two that almost every event has, before what is right for any value.
            given = getattr(self, name)
            if type(given) is list:
                force_setattr(self, name, tuple(cast("list[object]", given)))
            elif type(given) is not tuple:
                _replace(self, name, _freeze)
        for name in self.__nested_fields__:
            _replace(self, name, _freeze_all)

    _freezing.add(__post_init__)
    return __post_init__


def _replace(value: Frozen, name: str, freeze: Callable[[object], object]) -> None:
    given = getattr(value, name)
    try:
        frozen = freeze(given)
    except Exception:  # noqa: BLE001 - a list that contains itself, or one whose iterator raises: the bus refuses the event
        return
    if frozen is not given:
        force_setattr(value, name, frozen)


def _freeze(value: object) -> object:
    if isinstance(value, FrozenDict):
        return cast("object", value)
    if isinstance(value, list):
        return tuple(cast("list[object]", value))
    if isinstance(value, dict):
        return FrozenDict(cast("dict[object, object]", value))
    if isinstance(value, set):
        return frozenset(cast("set[object]", value))
    return bytes(value) if isinstance(value, bytearray) else value


def _freeze_all(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_freeze_all(item) for item in cast("list[object]", value))
    if isinstance(value, dict):
        items = list(cast("dict[object, object]", value).items())  # at once: another thread may be changing it
        return FrozenDict({key: _freeze_all(item) for key, item in items})
    return _freeze(value)
