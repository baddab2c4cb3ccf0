"""The files that are shipped for people to run, as far as they can be checked without running them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
COLLECTOR = (ROOT / "otel-collector.yaml").read_text("utf-8")


def test_the_collector_takes_its_configuration_as_it_is(backends: Path) -> None:
    result = subprocess.run(
        [backends / "otelcol", "validate", "--config", ROOT / "otel-collector.yaml"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("name", "replaced"), [("prometheus", "otlp_http/prometheus"), ("otlp_http/loki", "file/logs")]
)
def test_the_alternative_in_the_comments_works(backends: Path, tmp_path: Path, name: str, replaced: str) -> None:
    block = re.search(rf"^  # {name}:\n(?:  #   .*\n)+", COLLECTOR, flags=re.MULTILINE)
    assert block
    chosen = COLLECTOR.replace(block[0], block[0].replace("  # ", "  "))
    config = tmp_path / "otel-collector.yaml"
    config.write_text(chosen.replace(f"exporters: [{replaced}]", f"exporters: [{name}]"), "utf-8")
    assert f"[{name}]" in config.read_text("utf-8")
    result = subprocess.run(
        [backends / "otelcol", "validate", "--config", config],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_prometheus_takes_its_configuration_as_it_is(prometheus: Any) -> None:
    result = subprocess.run(
        [prometheus.promtool, "check", "config", ROOT / "deploy" / "prometheus.yaml"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_compose_is_valid_where_there_is_a_client() -> None:
    # Not every machine has the client with its plugin; what the file says of files and ports is tested below.
    client = shutil.which("docker")
    if client and subprocess.run([client, "compose", "version"], capture_output=True, check=False).returncode == 0:
        result = subprocess.run(
            [client, "compose", "-f", ROOT / "compose.yaml", "config", "--quiet"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr


def test_compose_mounts_what_exists_pins_images_and_listens_on_this_machine_only() -> None:
    mounted = re.findall(r"^ +- \./(\S+?):/", COMPOSE, flags=re.MULTILINE)
    assert len(mounted) == 6
    assert [path for path in mounted if not (ROOT / path).exists()] == []
    images = re.findall(r"^ +image: (\S+)$", COMPOSE, flags=re.MULTILINE)
    assert len(images) == 4
    assert all(re.fullmatch(r"\S+:v?\d+\.\d+\.\d+", image) for image in images)
    ports = re.findall(r'^ +- "(\S+:\d+)"$', COMPOSE, flags=re.MULTILINE)
    assert len(ports) == 6
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_runs_the_versions_that_are_tested() -> None:
    versions = (ROOT / "scripts" / "backends.d" / "versions").read_text("utf-8")
    manifest = (ROOT / "scripts" / "backends.d" / "otelcol-builder.yaml").read_text("utf-8")
    said = dict(re.findall(r"^ +image: (?:\S+/)?([\w-]+):v?(\S+)$", COMPOSE, flags=re.MULTILINE))
    assert f"  version: {said['opentelemetry-collector-contrib']}\n" in manifest
    assert f"v{said['jaeger']}" in versions
    assert f"# v{said['prometheus']}." in versions


def test_every_setting_of_compose_is_one_of_the_configuration_files() -> None:
    known = set(re.findall(r"\$\{env:(\w+)", COLLECTOR + (ROOT / "deploy" / "jaeger.yaml").read_text("utf-8")))
    named = set(re.findall(r"^ +((?:OTELCOL|JAEGER|PROMETHEUS)_\w+):", COMPOSE, flags=re.MULTILINE))
    assert named <= known
    assert {"OTELCOL_GRPC", "OTELCOL_HTTP", "OTELCOL_HEALTH", "JAEGER_OTLP", "PROMETHEUS_OTLP"} <= named


def test_the_collector_is_built_from_the_versions_of_its_manifest() -> None:
    folder = ROOT / "scripts" / "backends.d"
    manifest = re.findall(r"^ +- gomod: (\S+ \S+)$", (folder / "otelcol-builder.yaml").read_text("utf-8"), re.MULTILINE)
    assert len(manifest) > 10
    resolved = (folder / "go.mod").read_text("utf-8")
    assert [module for module in manifest if f"\t{module}\n" not in resolved] == []


def test_the_script_names_what_is_missing(tmp_path: Path) -> None:
    result = subprocess.run(
        [ROOT / "scripts" / "backends", "--where"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr == ("backends: not built yet: otelcol jaeger prometheus promtool (run scripts/backends)\n")
