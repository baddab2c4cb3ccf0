"""Reading the command line before plugins are imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofstream import Option, OptionKind, UsageError
from proofstream.command.arguments import read_early, settle_optional_values

OTLP = Option(
    flag="--otlp",
    key="endpoint",
    kind=OptionKind.OPTIONAL_VALUE,
    summary="",
    value_prefixes=("http://", "https://", "grpc://"),
)


def test_early_arguments() -> None:
    words = ["--config", "c.toml", "--plugin=a", "--no-plugin", "b", "--plugin-file", "x.py", "--plugin-file=y.py"]
    early = read_early(["run", "f", *words, "--", "--plugin", "c", "-v"])
    assert (early.config, early.asked, early.blocked) == (Path("c.toml"), ["a"], ["b"])
    assert (early.plugin_files, early.verbosity) == ([Path("x.py"), Path("y.py")], 0)


@pytest.mark.parametrize(
    ("words", "verbosity"),
    [(["-v"], 1), (["-vv", "--verbose"], 3), (["-q", "--quiet"], -2), (["-vq", "-vx", "v"], 0), ([], 0)],
)
def test_how_much_is_said_is_known_before_plugins_are_imported(words: list[str], verbosity: int) -> None:
    assert read_early(["run", *words]).verbosity == verbosity


@pytest.mark.parametrize("flag", ["--config", "--plugin", "--no-plugin", "--plugin-file"])
def test_a_flag_without_its_value_is_left_to_the_full_parser(flag: str) -> None:
    early = read_early(["run", "f", flag])
    assert (early.config, early.asked, early.blocked) == (None, [], [])


@pytest.mark.parametrize(
    "address", ["localhost:4318", "collector:4318", "10.0.0.1:4317", "collector.example:4318/v1", "[::1]:4318"]
)
def test_an_address_without_its_scheme_gets_a_hint(address: str) -> None:
    with pytest.raises(UsageError, match="write http:// or https:// or grpc:// before the address"):
        settle_optional_values(["run", "f.jsonl", "--otlp", address], [OTLP])


@pytest.mark.parametrize(
    ("words", "settled"),
    [
        (["--otlp", "file.jsonl"], ["--otlp=", "file.jsonl"]),
        (["--otlp", "http://host:1", "file.jsonl"], ["--otlp=http://host:1", "file.jsonl"]),
        (["file.jsonl", "--otlp"], ["file.jsonl", "--otlp="]),
        (["--otlp=x", "--otlp-file", "d"], ["--otlp=x", "--otlp-file", "d"]),
        (["--", "--otlp", "x"], ["--", "--otlp", "x"]),
        (["--otlp", "ftp://host:1"], ["--otlp=ftp://host:1"]),
        (["--otlp", '"http://host:1"'], ['--otlp="http://host:1"']),
        (["--otlp", "tcp://127.0.0.1:9000"], ["--otlp=", "tcp://127.0.0.1:9000"]),
        (["--otlp", "tcp:9000"], ["--otlp=", "tcp:9000"]),
    ],
)
def test_an_optional_value_is_taken_only_if_it_looks_like_one(words: list[str], settled: list[str]) -> None:
    assert settle_optional_values(words, [OTLP], {"tcp": "the source"}) == settled
