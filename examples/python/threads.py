"""Proves several models at once, each on a thread of its own, in one session."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import proofstream
from proofstream import LayerKind, RoundPoly, SecureField

MODELS = {"digits": 4, "letters": 3, "shapes": 2}
"""Layers by model."""

ROUNDS = 5


def main() -> None:
    """Prove all models, and say whether everything was delivered that was asked for."""
    with proofstream.open_session(plugins=["console"]) as session, ThreadPoolExecutor() as pool:
        # A thread begins outside of all blocks, so each proof stands on its own.
        for model, digest in zip(MODELS, pool.map(prove, MODELS), strict=True):
            print(model, digest)
    report = session.close()  # closed already: this is the same report again
    print("delivered" if report.ok else report.problems)


def prove(model: str) -> str:
    """Prove one model. The session is found wherever the code is, and is no argument of the prover's functions."""
    session = proofstream.current_session()
    num_layers = MODELS[model]
    with session.phase("forward pass", model=model):
        outputs = [work(f"{model} {index}") for index in range(num_layers)]
    with session.proof(model_name=model, backend="example", num_layers=num_layers) as proof:
        for index in reversed(range(num_layers)):  # the walk goes from the last layer to the first
            with proof.layer(index, kind=LayerKind.MatMul, input_shape=(1, 64), output_shape=(1, 64)) as layer:
                for number in range(ROUNDS):
                    claim = int(work(outputs[index] + str(number))[:7], 16)
                    layer.round(number, total_rounds=ROUNDS, poly_deg2=polynomial(claim))
        with proof.phase("weight commitments") as commitments:
            for done, output in enumerate(outputs, start=1):
                work(output)
                commitments.progress(done, num_layers)
    return outputs[-1]


def polynomial(claim: int) -> RoundPoly:
    """Return a round's polynomial. An element of M31 is one of QM31 whose other limbs are zero."""
    one = SecureField(claim, 0, 0, 0)
    return RoundPoly(one, one, one)


def work(text: str) -> str:
    """Stand for what takes a prover's time."""
    return hashlib.pbkdf2_hmac("sha256", text.encode(), b"", 20_000, 8).hex()


if __name__ == "__main__":
    main()
