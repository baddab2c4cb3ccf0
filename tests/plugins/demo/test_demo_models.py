"""Tests the demo's statements: its answers match a plain network, and its accuracy matches the held-out digits."""

from __future__ import annotations

import importlib.util
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from proofstream_demo.circuit import evaluate_circuit
from proofstream_demo.field import LARGEST, centred
from proofstream_demo.models import digits, transformer
from proofstream_demo.prover import prove
from proofstream_demo.verifier import verify

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    with resources.files("proofstream_demo").joinpath("digits.npz").open("rb") as file, np.load(file) as data:
        return dict(data)


@pytest.fixture(scope="module")
def training() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_digits", ROOT / "scripts" / "train_digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("sample", range(10))
def test_the_proved_digit_matches_a_plain_forward_pass(sample: int, stored: dict[str, Any]) -> None:
    example = digits(sample)
    pixels = stored["samples"][sample].astype(float)
    plain = (pixels @ stored["w1"].astype(float)) ** 2 @ stored["w2"].astype(float)
    proof = prove(example.model, example.inputs)
    verify(example.model, proof, example.inputs)
    assert centred(proof.output).tolist() == [plain.tolist()]
    said = example.answer(centred(proof.output))
    assert said == f"the network sees the digit {int(plain.argmax())}; the label says {sample}"


def test_the_stored_accuracy_matches_the_held_out_digits(training: ModuleType, stored: dict[str, Any]) -> None:
    _, _, pixels, labels = training.split_data(np.random.default_rng(training.SEED))
    logits = (pixels @ stored["w1"].astype(np.int64)) ** 2 @ stored["w2"].astype(np.int64)
    right = float((logits.argmax(axis=1) == labels).mean())
    assert float(stored["accuracy"]) == right
    assert int(stored["held_out"]) == len(labels)
    assert right > 0.9
    assert f"{right:.1%} of {len(labels)} held-out digits" in digits().model.about


def test_no_digit_of_the_data_set_leaves_the_field(training: ModuleType, stored: dict[str, Any]) -> None:
    kept, _, held_out, _ = training.split_data(np.random.default_rng(training.SEED))
    pixels = np.concatenate((kept, held_out))
    squares = (pixels @ stored["w1"].astype(np.int64)) ** 2
    assert np.abs(squares).max() <= LARGEST
    assert np.abs(squares @ stored["w2"].astype(np.int64)).max() <= LARGEST


def test_the_stored_digits_were_held_out(training: ModuleType, stored: dict[str, Any]) -> None:
    _, _, held_out, labels = training.split_data(np.random.default_rng(training.SEED))
    firsts = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    assert stored["labels"].tolist() == list(range(10))
    assert np.array_equal(stored["samples"], held_out[firsts])


def test_weights_are_int8_and_the_file_is_small(stored: dict[str, Any]) -> None:
    assert (stored["w1"].dtype, stored["w1"].shape) == (np.int8, (64, 32))
    assert (stored["w2"].dtype, stored["w2"].shape) == (np.int8, (32, 10))
    assert (ROOT / "plugins" / "proofstream_demo" / "digits.npz").stat().st_size < 8192


def test_the_transformer_block_is_attention_and_a_gated_layer_with_residuals() -> None:
    example = transformer()
    w, x = example.model.circuit.weights, example.inputs
    heads = [(x @ w[f"Wq {h}"]) @ (x @ w[f"Wk {h}"]).T @ (x @ w[f"Wv {h}"]) @ w[f"Wo {h}"] for h in (0, 1)]
    middle = x + heads[0] + heads[1]
    output = middle + ((middle @ w["W up"]) * (middle @ w["W gate"])) @ w["W down"]
    assert np.array_equal(evaluate_circuit(example.model.circuit, x)[-1], output)
    assert str(np.abs(output).max()) in example.answer(output)


def test_the_transformer_block_is_the_same_every_time_and_says_what_it_is() -> None:
    one, other = transformer(), transformer()
    assert np.array_equal(one.inputs, other.inputs)
    for name, matrix in one.model.circuit.weights.items():
        assert np.array_equal(matrix, other.model.circuit.weights[name])
    assert "linear attention (no softmax)" in one.model.about
    assert "seeded random weights" in one.model.about
