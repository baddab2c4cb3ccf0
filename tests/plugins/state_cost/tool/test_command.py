"""``proofstream state-cost``: its answers, and its messages about mistakes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proofstream.command.cli import main

DATA = Path(__file__).parents[3] / "data" / "state"
CIRCUIT = DATA / "qwen3.8-27b.toml"
F32 = ("--format", "ssm_h_storage=f32")
TINY = """
name = "tiny"
layers = ["one"]
[layer_kinds]
one = ["mix"]
[dims]
width = 3
[[block.mix.state]]
id = "h"
kind = "recurrent"
format = "{h}"
shape = "width x 2"
verify = "h_steps"
"""


@dataclass
class Finished:
    status: int
    out: str
    err: str


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_", "COLUMNS", "NO_COLOR"))}


def config_of(name: str, folder: Path) -> Path:
    models = json.loads((DATA / "golden.json").read_text())["models"]
    (model,) = [each for each in models if each["name"] == name]
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": model["model_type"], "dtype": "bfloat16", **model["config"]}))
    return path


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """Run the command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)

    def run(*words: str | Path) -> Finished:
        status = main(["state-cost", *map(str, words)])
        captured = capsys.readouterr()
        return Finished(status, captured.out, captured.err)

    return run


def test_a_circuit_in_a_process_of_its_own(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "proofstream", "state-cost", str(CIRCUIT), *F32]
    ran = subprocess.run(
        words, check=False, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "qwen3.8-27b: 48 recurrent layers, 158,859,264 bytes of recurrent state\n"
        "convention  declared: the states as the circuit declares them; one sequence, TP=1; {ssm_h_storage}\n"
        "            is f32\n"
        "\n"
        "group     states  elements  dtype  bytes each        bytes     MiB\n"
        "gdn.h         48   786,432  f32     3,145,728  150,994,944  144.00\n"
        "gdn.conv      48    40,960  f32       163,840    7,864,320    7.50\n"
        "total         96                               158,859,264  151.50\n"
        "widest  l0.gdn.h, and 47 more: 3,145,728 bytes = 786,432 elements x f32\n"
        "then    l0.gdn.conv, and 47 more: 163,840 bytes = 40,960 elements x f32\n"
        "\n"
        "program            what it does                      bytes     MiB\n"
        "verify_checkpoint  copy live -> checkpoint     158,859,264  151.50\n"
        "  gdn.h                                        150,994,944  144.00\n"
        "  gdn.conv                                       7,864,320    7.50\n"
        "verify_rollback    copy checkpoint -> live     158,859,264  151.50\n"
        "  gdn.h                                        150,994,944  144.00\n"
        "  gdn.conv                                       7,864,320    7.50\n"
        "commit_accepted    copy accepted_step -> live  158,859,264  151.50\n"
        "  gdn.h                                        150,994,944  144.00\n"
        "  gdn.conv                                       7,864,320    7.50\n"
        "slot_zero          zero live                   158,859,264  151.50\n"
        "  gdn.h                                        150,994,944  144.00\n"
        "  gdn.conv                                       7,864,320    7.50\n"
        "\n"
        "note  bytes are those that a program writes; a copy reads as many\n"
        "note  no program moves attn.k, attn.v, draft attn.k, draft attn.v\n"
    )


def test_the_plan_of_the_published_case(command: Callable[..., Finished]) -> None:
    ran = command(
        *(CIRCUIT, *F32, "--format", "kv_cache_dtype=bf16", "--slots", "2", "--verify-steps", "4"),
        *("--kv-blocks", "4380", "--kv-block-size", "16", "--json"),
    )

    assert (ran.status, ran.err) == (0, "")
    plan = json.loads(ran.out)["plan"]
    sums: dict[tuple[str, str], int] = {}
    for term in plan["terms"]:
        local = re.sub(r"^l\d+\.", "", term["id"])
        sums[local, term["holding"]] = sums.get((local, term["holding"]), 0) + term["bytes"]
    (case,) = json.loads((DATA / "golden.json").read_text())["plan_cases"]
    expected = {tuple(name.rsplit(" ", 1)): size for name, size in case["expected_bytes"].items()}
    assert {key: size for key, size in sums.items() if key in expected} == expected
    assert round(plan["bytes"] / 2**20, 1) == case["expected_MiB"]["states total (recurrent pool, KV)"]
    assert sum(term["bytes"] for term in plan["terms"]) == plan["bytes"]


