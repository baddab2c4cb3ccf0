"""A tiny circuit with every kind of layer, and with several claims on a sum, a product and a matrix product.

The big models do less proof of work here than in the demo; one test looks at the demo's own figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from proofstream_demo import models
from proofstream_demo.circuit import Circuit, Input, MatMul, Product, Sum
from proofstream_demo.models import DemoModel, Example, digits, transformer
from proofstream_demo.proof import GkrProof
from proofstream_demo.prover import prove


@pytest.fixture(scope="session", autouse=True)
def work_of_the_demo() -> Iterator[Mapping[str, int]]:
    """Let the proof of work of the big models take next to no time; give the demo's own figures."""
    figures = {name: getattr(models, name) for name in ("DIGITS_GRINDING_BITS", "TRANSFORMER_GRINDING_BITS")}
    with pytest.MonkeyPatch.context() as patch:
        for name in figures:
            patch.setattr(models, name, 2)
        yield figures


@pytest.fixture(scope="session")
def tiny() -> Example:
    """Six layers over an input of 2 by 2."""
    layers = (
        Input("input", (2, 2)),
        MatMul("product", (2, 2), 0, "W1"),
        Product("square", (2, 2), 1, 1),
        Sum("sum", (2, 2), 1, 2),
        MatMul("activations", (2, 2), 3, 1, transposed=True),
        Product("elementwise", (2, 2), 4, 3),
        MatMul("output", (2, 3), 5, "W2"),
    )
    weights = {"W1": np.array([[1, -2], [3, 1]]), "W2": np.array([[1, 0, -1], [2, 2, -3]])}
    model = DemoModel("tiny", "a tiny circuit", Circuit(layers, weights), grinding_bits=1)
    return Example(model=model, inputs=np.array([[1, 2], [-3, 4]]), question="?", answer=str)


@pytest.fixture(scope="session", params=["tiny", "digits", "transformer"])
def example(request: pytest.FixtureRequest, tiny: Example) -> Example:
    """Each of the models."""
    return {"tiny": lambda: tiny, "digits": digits, "transformer": transformer}[request.param]()


@pytest.fixture(scope="session")
def proof(example: Example) -> GkrProof:
    """An honest proof of `example`."""
    return prove(example.model, example.inputs)


@pytest.fixture(scope="session")
def tiny_proof(tiny: Example) -> GkrProof:
    """An honest proof of `tiny`."""
    return prove(tiny.model, tiny.inputs)
