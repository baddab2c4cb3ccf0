"""Columns of Rerun's components straight from arrays.

Rerun's archetypes check and convert value by value, which takes longer than all else here together. What a component
is called and how its values are laid out is asked of the SDK, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import rerun as rr

pa: Any = import_module("pyarrow")  # it comes without types

Array: TypeAlias = Any
"""An array of pyarrow's."""
Content: TypeAlias = Sequence[rr.DescribedComponentBatch]
"""Components of an entity."""
Type: TypeAlias = Any
"""A type of pyarrow's."""
Lengths = Sequence[int] | npt.NDArray[np.integer[Any] | np.bool_]


class Component:
    """A component: its name, and the type of one of its values."""

    def __init__(self, descriptor: rr.ComponentDescriptor, type_: Type) -> None:
        self.descriptor = descriptor
        self.type = type_

    def batch(self, values: Array) -> rr.DescribedComponentBatch:
        """These values at once."""
        return rr.DescribedComponentBatch(_Batch(values), self.descriptor)

    def column(self, values: Array, lengths: Lengths | None = None) -> rr.ComponentColumn:
        """A column of these values: so many of them in each row, or one in each."""
        ends = _ones(len(values)) if lengths is None else pa.array(offsets(lengths))
        return _Column(self.descriptor, pa.ListArray.from_arrays(ends, values))


class _Batch:
    """Values of a component."""

    def __init__(self, values: Array) -> None:
        self._values = values

    def as_arrow_array(self) -> Array:
        """The values."""
        return self._values


class _Column(rr.ComponentColumn):
    """A column of which the rows are made already."""

    def __init__(self, descriptor: rr.ComponentDescriptor, rows: Array) -> None:
        self._descriptor = descriptor
        self._rows = rows

    def component_descriptor(self) -> rr.ComponentDescriptor:
        """The component's name."""
        return self._descriptor

    def as_arrow_array(self) -> Array:
        """The rows."""
        return self._rows


def _arrow(batch: rr.DescribedComponentBatch) -> Array:
    return cast("Array", batch).as_arrow_array()


def components(example: rr.AsComponents) -> Mapping[str, Component]:
    """The components of an archetype by their short names, from one that has a value of each."""
    found: dict[str, Component] = {}
    for batch in example.as_component_batches():
        descriptor = batch.component_descriptor()
        values = _arrow(batch)
        found[descriptor.component.rpartition(":")[2]] = Component(descriptor, values.type)
    return found


def made(content: rr.AsComponents) -> Content:
    """An archetype's components as arrays, so that they need not be made again each time that they are sent."""
    return [
        Component(batch.component_descriptor(), None).batch(_arrow(batch)) for batch in content.as_component_batches()
    ]


def own_component(archetype: str, name: str, type_: str, size: int | None = None) -> Component:
    """A component that Rerun does not know, of one number or of so many; the viewer shows its values as they are."""
    descriptor = rr.ComponentDescriptor(f"{archetype}:{name}", archetype=f"proofstream.{archetype}")
    number = pa.type_for_alias(type_)
    return Component(descriptor, number if size is None else pa.list_(number, size))


_TIMES: Mapping[str, Type] = {name: pa.type_for_alias(name) for name in ("int64", "duration[ns]", "timestamp[ns]")}


_FACTS: Mapping[type, Type] = {bool: pa.bool_(), int: pa.uint64(), float: pa.float64(), str: pa.utf8()}


def fact(name: str, value: str | float | bool) -> rr.DescribedComponentBatch:
    """A value under a name of its own.

    Rerun's own values without an archetype are held to the type that the name had first in the process.
    """
    return Component(rr.ComponentDescriptor(name), None).batch(pa.array([value], _FACTS[type(value)]))


class TimeColumn:
    """When each of some rows happened, on one timeline."""

    def __init__(self, timeline: str, values: npt.NDArray[np.int64], type_: str) -> None:
        self._timeline = timeline
        self._times: Array = pa.Array.from_buffers(_TIMES[type_], len(values), [None, pa.py_buffer(values)])

    def timeline_name(self) -> str:
        """The timeline's name."""
        return self._timeline

    def as_arrow_array(self) -> Array:
        """The times."""
        return self._times


def offsets(lengths: Lengths) -> npt.NDArray[np.int32]:
    """Where each of some parts begins, and where the last one ends."""
    return np.fromiter(accumulate(lengths, initial=0), np.int32, len(lengths) + 1)


_FEW = pa.array(np.arange(1025, dtype=np.int32))


def _ones(rows: int) -> Array:
    """The same where each part has a length of one."""
    return _FEW.slice(0, rows + 1) if rows < len(_FEW) else pa.array(np.arange(rows + 1, dtype=np.int32))


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


def pairs(type_: Type, values: Sequence[tuple[str, str]]) -> Array:
    """Pairs of texts."""
    members = [text([value[place] for value in values]) for place in range(2)]
    return pa.StructArray.from_arrays(members, fields=list(type_))


def tensor(type_: Type, values: npt.NDArray[Any], names: Sequence[str] = ()) -> Array:
    """An array of one tensor; its dimensions may have names."""
    union = type_.field("buffer").type
    flat = pa.array(values.ravel())
    place = next(i for i in range(1, union.num_fields) if union.field(i).type.value_type == flat.type)
    members = [pa.array([], union.field(i).type) for i in range(union.num_fields)]
    members[place] = pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat, type=union.field(place).type)
    tag, first = np.array([union.type_codes[place]], np.int8), np.zeros(1, np.int32)
    # The SDK makes it in another way and then casts it, which takes ten times as long.
    buffer = pa.Array.from_buffers(union, 1, [None, pa.py_buffer(tag), pa.py_buffer(first)], children=members)
    shape = pa.array([values.shape], type_.field("shape").type)
    dimensions = pa.array([names or None], type_.field("names").type)
    return pa.StructArray.from_arrays([shape, dimensions, buffer], fields=list(type_))
