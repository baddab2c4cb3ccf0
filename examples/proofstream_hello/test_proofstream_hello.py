"""Tests the plugin twice: on the test's own thread, and on a host with lanes and the bus, as a run uses it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proofstream import ConfigError, ProofComplete, ProofStart
from proofstream.testing import InlineHost, PluginHost, envelopes
from proofstream_hello import HelloPlugin, HelloSaid

PROOF = [
    ProofStart(model_name="digits", backend="cpu", num_layers=0, input_shape=(1, 64), output_shape=(1, 10)),
    ProofComplete(duration_ms=1, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="none"),
]
GREETING = HelloSaid(greeting="hello from Ada", model_name="digits")


def test_every_proof_is_greeted_once() -> None:
    host = InlineHost(HelloPlugin(), config={"name": "Ada"})

    derived = host.feed(envelopes([*PROOF, *PROOF]))
    host.close()

    assert derived == [GREETING, GREETING]
    assert host.told == ["hello from Ada, digits"] * 2
    assert host.health() == {"greeted": 2}


@pytest.mark.parametrize("config", [{"name": 1}, {"nmae": "Ada"}])
def test_a_mistake_in_the_configuration_is_one_clear_line(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"^hello\.nm?am?e"):
        InlineHost(HelloPlugin(), config=config)


def test_without_a_name_it_sits_the_run_out() -> None:
    assert InlineHost(HelloPlugin()).is_idle


def test_a_run_delivers_greetings_to_other_plugins(proofstream_host: Callable[..., PluginHost]) -> None:
    host = proofstream_host(HelloPlugin(), config={"hello": {"name": "Ada"}})

    assert host.feed(PROOF) == [GREETING]

    assert [envelope.origin for envelope in host.envelopes if envelope.event == GREETING] == ["hello"]
    assert host.close().ok
