"""The demo's models: a trained digit classifier and a small transformer block with random weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from proofstream_demo.circuit import Circuit, Input, Layer, MatMul, Product, Sum
from proofstream_demo.field import Integers

DATA = "digits.npz"
"""Weights, their accuracy on held-out digits, and ten of these digits; written by ``scripts/train_digits.py``.

The digits are by E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, https://doi.org/10.24432/C50P49, under CC BY 4.0.
"""

SEQ_LEN = 8
D_MODEL = 16
HEADS = 2
D_HEAD = D_MODEL // HEADS
D_HIDDEN = 32
SEED = 2024

DIGITS_GRINDING_BITS = 16
TRANSFORMER_GRINDING_BITS = 13
"""So that most of a proof's time is spent on the weights, after the layers, as in provers of large models."""


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A circuit with a name and a sentence about it.

    Attributes:
        name: As in ``demo:NAME``.
        about: A description for the user.
        circuit: The circuit to prove.
        attention: Indices of the layers that hold attention scores, one for each head.
        grinding_bits: Each part of the proof of work for a weight matrix takes 2^bits hashes on average.
    """

    name: str
    about: str
    circuit: Circuit
    attention: tuple[int, ...] = ()
    grinding_bits: int = 0


@dataclass(frozen=True, slots=True)
class Example:
    """A model and an input for it.

    Attributes:
        model: The model.
        inputs: The input matrix.
        question: A description of the input.
        answer: Describes the model's output in words.
    """

    model: DemoModel
    inputs: Integers
    question: str
    answer: Callable[[Integers], str]


def digits(sample: int = 0) -> Example:
    """Return the digit classifier with one of ten digits that it was not trained on.

    The network is 64-32-10: the 8x8 pixels (0..16) times W1, squared, times W2; the index of the largest result is the
    digit.

    Args:
        sample: The digit to classify, 0 to 9: the first 0, the first 1, ... of the held-out digits.
    """
    with resources.files("proofstream_demo").joinpath(DATA).open("rb") as file, np.load(file) as data:
        arrays: dict[str, Any] = dict(data)
    pixels: Integers = arrays["samples"][sample].astype(np.int64).reshape(1, 64)
    label = int(arrays["labels"][sample])
    weights = {"W1": arrays["w1"].astype(np.int64), "W2": arrays["w2"].astype(np.int64)}
    layers: tuple[Layer, ...] = (
        Input("pixels", (1, 64)),
        MatMul("pixels W1", (1, 32), left=0, right="W1"),
        Product("square", (1, 32), left=1, right=1),
        MatMul("squares W2", (1, 10), left=2, right="W2"),
    )
    about = (
        "a digit classifier, 64-32-10 with int8 weights and the square as activation, trained on scikit-learn's "
        f"digits; it reads {float(arrays['accuracy']):.1%} of {int(arrays['held_out'])} held-out digits right"
    )
    return Example(
        model=DemoModel("digits", about, Circuit(layers, weights), grinding_bits=DIGITS_GRINDING_BITS),
        inputs=pixels,
        question=f"held-out digit number {sample}, labelled {label}",
        answer=lambda output: f"the network sees the digit {int(output.argmax())}; the label says {label}",
    )


def transformer() -> Example:
    """Return one transformer block: linear attention with two heads, a bilinear feed-forward layer, residual additions.

    Linear means that the scores Q K^T weight the values directly, without a softmax, because softmax is not a
    polynomial. The block has no normalisation, mask or scaling. Weights and input are seeded random numbers from -1 to
    1, so the block is untrained.
    """
    rng = np.random.default_rng(SEED)
    layers, weights, scores = _block()
    drawn = {name: _random(rng, shape) for name, shape in weights.items()}
    about = (
        f"a transformer block ({SEQ_LEN} tokens, width {D_MODEL}, {HEADS} heads) with linear attention (no softmax) "
        "and seeded random weights: it has learnt nothing"
    )
    return Example(
        model=DemoModel(
            "transformer",
            about,
            Circuit(tuple(layers), drawn),
            attention=scores,
            grinding_bits=TRANSFORMER_GRINDING_BITS,
        ),
        inputs=_random(rng, (SEQ_LEN, D_MODEL)),
        question=f"{SEQ_LEN} random tokens",
        answer=lambda output: (
            f"the block's output is a matrix of {output.shape[0]} by {output.shape[1]} integers, "
            f"the largest of magnitude {int(np.abs(output).max())}"
        ),
    )


def attention_weights(scores: Integers) -> Sequence[Sequence[float]]:
    """Return the magnitudes of attention scores, each row divided by its sum; a row of zeros stays unchanged."""
    magnitudes = np.abs(scores).astype(np.float64)
    sums = magnitudes.sum(axis=1, keepdims=True)
    shares: list[list[float]] = np.divide(magnitudes, sums, out=np.zeros_like(magnitudes), where=sums > 0).tolist()
    return shares


def _block() -> tuple[list[Layer], dict[str, tuple[int, int]], tuple[int, ...]]:
    """Return the block's layers, its weights' shapes, and the indices of the layers that hold attention scores."""
    layers: list[Layer] = [Input("tokens", (SEQ_LEN, D_MODEL))]
    weights: dict[str, tuple[int, int]] = {}
    scores, heads = zip(*(_add_head(layers, weights, head) for head in range(HEADS)), strict=True)
    wide, hidden = (SEQ_LEN, D_MODEL), (SEQ_LEN, D_HIDDEN)
    weights |= {"W up": (D_MODEL, D_HIDDEN), "W gate": (D_MODEL, D_HIDDEN), "W down": (D_HIDDEN, D_MODEL)}
    attention = _append(layers, Sum("heads together", wide, *heads))
    middle = _append(layers, Sum("tokens + attention", wide, 0, attention))
    up = _append(layers, MatMul("up", hidden, middle, "W up"))
    gate = _append(layers, MatMul("gate", hidden, middle, "W gate"))
    gated = _append(layers, Product("up * gate", hidden, up, gate))
    down = _append(layers, MatMul("down", wide, gated, "W down"))
    _append(layers, Sum("block's output", wide, middle, down))
    return layers, weights, scores


def _add_head(layers: list[Layer], weights: dict[str, tuple[int, int]], head: int) -> tuple[int, int]:
    """Append one head's six layers; return the indices of its scores and its output."""
    narrow = (SEQ_LEN, D_HEAD)
    weights |= {f"W{letter} {head}": (D_MODEL, D_HEAD) for letter in "qkv"}
    weights[f"Wo {head}"] = (D_HEAD, D_MODEL)
    q, k, v = (_append(layers, MatMul(f"{c} {head}", narrow, 0, f"W{c} {head}")) for c in "qkv")
    scores = _append(layers, MatMul(f"scores {head}", (SEQ_LEN, SEQ_LEN), q, k, transposed=True))
    mixed = _append(layers, MatMul(f"mixed values {head}", narrow, scores, v))
    output = _append(layers, MatMul(f"head {head}", (SEQ_LEN, D_MODEL), mixed, f"Wo {head}"))
    return scores, output


def _append(layers: list[Layer], layer: Layer) -> int:
    layers.append(layer)
    return len(layers) - 1


def _random(rng: np.random.Generator, shape: tuple[int, int]) -> Integers:
    """Draw numbers -1, 0 and 1. Half are zeros, so that products stay small."""
    return rng.choice(np.array([-1, 0, 1], dtype=np.int64), size=shape, p=[0.25, 0.5, 0.25])
