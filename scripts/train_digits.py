"""Trains the demo's digit classifier and writes it into the plugin's package. Needs scikit-learn for the data only.

The network is 64-32-10 without biases: pixels (0..16) times W1, squared, times W2; the largest of the ten results is
the digit. Squaring is the activation because a circuit over a finite field can prove it exactly. Both matrices become
int8, scaled so that all values of a forward pass, as integers, stay below half the field's prime. The field then
computes the same numbers.

Data: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49, CC BY 4.0, as shipped with scikit-learn. Ten of its pictures are stored with the
weights.

    python scripts/train_digits.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OUTPUT = Path(__file__).resolve().parent.parent / "plugins" / "proofstream_demo" / "digits.npz"
SEED = 7
HIDDEN = 32
HELD_OUT = 450
EPOCHS = 120
BATCH = 64
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-3
SAFE_MAGNITUDE = 2**28
"""A quarter of half the prime, which leaves room for digits outside the training set."""


def split_data(rng: np.random.Generator) -> tuple[Ints, Ints, Ints, Ints]:
    """Return pixels and labels for training, then those held out."""
    bunch = cast("Any", load_digits())
    pixels = cast("Ints", bunch.data.astype(np.int64))
    labels = cast("Ints", bunch.target.astype(np.int64))
    order = rng.permutation(len(pixels))
    held_out, kept = order[:HELD_OUT], order[HELD_OUT:]
    return pixels[kept], labels[kept], pixels[held_out], labels[held_out]


def gradients(x: Floats, labels: Ints, w1: Floats, w2: Floats) -> list[Floats]:
    """Return the gradients of the mean cross entropy of softmax((x W1)^2 W2), with respect to W1 and W2."""
    hidden = x @ w1
    squares = hidden**2
    logits = squares @ w2
    likely = np.exp(logits - logits.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    likely[np.arange(len(labels)), labels] -= 1.0
    error = likely / len(labels)
    return [x.T @ (error @ w2.T * 2.0 * hidden), squares.T @ error]


def train(pixels: Ints, labels: Ints, rng: np.random.Generator) -> list[Floats]:
    """Train by Adam with decoupled weight decay, on pixels scaled to 0..1."""
    x = pixels / 16.0
    weights = [rng.normal(0.0, 0.2, (64, HIDDEN)), rng.normal(0.0, 0.2, (HIDDEN, 10))]
    mean = [np.zeros_like(w) for w in weights]
    square = [np.zeros_like(w) for w in weights]
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            step += 1
            pick = order[start : start + BATCH]
            for i, grad in enumerate(gradients(x[pick], labels[pick], weights[0], weights[1])):
                mean[i] = 0.9 * mean[i] + 0.1 * grad
                square[i] = 0.999 * square[i] + 0.001 * grad**2
                change = (mean[i] / (1 - 0.9**step)) / (np.sqrt(square[i] / (1 - 0.999**step)) + 1e-8)
                weights[i] = weights[i] - LEARNING_RATE * (change + WEIGHT_DECAY * weights[i])
    return weights


def forward(pixels: Ints, w1: Ints, w2: Ints) -> Ints:
    """Run the quantised network in plain integers."""
    return cast("Ints", (pixels @ w1) ** 2 @ w2)


def accuracy(pixels: Ints, labels: Ints, w1: Ints, w2: Ints) -> float:
    """Return the share of digits that the quantised network reads right."""
    return float((forward(pixels, w1, w2).argmax(axis=1) == labels).mean())


def quantise(weights: Floats, largest: int) -> Ints:
    """Scale weights so that the largest magnitude becomes `largest`, and round them."""
    scale = largest / float(np.abs(weights).max())
    return np.rint(weights * scale).astype(np.int64)


def best_fit(pixels: Ints, labels: Ints, weights: list[Floats]) -> tuple[Ints, Ints]:
    """Find the int8 matrices that read most training digits right and keep every result below SAFE_MAGNITUDE."""
    best = (-1.0, quantise(weights[0], 1), quantise(weights[1], 1))
    for largest1 in range(3, 64):
        w1 = quantise(weights[0], largest1)
        for largest2 in range(3, 128, 4):
            w2 = quantise(weights[1], largest2)
            if np.abs(forward(pixels, w1, w2)).max() < SAFE_MAGNITUDE:
                best = max(best, (accuracy(pixels, labels, w1, w2), w1, w2), key=lambda entry: entry[0])
    return best[1], best[2]


def main() -> None:
    """Train, quantise, store and report."""
    rng = np.random.default_rng(SEED)
    pixels, labels, test_pixels, test_labels = split_data(rng)
    weights = train(pixels, labels, rng)
    w1, w2 = best_fit(pixels, labels, weights)
    reached = accuracy(test_pixels, test_labels, w1, w2)
    samples = [int(np.flatnonzero(test_labels == digit)[0]) for digit in range(10)]
    np.savez_compressed(
        OUTPUT,
        w1=w1.astype(np.int8),
        w2=w2.astype(np.int8),
        samples=test_pixels[samples].astype(np.uint8),
        labels=test_labels[samples].astype(np.uint8),
        accuracy=np.float64(reached),
        held_out=np.int64(len(test_labels)),
    )
    print(f"training digits read right: {accuracy(pixels, labels, w1, w2):.1%}")
    print(f"held-out digits read right: {reached:.1%} of {len(test_labels)}")
    print(f"largest weights: {np.abs(w1).max()}, {np.abs(w2).max()}")
    print(f"largest result: {np.abs(forward(test_pixels, w1, w2)).max()}, half the prime: {2**30 - 1}")
    print(f"wrote {OUTPUT.name}, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
