"""The public face says all that it offers, and every part of it is documented and typed."""

from __future__ import annotations

import inspect
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import proofstream


def kind_and_name(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, each by name: the order that the linter keeps `__all__` in."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


def test_all_names_everything_once_and_in_order() -> None:
    offered = {
        name
        for name, value in vars(proofstream).items()
        if not name.startswith("_") and name != "annotations" and not isinstance(value, ModuleType)
    }

    assert set(proofstream.__all__) == offered | {"__version__"}
    assert proofstream.__all__ == sorted(set(proofstream.__all__), key=kind_and_name)


@pytest.mark.parametrize("name", proofstream.__all__)
def test_everything_in_it_is_documented(name: str) -> None:
    value = getattr(proofstream, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        written = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        assert written, f"{name} has no docstring"
        assert not written.startswith(f"{name}("), f"{name} has only the docstring that dataclasses make"


def test_type_checkers_are_told_to_look_inside() -> None:
    assert (Path(proofstream.__file__).parent / "py.typed").is_file()


def test_the_version_is_that_of_the_distribution() -> None:
    assert proofstream.__version__ == metadata.version("proofstream")
