"""Columns of Rerun's components straight from arrays.

Rerun's archetypes check and convert value by value, which takes longer than all else here together. What a component
is called and how its values are laid out is asked of the SDK, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import rerun as rr

pa: Any = import_module("pyarrow")  # it comes without types

Array: TypeAlias = Any
"""An array of pyarrow's."""
Type: TypeAlias = Any
"""A type of pyarrow's."""
Lengths = Sequence[int] | npt.NDArray[np.integer[Any] | np.bool_]


class Component:
    """A component: its name, and the type of one of its values."""

    def __init__(self, descriptor: rr.ComponentDescriptor, type_: Type) -> None:
        self.descriptor = descriptor
        self.type = type_

    def column(self, values: Array, lengths: Lengths | None = None) -> rr.ComponentColumn:
        """A column of these values: so many of them in each row, or one in each."""
        batch = _Batch(self.descriptor, values)
        if lengths is None:
            return rr.ComponentColumn(self.descriptor, batch, offsets=np.arange(len(values) + 1, dtype=np.int32))
        return rr.ComponentColumn(self.descriptor, batch, offsets=offsets(lengths))


class _Batch:
    """Values of a component."""

    def __init__(self, descriptor: rr.ComponentDescriptor, values: Array) -> None:
        self._descriptor = descriptor
        self._values = values

    def component_descriptor(self) -> rr.ComponentDescriptor:
        """The component's name."""
        return self._descriptor

    def as_arrow_array(self) -> Array:
        """The values."""
        return self._values


def components(example: Iterable[rr.ComponentColumn]) -> Mapping[str, Component]:
    """The components of an archetype by their short names, from columns of it that have a value each."""
    found: dict[str, Component] = {}
    for column in example:
        descriptor = column.component_descriptor()
        rows = cast("Array", column).as_arrow_array()
        found[descriptor.component.rpartition(":")[2]] = Component(descriptor, rows.type.value_type)
    return found


def own_component(archetype: str, name: str, type_: str, size: int | None = None) -> Component:
    """A component that Rerun does not know, of one number or of so many; the viewer shows its values as they are."""
    descriptor = rr.ComponentDescriptor(f"{archetype}:{name}", archetype=f"proofstream.{archetype}")
    number = pa.type_for_alias(type_)
    return Component(descriptor, number if size is None else pa.list_(number, size))


class TimeColumn:
    """When each of some rows happened, on one timeline."""

    def __init__(self, timeline: str, values: Sequence[int], type_: str) -> None:
        self._timeline = timeline
        self._times: Array = pa.array(np.array(values, np.int64)).view(pa.type_for_alias(type_))

    def timeline_name(self) -> str:
        """The timeline's name."""
        return self._timeline

    def as_arrow_array(self) -> Array:
        """The times."""
        return self._times


def offsets(lengths: Lengths) -> npt.NDArray[np.int32]:
    """Where each of some parts begins, and where the last one ends."""
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return ends


def numbers(values: npt.NDArray[np.generic]) -> Array:
    """An array of numbers, of the same type."""
    return pa.array(values)


def text(values: Sequence[str]) -> Array:
    """An array of texts."""
    return pa.array(values, pa.utf8())


def strips(type_: Type, parts: Sequence[npt.NDArray[np.float32]]) -> Array:
    """Strips of points, of arrays of shape [k, 3]."""
    points = np.concatenate(parts) if parts else np.zeros((0, 3), np.float32)
    ends = pa.array(offsets([len(part) for part in parts]))
    return pa.ListArray.from_arrays(ends, vectors(type_.value_type, points), type=type_)


def vectors(type_: Type, values: npt.NDArray[np.generic]) -> Array:
    """Vectors of an array of shape [n, k]."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), type=type_)