def test_the_same_plan_as_text(command: Callable[..., Finished]) -> None:
    ran = command(
        *(CIRCUIT, *F32, "--format", "kv_cache_dtype=bf16", "--slots", "2", "--verify-steps", "4"),
        *("--kv-blocks", "4380", "--kv-block-size", "16", "--rate", "40"),
    )

    assert ran.status == 0
    assert "gdn.h         steps           48           6    905,969,664    864.00\n" in ran.out
    assert re.search(r"^total +6,484,131,840 +6,183\.75$", ran.out, re.MULTILINE)
    assert "verify_checkpoint  copy live -> checkpoint     158,859,264  151.50     317,718,528  303.00\n" in ran.out
    assert "checkpoint, then one  12,708,741,120  12,120.00    25,417,482,240  24,240.00\n" in ran.out
    assert "drafting head's KV cache is taken to have as many blocks as the model's" in ran.out


def test_a_config_json_is_shown_by_all_conventions_side_by_side(
    command: Callable[..., Finished], tmp_path: Path
) -> None:
    ran = command(config_of("Qwen/Qwen3.8-27B (Qwen3.5/3.6-27B shape)", tmp_path), "--slots", "8", "--rate", "30")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("qwen3_5: 48 recurrent layers, by convention\nmetrale       h 48 x 128 x 128 ")
    assert "\ntotal       158,859,264    154,927,104    153,944,064    153,944,064\n" in ran.out
    assert "\n8 slots   1,270,874,112  1,239,416,832  1,231,552,512  1,231,552,512\n" in ran.out
    assert "\nat 30/s   4,765,777,920  4,647,813,120  4,618,321,920  4,618,321,920\n" in ran.out
    assert "K-1 columns of K=4" in ran.out


def test_a_convention_that_does_not_apply_is_left_out_with_a_reason(
    command: Callable[..., Finished], tmp_path: Path
) -> None:
    ran = command(config_of("google/recurrentgemma-2b", tmp_path))

    assert ran.status == 0
    assert re.search(r"^bytes +metrale +transformers$", ran.out, re.MULTILINE)
    assert "vLLM 0.33 has no figures for recurrent_gemma" in ran.out


@pytest.mark.parametrize(
    ("convention", "key"),
    [
        ("metrale", "metrale_f32_kernel_columns"),
        ("transformers", "transformers_5_24_0_bf16"),
        ("vllm", "vllm_0_33_0_bf16_tp1"),
    ],
)
def test_a_config_json_under_one_convention(
    convention: str, key: str, command: Callable[..., Finished], tmp_path: Path
) -> None:
    name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    ran = command(config_of(name, tmp_path), "--convention", convention, "--json")

    models = json.loads((DATA / "golden.json").read_text())["models"]
    (model,) = [each for each in models if each["name"] == name]
    document = json.loads(ran.out)
    assert (document["convention"], document["recurrent_layers"]) == (convention, 23)
    assert document["bytes_per_sequence"] == model["conventions"][key]["total_bytes_per_slot"]
    assert {program["bytes"] for program in document["programs"].values()} == {document["bytes_per_sequence"]}
    assert "TP=1" in document["counts"]


def test_snapshots_have_programs_of_their_own(command: Callable[..., Finished], tmp_path: Path) -> None:
    name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    words = ("--convention", "metrale", "--snapshots", "--format", "ssm_h_storage=f16")
    ran = command(config_of(name, tmp_path), *words, "--json")

    models = json.loads((DATA / "golden.json").read_text())["models"]
    (model,) = [each for each in models if each["name"] == name]
    programs = json.loads(ran.out)["programs"]
    expected = model["metrale_state_programs_bytes"]["ssm_h_storage_f16"]
    assert {name: program["bytes"] for name, program in programs.items()} == expected
    first = programs["prefix_restore"]["nodes"][0]
    assert (first["op"], first["from"], first["to"]) == ("convert", "prefix", "live")


