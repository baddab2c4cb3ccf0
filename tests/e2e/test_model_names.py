"""Names that users give to models for which the prover has none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Span = dict[str, Any]
START = (
    '{"ProofStart":{"model_name":%s,"backend":"cpu","num_layers":1,"input_shape":[1,1],"output_shape":[1,1]}}\n'
    '{"ProofComplete":{"duration_ms":1,"num_layer_proofs":1,"num_weight_openings":0,"weight_binding_mode":"x"}}\n'
)
UNNAMED, NAMED = START % "null", START % '"mlp"'


def names(spans: list[Span]) -> list[tuple[str | None, str | None]]:
    """Each proof's model, and who named it."""
    proofs = [{a["key"]: a["value"].get("stringValue") for a in s["attributes"]} for s in spans if s["name"] == "proof"]
    return [(a.get("proofstream.proof.model"), a.get("proofstream.proof.model.source")) for a in proofs]


def test_only_a_model_without_a_name_gets_one(
    tmp_path: Path, proofstream_command: Any, spans_in: Callable[[Path], list[Span]]
) -> None:
    (tmp_path / "p.jsonl").write_text(UNNAMED + NAMED + START % '""')
    out = tmp_path / "o"
    done = proofstream_command("run", "p.jsonl", "--name", "llama", "--otlp-file", out, "--record", "r.jsonl")
    assert done.status == 0
    assert "proof 1 started: llama on cpu, 1 layer" in done.err
    assert names(spans_in(out)) == [("llama", "user"), ("mlp", None), ("llama", "user")]
    recorded = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    starts = [row for row in recorded if "ProofStart" in row["event"]]
    assert [row["event"]["ProofStart"]["model_name"] for row in starts] == [None, "mlp", ""]
    assert [row.get("model_name") for row in starts] == ["llama", None, "llama"]


@pytest.mark.parametrize(("words", "name"), [((), "llama"), (("--name", "qwen"), "qwen")])
def test_a_replay_knows_the_name_and_another_one_replaces_it(
    tmp_path: Path, proofstream_command: Any, spans_in: Callable[[Path], list[Span]], words: tuple[str, ...], name: str
) -> None:
    (tmp_path / "p.jsonl").write_text(UNNAMED)
    proofstream_command("run", "p.jsonl", "--name", "llama", "--record", "r.jsonl")
    proofstream_command("run", "r.jsonl", *words, "--otlp-file", tmp_path / "o")
    assert names(spans_in(tmp_path / "o")) == [(name, "user")]


def test_a_listener_has_a_name_in_its_address(tmp_path: Path, spans_in: Callable[[Path], list[Span]]) -> None:
    words = ["run", "unix:s?name=llama%203", "--once", "--no-console", "--otlp-file", "o"]
    with subprocess.Popen(
        [sys.executable, "-m", "proofstream", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "listening on unix:s\n" not in process.stderr.readline():
            assert process.poll() is None
        send = "import socket,sys; s=socket.socket(1); s.connect('s'); s.sendall(sys.argv[1].encode())"
        subprocess.run([sys.executable, "-c", send, UNNAMED], cwd=tmp_path, check=True, timeout=30)
        assert process.wait(30) == 0
    assert names(spans_in(tmp_path / "o")) == [("llama 3", "user")]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["tcp://127.0.0.1:0?name=a&nmae=b"], "an address knows name only, not nmae"),
        (["tcp://127.0.0.1:0?name=a", "--name", "b"], "the model has two names, 'a' and 'b'"),
        (["unix:s?name="], "a model's name has 1 to 1024 characters"),
        (["p.jsonl", "--name", " "], "a model's name has 1 to 1024 characters"),
        (["p.jsonl", "--max-pause", "1"], "--max-pause shortens the pauses of --speed"),
        (["p.jsonl", "--speed", "1", "--max-pause", "nan"], "must be a number of seconds"),
    ],
)
def test_mistakes_are_one_line(proofstream_command: Any, words: list[str], error: str) -> None:
    done = proofstream_command("run", *words)
    assert done.status == 2
    assert error in done.err
    assert "Traceback" not in done.err


def test_a_file_s_own_name_may_end_like_a_query(tmp_path: Path, proofstream_command: Any) -> None:
    (tmp_path / "p?name=x").write_text(NAMED)
    assert proofstream_command("run", "p?name=x", "--no-console").status == 0
