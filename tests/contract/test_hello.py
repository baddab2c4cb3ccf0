"""The example's plugin, installed beside the wheel, works like those that come with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contract.conftest import Environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # environments are made in the fixtures

EXAMPLE = Path(__file__).parents[2] / "examples" / "proofstream_hello"


def listed(environment: Environment, what: str, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in json.loads(environment.proofstream(what, "--json"))}


def events_in(recording: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recording.read_text("utf-8").splitlines()]


def test_it_is_listed_with_its_distribution(hello_environment: Environment) -> None:
    row = listed(hello_environment, "plugins", "name")["hello"]

    assert (row["status"], row["distribution"], row["version"]) == ("available", "proofstream-hello", "0.1.0")


def test_its_event_type_is_known(hello_environment: Environment) -> None:
    row = listed(hello_environment, "events", "kind")["HelloSaid"]

    assert (row["plugin"], row["fields"]) == ("hello", ["greeting", "model_name"])


def test_its_source_is_listed_and_its_flag_is_in_the_help(hello_environment: Environment) -> None:
    assert listed(hello_environment, "sources", "source")["hello:MODEL"]["plugin"] == "hello"
    assert "--hello NAME" in hello_environment.proofstream("run", "--help")


def test_its_derived_events_are_recorded_and_replayed(hello_environment: Environment) -> None:
    folder = hello_environment.folder

    hello_environment.proofstream("run", "hello:digits", "--hello", "Ada", "--record", "live.jsonl", "--no-console")
    hello_environment.proofstream("run", "live.jsonl", "--record", "replayed.jsonl", "--no-console")

    recorded = events_in(folder / "live.jsonl")
    kinds = [next(iter(line["event"])) for line in recorded]
    assert sorted(kinds) == ["HelloSaid", "ProofComplete", "ProofStart", "SessionClosed", "SessionOpened"]
    assert kinds.index("ProofStart") < kinds.index("HelloSaid")
    (said,) = [line for line in recorded if "HelloSaid" in line["event"]]
    assert said["origin"] == "hello"
    assert said["event"]["HelloSaid"] == {"greeting": "hello from Ada", "model_name": "digits"}
    assert [line["event"] for line in events_in(folder / "replayed.jsonl")] == [line["event"] for line in recorded]


def test_its_configuration_can_stand_in_a_file(hello_environment: Environment) -> None:
    file = hello_environment.folder / "hello.toml"
    file.write_text('[hello]\nname = "Emmy"\n', "utf-8")

    hello_environment.proofstream(
        "run", "hello:digits", "--config", file, "--record", "configured.jsonl", "--no-console"
    )

    assert "hello from Emmy" in (hello_environment.folder / "configured.jsonl").read_text("utf-8")


def test_a_mistake_in_its_configuration_is_one_line(hello_environment: Environment) -> None:
    done = hello_environment.run(
        "-m", "proofstream", "run", "hello:digits", "--no-console", "--hello", "Ada", "--set", "hello.nmae=x", expect=2
    )

    assert "hello.nmae is not a setting" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("switch", [[], ["--no-plugin", "hello"]])
def test_switched_off_it_is_never_imported(hello_environment: Environment, switch: list[str]) -> None:
    start = "import sys; from proofstream.command.cli import main; main(sys.argv[1:])"
    look = f"{start}; print('proofstream_hello' in sys.modules)"

    done = hello_environment.run("-c", look, "plugins", "--json", *switch)

    rows, _, imported = done.stdout.rpartition("]")
    status = {row["name"]: row["status"] for row in json.loads(rows + "]")}["hello"]
    assert (status, imported.strip()) == (("disabled", "False") if switch else ("available", "True"))


def test_its_own_tests_pass(hello_environment: Environment) -> None:
    tests = hello_environment.folder / "tests"
    tests.mkdir()
    for file in EXAMPLE.glob("test_*.py"):
        shutil.copy(file, tests)

    done = hello_environment.run("-m", "pytest", "-q", "-W", "error", tests)

    assert "5 passed" in done.stdout
