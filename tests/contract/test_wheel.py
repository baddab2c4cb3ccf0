"""The wheel installs everything, and each extra is enough for what it promises."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contract.conftest import Environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # environments are made in the fixtures

REPOSITORY = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
PLUGINS: dict[str, str] = PYPROJECT["project"]["entry-points"]["proofstream"]


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_every_file_of_the_packages_is_inside_and_nothing_else(wheel: Path) -> None:
    expected = {
        str(path.relative_to(root))
        for root in (REPOSITORY / "src", REPOSITORY / "plugins")
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path.name != "README.md"
    }

    assert names_in(wheel) == expected
    assert {"proofstream/py.typed", "proofstream_demo/digits.npz"} <= expected


def test_the_source_distribution_gives_the_same_wheel(wheel: Path, wheel_from_sdist: Path) -> None:
    assert names_in(wheel_from_sdist) == names_in(wheel)


def test_every_plugin_is_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        declared = archive.read(name).decode()

    for plugin, target in PLUGINS.items():
        assert f"{plugin} = {target}" in declared
        assert f"{target.partition(':')[0]}/__init__.py" in names_in(wheel)
    assert {path.parent.name for path in (REPOSITORY / "plugins").glob("*/__init__.py")} == {
        target.partition(":")[0] for target in PLUGINS.values()
    }


def test_the_metadata_bounds_versions_from_below_only(wheel: Path) -> None:
    (dist,) = metadata.distributions(path=[str(wheel)])
    required = dist.requires or []

    assert len(required) > 5
    assert [line for line in required if re.search(r"[=~<]=|<|~", line.partition(";")[0].replace(">=", ""))] == []
    assert dist.metadata["License-Expression"] == "Apache-2.0"
    assert dist.metadata.get_all("License-File") == ["LICENSE"]


def test_an_extra_is_named_as_the_plugin_that_needs_it(core_environment: Environment) -> None:
    plugins = listing(core_environment)

    missing = {name for name, row in plugins.items() if row["status"] == "missing"}
    assert missing == {"demo", "gpu", "otel", "rerun"}
    assert missing <= PYPROJECT["project"]["optional-dependencies"].keys()
    for name in missing:
        assert plugins[name]["hint"] == f"pip install 'proofstream[{name}]'"
    assert {row["status"] for name, row in plugins.items() if name not in missing} == {"available"}


def listing(environment: Environment) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(environment.proofstream("plugins", "--json"))}


def test_asking_for_a_missing_plugin_says_how_to_install_it(core_environment: Environment, wire_data: Path) -> None:
    stream = wire_data / "stark-without-proof.jsonl"
    done = core_environment.run("-m", "proofstream", "run", stream, "--plugin", "otel", expect=2)

    assert done.stderr.splitlines()[-1] == "proofstream: hint: pip install 'proofstream[otel]'"


def test_the_core_alone_passes_its_own_tests(core_environment: Environment) -> None:
    core_environment.install("pytest", "pytest-timeout", "hypothesis")
    tests = REPOSITORY / "tests" / "core"
    cache = core_environment.folder / "cache"

    done = core_environment.run(
        "-m", "pytest", "-q", "-c", REPOSITORY / "pyproject.toml", "-m", "not slow", "-o", f"cache_dir={cache}", tests
    )

    assert re.search(r"\d+ passed", done.stdout.splitlines()[-1])
    assert core_environment.run("-c", "import proofstream; print(proofstream.__file__)").stdout.startswith(
        str(core_environment.folder)
    )


def check_replay(environment: Environment, wire_data: Path) -> None:
    """Replay a real proof into an OTLP file and compare it with what a correct reader finds."""
    expected = json.loads((wire_data / "smollm2-135m-cpu.expect.json").read_text("utf-8"))

    stream = wire_data / "smollm2-135m-cpu.jsonl"
    environment.proofstream("run", stream, "--otlp-file", "otlp", "--no-console")

    lines = (environment.folder / "otlp" / "traces.jsonl").read_text("utf-8").splitlines()
    spans = [
        span
        for line in lines
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    layers = [span for span in spans if span["name"].startswith("layer ")]
    assert len(layers) == sum(proof["layers_started"] for proof in expected["proofs"])
    assert sum(span["name"] == "proof" for span in spans) == len(expected["proofs"])


def test_the_extra_otel_replays_a_proof_into_a_trace(otel_environment: Environment, wire_data: Path) -> None:
    assert listing(otel_environment)["otel"]["status"] == "available"
    check_replay(otel_environment, wire_data)


def test_a_plain_checkout_installs_with_an_extra(
    checkout: Path, new_environment: Callable[[str], Environment], wire_data: Path
) -> None:
    environment = new_environment("from-checkout")
    environment.install(f"{checkout}[otel]")

    assert listing(environment)["otel"]["status"] == "available"
    check_replay(environment, wire_data)
