"""Each distribution that is imported is declared for the package that imports it, and no other is declared.

Tools such as deptry compare top-level names only, so for them `opentelemetry-sdk` brings all of `opentelemetry`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PLUGINS = {target.partition(":")[0]: name for name, target in PROJECT["entry-points"]["proofstream"].items()}
PACKAGES = [REPOSITORY / "src" / "proofstream", *(REPOSITORY / "plugins" / package for package in PLUGINS)]
OURS = {package.name for package in PACKAGES} | {"proofstream_start"}
FOUND_BY_ENTRY_POINTS = {"opentelemetry-exporter-otlp"}
"""Distributions that are imported by the names that they have registered with the SDK."""


def canonical(requirement: str) -> str:
    """The distribution that a requirement names, in normalized spelling."""
    (name,) = re.findall(r"^[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules(source: str) -> Iterator[str]:
    """The absolute names that a module imports, also inside of functions and by `import_module("name")`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                # `from opentelemetry import trace` names a module only together with the name that it imports.
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Call(
                func=ast.Name("import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module))],
            ):
                yield module
            case _:
                pass


@cache
def owners() -> dict[Path, str]:
    """The distribution that each installed Python file belongs to."""
    return {
        Path(str(file.locate())): name
        for dist in metadata.distributions()
        for name in [canonical(dist.metadata["Name"])]
        for file in dist.files or ()
        if file.suffix in {".py", ".so", ".pyd"}
    }


@cache
def distribution_of(module: str) -> str:
    """The distribution that brings a module. Many share a namespace such as `opentelemetry`: the full name counts."""
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}".lstrip(".")
        spec = find_spec(name)
        assert spec is not None, f"{module} is not installed"
        if spec.origin is not None:
            return owners()[Path(spec.origin)]
    raise AssertionError(f"{module} is a namespace package")


def imported_by(package: Path) -> set[str]:
    """The distributions that a package imports."""
    modules = {name for path in package.rglob("*.py") for name in imported_modules(path.read_text("utf-8"))}
    return {
        distribution_of(module) for module in modules if module.partition(".")[0] not in sys.stdlib_module_names | OURS
    }


def extras_of(package: Path) -> dict[str, list[str]]:
    """The extras named after a plugin. The others belong to the core."""
    owner = {extra: name for extra in EXTRAS for name in PLUGINS.values() if f"{extra}-".startswith(f"{name}-")}
    return {extra: needed for extra, needed in EXTRAS.items() if owner.get(extra) == PLUGINS.get(package.name)}


def declared(requirements: list[str]) -> set[str]:
    """The distributions of requirements whose modules are imported, without references to our own extras."""
    return {canonical(requirement) for requirement in requirements} - {"proofstream"} - FOUND_BY_ENTRY_POINTS


def declared_for(package: Path) -> set[str]:
    """The distributions that are declared for one package in particular."""
    core: list[str] = PROJECT["dependencies"] if package.name == "proofstream" else []
    return declared([*core, *(line for needed in extras_of(package).values() for line in needed)])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_what_a_package_imports_is_declared_for_it(package: Path) -> None:
    undeclared = imported_by(package) - declared_for(package) - declared(PROJECT["dependencies"])
    assert undeclared == set()


def test_what_is_declared_is_imported() -> None:
    core, *plugins = PACKAGES
    everything = {name for package in PACKAGES for name in imported_by(package)}
    assert declared_for(core) - everything == set()
    assert [declared_for(plugin) - imported_by(plugin) for plugin in plugins] == [set()] * len(plugins)


@pytest.mark.parametrize(
    ("source", "distribution"),
    [
        ("from opentelemetry import trace", "opentelemetry-api"),
        ("from opentelemetry.sdk import trace", "opentelemetry-sdk"),
        ("def f():\n    from opentelemetry.proto.trace.v1.trace_pb2 import Span", "opentelemetry-proto"),
        ("import importlib\npa = importlib.import_module('pyarrow')", "pyarrow"),
        ("import rerun.blueprint", "rerun-sdk"),
    ],
)
def test_a_module_is_traced_to_the_distribution_that_brings_it(source: str, distribution: str) -> None:
    found = {distribution_of(module) for module in imported_modules(source) if module != "importlib"}
    assert found == {distribution}
