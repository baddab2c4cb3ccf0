"""How a plugin is tested: `proofstream.testing` makes envelopes from events and runs the plugin without threads."""

from __future__ import annotations

import pytest

from proofstream import ConfigError, ProofComplete, ProofStart
from proofstream.testing import InlineHost, envelopes
from proofstream_hello import HelloPlugin, HelloSaid

PROOF = [
    ProofStart(model_name="digits", backend="cpu", num_layers=0, input_shape=(1, 64), output_shape=(1, 10)),
    ProofComplete(duration_ms=1, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="none"),
]


def test_every_proof_is_greeted_once() -> None:
    host = InlineHost(HelloPlugin(), config={"name": "Ada"})

    derived = host.feed(envelopes([*PROOF, *PROOF]))
    host.close()

    assert derived == [HelloSaid(greeting="hello from Ada", model_name="digits")] * 2
    assert host.health() == {"greeted": 2}


@pytest.mark.parametrize("config", [{"name": 1}, {"nmae": "Ada"}])
def test_a_mistake_in_the_configuration_is_one_clear_line(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"^hello\.nm?am?e"):
        InlineHost(HelloPlugin(), config=config)