def test_parts_of_a_convention_can_be_replaced(command: Callable[..., Finished], tmp_path: Path) -> None:
    config = config_of("LiquidAI/LFM2-1.2B", tmp_path)
    words = ("--convention", "transformers", "--conv-columns", "K-1", "--conv-dtype", "f32", "--json")
    document = json.loads(command(config, *words).out)

    assert document["convention"] == "transformers+conv-columns=K-1,conv-dtype=f32"
    assert document["bytes_per_sequence"] == 10 * 2048 * 2 * 4


def test_a_model_without_recurrent_layers_is_an_answer(command: Callable[..., Finished], tmp_path: Path) -> None:
    config = config_of("ibm-granite/granite-4.0-micro", tmp_path)
    for words in ((), ("--convention", "vllm"), ("--slots", "4", "--rate", "3")):
        ran = command(config, *words)
        assert (ran.status, ran.err) == (0, "")
        assert ran.out.startswith("granitemoehybrid: 0 recurrent layers, ")
        assert "No layer keeps recurrent state: the programs around a verify write nothing.\n" in ran.out

    document = json.loads(command(config, "--convention", "vllm", "--json").out)
    assert (document["recurrent_layers"], document["bytes_per_sequence"], document["states"]) == (0, 0, [])
    assert document["programs"]["slot_zero"] == {"bytes": 0, "nodes": []}


def test_a_circuit_may_be_json_and_is_recognized_by_its_content(
    command: Callable[..., Finished], tmp_path: Path
) -> None:
    state = {"id": "h", "kind": "recurrent", "format": "f16", "shape": "2 x 3", "verify": "h_steps"}
    circuit = {"name": "j", "layers": ["a"], "layer_kinds": {"a": ["m"]}, "block": {"m": {"state": [state]}}}
    path = tmp_path / "no-suffix"
    path.write_bytes(b"\xef\xbb\xbf\n " + json.dumps(circuit).encode())

    document = json.loads(command(path, "--json").out)
    assert (document["circuit"], document["convention"], document["bytes_per_sequence"]) == ("j", "declared", 12)


def test_options_may_stand_in_a_configuration_file(command: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "proofstream.toml").write_text(
        '[state-cost]\nfile = "elsewhere.toml"\nformats = { h = "f32" }\nslots = 3\n'
    )
    (tmp_path / "tiny.toml").write_text(TINY)

    configured = ("--config", "proofstream.toml")
    assert json.loads(command("tiny.toml", *configured, "--json").out)["plan"]["bytes"] == 3 * 24
    again = json.loads(command("tiny.toml", *configured, "--format", "h=fp8", "--slots", "2", "--json").out)
    assert (again["plan"]["bytes"], again["formats"]) == (12, {"h": "fp8"})


def test_a_key_that_no_state_reads_is_noted(command: Callable[..., Finished]) -> None:
    ran = command(CIRCUIT, *F32, "--format", "kv=f16")
    assert ran.status == 0
    assert "note  no state reads the format key kv\n" in ran.out
    ran = command(CIRCUIT, *F32, "--format", "kv=f16", "--json")
    document = json.loads(ran.out)
    assert (ran.status, ran.err) == (0, "proofstream: no state reads the format key kv\n")
    assert document["formats"] == {"ssm_h_storage": "f32"}
    assert "no state reads the format key kv" in document["assumptions"]


def test_in_a_terminal_the_answer_has_its_width_and_styles(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    ours, theirs = pty.openpty()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "proofstream", "state-cost", "tiny.toml", "--format", "h=f32"],
            check=False,
            cwd=tmp_path,
            env=environment() | {"TERM": "xterm", "COLUMNS": "60"},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            timeout=60,
        )
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    finally:
        os.close(ours)

    assert (ran.returncode, ran.stderr) == (0, b"")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert b"\x1b[1m" in shown
    assert max(map(len, lines)) <= 60
    assert "  copy live -> checkpoint" in [line.rstrip() for line in lines], "narrow: a line of its own"


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # the other side has closed it
        return b""


Setup = Callable[[Path], object]


def _file(content: str | bytes) -> Setup:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / "f").write_bytes(data)


def _config(**keys: Any) -> Setup:
    return _file(json.dumps({"model_type": "mamba", "intermediate_size": 64, "state_size": 16, **keys}))


MAMBA = _config(num_hidden_layers=2, conv_kernel=4)
WIDE = TINY.replace("width = 3", f"width = {2**62}")

