"""Columns of Rerun's components straight from arrays.

Rerun's archetypes check and convert value by value, which takes longer than all else here together. What a component
is called and how its values are laid out is asked of the SDK, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import rerun as rr

Array: TypeAlias = pa.Array
Lengths = Sequence[int] | npt.NDArray[np.integer[Any]]


class Component:
    """A component: its name, and the type of one of its values."""

    def __init__(self, descriptor: rr.ComponentDescriptor, type_: pa.DataType) -> None:
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
        found[descriptor.component.rpartition(":")[2]] = Component(descriptor, column.as_arrow_array().type.value_type)
    return found


def own_component(archetype: str, name: str, type_: pa.DataType) -> Component:
    """A component that Rerun does not know; the viewer shows its values as they are."""
    return Component(rr.ComponentDescriptor(f"{archetype}:{name}", archetype=f"proofstream.{archetype}"), type_)


def offsets(lengths: Lengths) -> npt.NDArray[np.int32]:
    """Where each of some parts begins, and where the last one ends."""
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return ends


def vectors(type_: pa.DataType, values: npt.NDArray[np.float32]) -> Array:
    """Vectors of an array of shape [n, 3]."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), type=type_)
