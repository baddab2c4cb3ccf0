"""Makes columns of Rerun's components directly from arrays.

Rerun's archetypes check and convert each value, which takes longer than everything else in this plugin together. So
the SDK is asked only once for a component's name and data type, with an example.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import rerun as rr

pa: Any = import_module("pyarrow")  # it comes without types

Array: TypeAlias = Any
"""A `pyarrow.Array`."""
Content: TypeAlias = Sequence[rr.DescribedComponentBatch]
"""Components of an entity."""
Type: TypeAlias = Any
"""A `pyarrow.DataType`."""
Lengths = Sequence[int] | npt.NDArray[np.integer[Any] | np.bool_]
"""How many values each row has."""


class Component:
    """A component: its descriptor, and the type of one of its values."""

    def __init__(self, descriptor: rr.ComponentDescriptor, type_: Type) -> None:
        self.descriptor = descriptor
        self.type = type_

    def batch(self, values: Array) -> rr.DescribedComponentBatch:
        """Return the values as one batch, such as for static content."""
        return rr.DescribedComponentBatch(_Batch(values), self.descriptor)

    def column(self, values: Array, lengths: Lengths | None = None) -> rr.ComponentColumn:
        """Return a column of the values: `lengths[i]` of them in row i, or one in each row."""
        ends = _ones(len(values)) if lengths is None else pa.array(offsets(lengths))
        return _Column(self.descriptor, pa.ListArray.from_arrays(ends, values))


class _Batch:
    """The values of a component in the form that the SDK asks for."""

    def __init__(self, values: Array) -> None:
        self._values = values

    def as_arrow_array(self) -> Array:
        """Return the values."""
        return self._values


class _Column(rr.ComponentColumn):
    """A column whose rows are an array already; the SDK's own class would convert them again."""

    def __init__(self, descriptor: rr.ComponentDescriptor, rows: Array) -> None:
        self._descriptor = descriptor
        self._rows = rows

    def component_descriptor(self) -> rr.ComponentDescriptor:
        """Return the component's name."""
        return self._descriptor

    def as_arrow_array(self) -> Array:
        """Return the rows."""
        return self._rows


def _arrow(batch: rr.DescribedComponentBatch) -> Array:
    return cast("Array", batch).as_arrow_array()


def components(example: rr.AsComponents) -> Mapping[str, Component]:
    """Return the components of an archetype by their short names. The example must have a value for each."""
    found: dict[str, Component] = {}
    for batch in example.as_component_batches():
        descriptor = batch.component_descriptor()
        values = _arrow(batch)
        found[descriptor.component.rpartition(":")[2]] = Component(descriptor, values.type)
    return found


def made(content: rr.AsComponents) -> Content:
    """Convert an archetype's components to arrays, so that sending them again does not convert them again."""
    return [
        Component(batch.component_descriptor(), None).batch(_arrow(batch)) for batch in content.as_component_batches()
    ]


def own_component(archetype: str, name: str, type_: str, size: int | None = None) -> Component:
    """Make a component that Rerun does not define: one number, or a vector of `size`. The viewer shows plain values."""
    descriptor = rr.ComponentDescriptor(f"{archetype}:{name}", archetype=f"proofstream.{archetype}")
    number = pa.type_for_alias(type_)
    return Component(descriptor, number if size is None else pa.list_(number, size))


_TIMES: Mapping[str, Type] = {name: pa.type_for_alias(name) for name in ("int64", "duration[ns]", "timestamp[ns]")}


_FACTS: Mapping[type, Type] = {bool: pa.bool_(), int: pa.uint64(), float: pa.float64(), str: pa.utf8()}


def fact(name: str, value: str | float | bool) -> rr.DescribedComponentBatch:
    """Make a component that holds one value.

    The SDK's `AnyValues` would fix the type of a name for the whole process at its first use, so it is not used here.
    """
    return Component(rr.ComponentDescriptor(name), None).batch(pa.array([value], _FACTS[type(value)]))