MISTAKES: dict[str, tuple[Setup, tuple[str, ...], str]] = {
    "no file": (lambda _: None, (), "f: No such file or directory"),
    "a folder": (lambda folder: (folder / "f").mkdir(), (), "f: Is a directory"),
    "not UTF-8": (_file(b"name = '\xff'"), (), "f: byte 8 is not UTF-8"),
    "too long": (_file(b" " * (4 * 2**20 + 1)), (), "f: longer than 4194304 bytes"),
    "nothing in it": (_file(""), (), "f: this is neither a state circuit nor a model's config.json"),
    "neither": (_file('{"hello": 1}'), (), "f: this is neither a state circuit nor a model's config.json"),
    "no TOML": (_file("name =\n"), (), "f:1: invalid TOML"),
    "no JSON": (_file('{"name": }'), (), "f:1: invalid JSON"),
    "no object": (_file('{"a": [1, 2}'), (), "f:1: invalid JSON"),
    "deep JSON": (_file('{"a":' + "[" * 100_000), (), "f: unreadable JSON: a number is too long, or it is"),
    "a long number": (_file("a = " + "9" * 5000), (), "f: unreadable TOML: a number is too long, or it is"),
    "a key is missing": (_config(num_hidden_layers=2), (), "conv_kernel is missing"),
    "no such model": (_file('{"model_type": "gpt2"}'), (), '"gpt2" is not known'),
    "json of all conventions": (MAMBA, ("--json",), "--json needs --convention"),
    "no such convention": (MAMBA, ("--convention", "tgi"), "unknown convention 'tgi'"),
    "no such columns": (MAMBA, ("--convention", "vllm", "--conv-columns", "5"), "conv-columns is '5'"),
    "no such conv dtype": (MAMBA, ("--convention", "vllm", "--conv-dtype", "f64"), "conv-dtype: format 'f64'"),
    "too many columns": (MAMBA, ("--convention", "vllm", "--speculative-tokens", "65537"), "speculative_tokens: input"),
    "columns without a name": (MAMBA, ("--speculative-tokens", "2"), "only vLLM keeps columns for speculative tokens"),
    "parts without a name": (MAMBA, ("--conv-dtype", "f32"), "a convention needs a name or all of its parts"),
    "a convention for a circuit": (_file(TINY), ("--convention", "vllm"), "convention (--convention) is for a model's"),
    "columns for a circuit": (_file(TINY), ("--conv-columns", "K"), "conv_columns (--conv-columns) is for a model's"),
    "snapshots for a circuit": (_file(TINY), ("--snapshots",), "snapshots (--snapshots) is for a model's config.json"),
    "no dtype": (_file(TINY), (), "state l0.mix.h: no dtype is given for its format {h}"),
    "no such dtype": (_file(TINY), ("--format", "h=f64"), "state-cost.formats.h: input should be 'f32', 'f16'"),
    "no key": (_file(TINY), ("--format", "=f32"), "'=f32' is not of the form KEY=DTYPE"),
    "no equals sign": (_file(TINY), ("--format", "f32"), "'f32' is not of the form KEY=DTYPE"),
    "a key twice": (
        _file(TINY),
        ("--format", "h=f32", "--format", "h=f16"),
        "state-cost.formats: the key 'h' is given twice: f32 and f16",
    ),
    "blocks alone": (_file(TINY), ("--kv-blocks", "4"), "kv_blocks (--kv-blocks) needs kv_block_size"),
    "block size alone": (_file(TINY), ("--kv-block-size", "4"), "kv_block_size (--kv-block-size) needs kv_blocks"),
    "negative": (_file(TINY), ("--slots", "-1"), "state-cost.slots: input should be greater than or equal to 1"),
    "no number": (_file(TINY), ("--slots", "many"), "state-cost.slots: input should be a valid integer"),
    "many slots": (_file(TINY), ("--slots", "65537"), "state-cost.slots: input should be less than or equal to 65536"),
    "a huge number": (_file(TINY), ("--slots", "9" * 5000), "state-cost.slots: "),
    "no such rate": (_file(TINY), ("--rate", "nan"), "state-cost.rate: input should be a finite number"),
    "a huge rate": (_file(TINY), ("--rate", "1e99"), "state-cost.rate: input should be between"),
    "no rate": (_file(TINY), ("--rate", "0"), "state-cost.rate: input should be between"),
    "blocks overflow": (
        _file(TINY + '[[block.mix.state]]\nid="k"\nkind="paged_kv"\nformat="f32"\nshape="2"'),
        ("--format", "h=f32", "--kv-blocks", str(2**63), "--kv-block-size", "2"),
        "state l0.mix.k overflows",
    ),
    "a state overflows": (_file(WIDE), ("--format", "h=f32"), "overflows"),
    "slots overflow": (
        _file(WIDE.replace(" x 2", "")),
        ("--format", "h=f16", "--slots", "4"),
        "state l0.mix.h overflows",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(mistake: str, command: Callable[..., Finished], tmp_path: Path) -> None:
    setup, words, message = MISTAKES[mistake]
    setup(tmp_path)
    ran = command("f", *words)

    assert (ran.status, ran.out) == (2, "")
    said, *hints = ran.err.splitlines()
    assert message in said
    assert said.startswith("proofstream: error: ")
    assert all(hint.startswith("proofstream: hint: ") for hint in hints)
    assert len(hints) <= 1
    assert len(said) < 400


@pytest.mark.parametrize("text", ["[1, 2]", '// a comment\n{"model_type": "mamba"}'])
def test_a_broken_file_named_json_gets_a_message_about_json(
    text: str, command: Callable[..., Finished], tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text(text)
    ran = command("c.json")
    assert ran.status == 2
    assert "JSON" in ran.err
    assert "TOML" not in ran.err


def test_toml_may_be_named_json(command: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(TINY)
    assert command("c.json", "--format", "h=f32").status == 0


def test_no_path_and_a_dash(command: Callable[..., Finished]) -> None:
    assert command("").err == "proofstream: error: '': Is a directory\n"
    said, hint = command("-").err.splitlines()
    assert said == "proofstream: error: -: No such file or directory"
    assert hint == "proofstream: hint: standard input is /dev/stdin"


def test_blocks_of_a_missing_cache_are_noted(command: Callable[..., Finished], tmp_path: Path) -> None:
    MAMBA(tmp_path)
    words = ("f", "--kv-blocks", "10", "--kv-block-size", "16")
    note = "kv_blocks counts nothing: none of these states is a side of a KV cache"
    assert f"note  {note}\n" in command(*words).out
    assert note in json.loads(command(*words, "--convention", "vllm", "--json").out)["assumptions"]
    (tmp_path / "f").write_text(TINY + '[[block.mix.state]]\nid="k"\nkind="paged_kv"\nformat="f32"\nshape="2"')
    assert "counts nothing" not in command(*words, "--format", "h=f32").out


def test_a_path_cannot_steer_the_terminal(command: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "a\nb\x1b").write_text("name =")
    for name, printed in (("a\nb\x1b", "a␊b␛"), ("no\nfile", "no␊file")):
        ran = command(name)
        assert (ran.status, ran.err.count("\n")) == (2, 1)
        assert f"proofstream: error: {printed}:" in ran.err


def test_the_hint_names_the_flag(command: Callable[..., Finished], tmp_path: Path) -> None:
    _file(TINY)(tmp_path)
    assert command("f").err.splitlines()[1] == "proofstream: hint: give one, as in --format h=bf16"
    assert command("f", "--format", "h=bf16").status == 0


def test_the_largest_number_is_exact(command: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "f").write_text(WIDE.replace(f"{2**62}", f"{2**62 - 1}").replace(" x 2", ""))
    ran = command("f", "--format", "h=f32", "--rate", "3", "--json")

    assert f'"bytes_per_sequence": {4 * (2**62 - 1)},' in ran.out
    document = json.loads(ran.out)
    assert document["bytes_per_second"]["verify_checkpoint"] == 12 * (2**62 - 1)
    shown = command("f", "--format", "h=f32")
    assert f"{4 * (2**62 - 1):,}" in shown.out


def test_quiet_and_switched_off(command: Callable[..., Finished]) -> None:
    assert command(CIRCUIT, *F32, "--quiet").out == command(CIRCUIT, *F32).out
    ran = command(CIRCUIT, *F32, "--no-plugin", "state-cost")
    assert ran.status == 2
