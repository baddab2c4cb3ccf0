"""Circuits of matrix layers, each computed from earlier layers, and their evaluation.

The last layer is the output. Computing with plain integers and computing in the field give the same numbers as long as
no integer exceeds half the prime. `evaluate_circuit` computes with integers and refuses larger values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from proofstream_demo.field import LARGEST, Integers

Shape: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Input:
    """The input matrix of the model."""

    name: str
    shape: Shape

    @property
    def inputs(self) -> tuple[int, ...]:
        """An empty tuple: the input is not computed."""
        return ()


@dataclass(frozen=True, slots=True)
class MatMul:
    """A matrix product.

    Attributes:
        name: A name for display.
        shape: Shape of the product.
        left: Index of the layer on the left.
        right: Index of the layer on the right, or the name of a weight matrix.
        transposed: True to transpose the right matrix first.
    """

    name: str
    shape: Shape
    left: int
    right: int | str
    transposed: bool = False

    @property
    def inputs(self) -> tuple[int, ...]:
        """The layers that it is computed from."""
        return (self.left,) if isinstance(self.right, str) else (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Product:
    """The product of two layers, element by element; a square if both are the same."""

    name: str
    shape: Shape
    left: int
    right: int

    @property
    def is_square(self) -> bool:
        """True if it squares one layer."""
        return self.left == self.right

    @property
    def inputs(self) -> tuple[int, ...]:
        """The layers that it is computed from."""
        return (self.left,) if self.is_square else (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of two layers."""

    name: str
    shape: Shape
    left: int
    right: int

    @property
    def inputs(self) -> tuple[int, ...]:
        """The layers that it is computed from."""
        return (self.left, self.right)


Layer: TypeAlias = Input | MatMul | Product | Sum


@dataclass(frozen=True, slots=True)
class Circuit:
    """Layers in the order of their computation, and their weights.

    Raises:
        ValueError: A layer uses itself or a later layer, no layer uses it, or a weight matrix is not used exactly once.
    """

    layers: tuple[Layer, ...]
    weights: Mapping[str, Integers]

    def __post_init__(self) -> None:
        uses = [(index, source) for index, layer in enumerate(self.layers) for source in layer.inputs]
        if any(source >= index for index, source in uses):
            raise ValueError("a layer can use only the layers before it")
        if {source for _, source in uses} != set(range(len(self.layers) - 1)):
            raise ValueError("every layer but the last must be used by another one")
        if sorted(name for _, name in self.weighted) != sorted(self.weights):
            raise ValueError("every weight matrix must be used by exactly one layer")

    @property
    def output(self) -> Layer:
        """The last layer."""
        return self.layers[-1]

    @property
    def weighted(self) -> tuple[tuple[int, str], ...]:
        """The layers that use weights, with the weights' names."""
        return tuple(
            (index, layer.right)
            for index, layer in enumerate(self.layers)
            if isinstance(layer, MatMul) and isinstance(layer.right, str)
        )


def evaluate_circuit(circuit: Circuit, inputs: Integers) -> list[Integers]:
    """Compute all layers' values, by layer index.

    Raises:
        ValueError: The input has the wrong shape, or a value is too large for the field to represent uniquely.
    """
    values: list[Integers] = []
    for layer in circuit.layers:
        result = evaluate_layer(layer, values, circuit.weights, inputs)
        if result.shape != layer.shape:
            raise ValueError(f"layer {layer.name} has the shape {result.shape}, not {layer.shape}")
        if _largest(result) > LARGEST:
            raise ValueError(f"layer {layer.name} holds a number that the field cannot hold: above {LARGEST}")
        values.append(result)
    return values


def evaluate_layer(
    layer: Layer, values: Sequence[Integers], weights: Mapping[str, Integers], inputs: Integers
) -> Integers:
    """Compute one layer's values from the values of the layers before it."""
    match layer:
        case Input():
            return inputs
        case MatMul():
            right = weights[layer.right] if isinstance(layer.right, str) else values[layer.right]
            return _matmul(values[layer.left], right.T if layer.transposed else right, layer.name)
        case Product():
            return values[layer.left] * values[layer.right]
        case Sum():
            return values[layer.left] + values[layer.right]


def _matmul(left: Integers, right: Integers, name: str) -> Integers:
    if _largest(left) * _largest(right) * left.shape[1] >= 2**63:
        raise ValueError(f"layer {name} could hold a number that 64 bits cannot hold")
    product: Integers = left @ right
    return product


def _largest(matrix: Integers) -> int:
    return int(np.abs(matrix).max(initial=0))
