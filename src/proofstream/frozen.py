"""Frozen values: a list, dict or set that is given to one is copied into a form that does not change.

A producer may reuse its list for the next event while the bus still encodes the last one, and a plugin may change a
list that it gets. Without a copy, the first would send values that it never emitted, or crash the encoder, and the
second would change what other plugins see.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

import msgspec
from msgspec.structs import force_setattr

_K = TypeVar("_K")
_V = TypeVar("_V")

_POST_INIT = "__post_init__"
_COLLECTION = re.compile(r"\b(?:list|dict|set|sequence|mapping|iterable|collection|any|object)\b", re.IGNORECASE)


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
        own: dict[str, int] = {
            name: len(_COLLECTION.findall(annotation if isinstance(annotation, str) else repr(annotation)))
            for name, annotation in inspect.get_annotations(cls).items()
            if "ClassVar" not in str(annotation)
        }
        flat = tuple(name for name, collections in own.items() if collections == 1)
        nested = tuple(name for name, collections in own.items() if collections > 1)
        if flat or nested:
            cls.__flat_fields__ = (*cls.__flat_fields__, *flat)
            cls.__nested_fields__ = (*cls.__nested_fields__, *nested)
            setattr(cls, _POST_INIT, _then_freeze(getattr(cls, _POST_INIT, None)))


def _then_freeze(before: Callable[[Frozen], None] | None) -> Callable[[Frozen], None]:
    def __post_init__(self: Frozen) -> None:  # noqa: N807 - it is one
        if before is not None:
            before(self)
        for name in self.__flat_fields__:
            value = getattr(self, name)
            frozen = _freeze(value)
            if frozen is not value:
                force_setattr(self, name, frozen)
        for name in self.__nested_fields__:
            force_setattr(self, name, _freeze_all(getattr(self, name)))

    return __post_init__


def _freeze(value: object) -> object:
    if isinstance(value, list):
        return tuple(cast("list[object]", value))
    if isinstance(value, dict):
        return FrozenDict(cast("dict[object, object]", value))
    return frozenset(cast("set[object]", value)) if isinstance(value, set) else value


def _freeze_all(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_freeze_all(item) for item in cast("list[object]", value))
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return FrozenDict({key: _freeze_all(item) for key, item in items})
    return _freeze(value)
