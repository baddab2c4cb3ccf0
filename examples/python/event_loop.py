"""Serves requests to prove on an event loop, which neither opening nor closing the session holds up."""

from __future__ import annotations

import asyncio
import hashlib

import proofstream
from proofstream import LayerKind


async def main() -> None:
    """Prove for three clients at once."""
    async with proofstream.open_session_async(plugins=["console"]) as session:
        digests = await asyncio.gather(*(prove(client, num_layers=3) for client in ("ann", "bob", "eve")))
        await asyncio.to_thread(session.flush)  # it waits, so not on the loop
    print(*digests, sep="\n")


async def prove(client: str, num_layers: int) -> str:
    """Prove one model for a client. Each task is in its own proof, however they take turns."""
    session = proofstream.current_session()
    digest = client
    with session.proof(model_name="mlp", backend="example", num_layers=num_layers, job_id=client) as proof:
        for index in reversed(range(num_layers)):
            with proof.layer(index, kind=LayerKind.MatMul):
                # `to_thread` takes the task's place in the proof along: what `hashing` opens is inside of this layer.
                digest = await asyncio.to_thread(hashing, digest)
    return digest


def hashing(text: str) -> str:
    """Stand for what takes a prover's time."""
    with proofstream.current_session().phase("hashing"):
        return hashlib.pbkdf2_hmac("sha256", text.encode(), b"", 20_000, 8).hex()


if __name__ == "__main__":
    asyncio.run(main())