class TimeColumn:
    """The times of rows on one timeline. It replaces the SDK's class of that name, which converts each value."""

    def __init__(self, timeline: str, values: npt.NDArray[np.int64], type_: str) -> None:
        self._timeline = timeline
        self._times: Array = pa.Array.from_buffers(_TIMES[type_], len(values), [None, pa.py_buffer(values)])

    def timeline_name(self) -> str:
        """Return the timeline's name."""
        return self._timeline

    def as_arrow_array(self) -> Array:
        """Return the times."""
        return self._times


def offsets(lengths: Lengths) -> npt.NDArray[np.int32]:
    """Return where each part begins, and where the last one ends: [0, l0, l0 + l1, ...]."""
    return np.fromiter(accumulate(lengths, initial=0), np.int32, len(lengths) + 1)


_FEW = pa.array(np.arange(1025, dtype=np.int32))
"""Offsets for up to 1024 rows of one value, made once: most columns are such, and a slice copies nothing."""


def _ones(rows: int) -> Array:
    """Return the offsets of parts that each have a length of one."""
    return _FEW.slice(0, rows + 1) if rows < len(_FEW) else pa.array(np.arange(rows + 1, dtype=np.int32))


def numbers(values: npt.NDArray[np.generic]) -> Array:
    """Convert numbers to an array of the same type."""
    return pa.array(values)


def int64s(values: Sequence[int]) -> npt.NDArray[np.int64]:
    """Make an array of integers. The standard library packs a list in less than half of the time that numpy takes."""
    return np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)


def uint32s(values: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Make an array of integers; see `int64s`."""
    return np.frombuffer(struct.pack(f"{len(values)}I", *values), np.uint32)


def text(values: Sequence[str]) -> Array:
    """Convert texts to an array."""
    return pa.array(values, pa.utf8())


def strips(type_: Type, parts: Sequence[npt.NDArray[np.float32]]) -> Array:
    """Make strips of points from arrays of shape [k, 3]."""
    points = np.concatenate(parts) if parts else np.zeros((0, 3), np.float32)
    ends = pa.array(offsets([len(part) for part in parts]))
    return pa.ListArray.from_arrays(ends, vectors(type_.value_type, points), type=type_)


def vectors(type_: Type, values: npt.NDArray[np.generic]) -> Array:
    """Make n vectors from an array of shape [n, k]."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), type=type_)


def pairs(type_: Type, values: Sequence[tuple[str, str]]) -> Array:
    """Make pairs of texts."""
    members = [text([value[place] for value in values]) for place in range(2)]
    return pa.StructArray.from_arrays(members, fields=list(type_))


@lru_cache(maxsize=16)
def _members(union: Type, number: Type) -> tuple[int, Sequence[Array]]:
    """Return which of a union's members holds lists of that type of number, and an empty array for each member."""
    types = [union.field(place).type for place in range(union.num_fields)]
    return next(i for i in range(1, len(types)) if types[i].value_type == number), [pa.array([], one) for one in types]


def tensors(type_: Type, values: Sequence[npt.NDArray[Any]], names: Sequence[str] = ()) -> Array:
    """Make an array of tensors, whose numbers are all of one type. Their dimensions may have names.

    Rerun keeps a tensor's values in a union with one list for each type of number. Type 0 of the union means null.
    """
    count = len(values)
    union = type_.field("buffer").type
    flat = pa.array(np.concatenate([value.ravel() for value in values]))
    place, empty = _members(union, flat.type)
    members = [*empty]
    ends = pa.array(offsets([value.size for value in values]))
    members[place] = pa.ListArray.from_arrays(ends, flat, type=union.field(place).type)
    tags, firsts = np.full(count, union.type_codes[place], np.int8), np.arange(count, dtype=np.int32)
    # The SDK builds another union and casts it, which takes ten times as long.
    buffers = pa.Array.from_buffers(union, count, [None, pa.py_buffer(tags), pa.py_buffer(firsts)], children=members)
    shapes = pa.array([value.shape for value in values], type_.field("shape").type)
    dimensions = pa.array([names or None] * count, type_.field("names").type)
    return pa.StructArray.from_arrays([shapes, dimensions, buffers], fields=list(type_))
