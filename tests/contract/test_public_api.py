"""The public face names everything that it offers, and every part of it is documented and typed."""

from __future__ import annotations

import inspect
import re
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import proofstream
from proofstream import testing, timelines

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = "\n".join(
    path.read_text("utf-8") for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
)
GUIDE = (REPOSITORY / "docs" / "plugins.md").read_text("utf-8")
FOR_TESTS = sorted(
    name
    for name, value in vars(testing).items()
    if not name.startswith("_") and (name == "START_UNIX_NANO" or getattr(value, "__module__", "") == testing.__name__)
)


def kind_and_name(name: str) -> tuple[int, str]:
    """Return a key that sorts constants, then classes, then the rest, each by name, as the linter sorts `__all__`."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


def test_all_names_everything_once_and_in_order() -> None:
    offered = {
        name
        for name, value in ((name, getattr(proofstream, name)) for name in dir(proofstream))
        if not name.startswith("_") and name != "annotations" and not isinstance(value, ModuleType)
    }

    assert set(proofstream.__all__) == offered | {"__version__"}
    assert proofstream.__all__ == sorted(set(proofstream.__all__), key=kind_and_name)


def test_a_name_that_it_does_not_offer_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'proofstream' has no attribute 'Timeline'"):
        proofstream.Timeline  # type: ignore[attr-defined] # noqa: B018


def test_a_name_that_is_loaded_later_is_that_of_its_module() -> None:
    assert proofstream.Timelines is timelines.Timelines
    assert vars(proofstream)["Timelines"] is timelines.Timelines


@pytest.mark.parametrize("name", proofstream.__all__)
def test_everything_in_it_is_documented(name: str) -> None:
    value = getattr(proofstream, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        written = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        assert written, f"{name} has no docstring"
        assert not written.startswith(f"{name}("), f"{name} has only the docstring that dataclasses make"


@pytest.mark.parametrize("name", [*proofstream.__all__, *FOR_TESTS])
def test_everything_in_it_stands_in_a_document(name: str) -> None:
    assert re.search(rf"\b{name}\b", DOCUMENTS)


def test_what_tests_may_use_is_known() -> None:
    named = {"FixedClock", "InlineHost", "PluginHost", "RecordingPlugin", "START_UNIX_NANO", "envelopes", "read_stream"}
    assert set(FOR_TESTS) == named


@pytest.mark.parametrize(
    "cls",
    [
        proofstream.Interval,
        proofstream.Proof,
        proofstream.ObservedSession,
        proofstream.Artefact,
        proofstream.SourceType,
        proofstream.Envelope,
        proofstream.PluginContext,
        testing.PluginHost,
    ],
)
def test_the_guide_names_every_attribute_that_a_class_documents(cls: type) -> None:
    documented = set(re.findall(r"^        (\w+): ", (cls.__doc__ or "").partition("Attributes:")[2], re.MULTILINE))
    properties = {name for name, value in vars(cls).items() if isinstance(value, property) and not name.startswith("_")}
    rows = re.findall(r"^\| (`[^|]+) \|", GUIDE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}

    assert documented | properties
    assert (documented | properties) - named <= NOT_FOR_PLUGINS.get(cls, set())


NOT_FOR_PLUGINS: dict[type, set[str]] = {
    proofstream.ObservedSession: {"timelines"},
    testing.PluginHost: {"is_closed"},
}


def test_type_checkers_are_told_to_look_inside() -> None:
    assert (Path(proofstream.__file__).parent / "py.typed").is_file()


def test_the_version_is_that_of_the_distribution() -> None:
    assert proofstream.__version__ == metadata.version("proofstream")
