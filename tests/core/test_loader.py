"""The loader: one bad plugin never keeps another from loading, and each says why it cannot be used."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest

from proofstream import PluginError, UsageError, hookimpl, open_session
from proofstream.health import PluginStatus
from proofstream.loader import PluginRecord, Registry, Selection, load
from proofstream.testing import RecordingPlugin

HEADER = """
from __future__ import annotations
import proofstream
from proofstream import hookimpl
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    return Site(tmp_path)


class Site:
    """A folder of installed distributions, each with a plugin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: list[str] = []

    def install(self, name: str, body: str, *, distribution: str | None = None, module: str | None = None) -> None:
        module = module or f"plugin_{name}_{self.folder.name.replace('-', '_')}_{len(self.modules)}"
        self.modules.append(module)
        (self.folder / f"{module}.py").write_text(HEADER + body)
        info = self.folder / f"{distribution or name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution or name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[proofstream]\n{name} = {module}:Plugin\n")

    def entry_points(self) -> list[metadata.EntryPoint]:
        found: list[metadata.EntryPoint] = []
        for distribution in metadata.distributions(path=[str(self.folder)]):
            found.extend(distribution.entry_points)
        return found

    def load(self, selection: Selection | None = None) -> Registry:
        return load(selection or Selection(), found=self.entry_points())


GOOD = """
class Plugin:
    @hookimpl
    def proofstream_consume(self, batch):
        return None
"""


def the(registry: Registry, name: str) -> PluginRecord:
    return registry.records[name]


def test_a_good_plugin_is_available_with_its_distribution(site: Site) -> None:
    site.install("good", GOOD, distribution="some-dist")
    record = the(site.load(), "good")
    assert (record.status, record.distribution, record.version) == (PluginStatus.AVAILABLE, "some-dist", "1.5")
    assert record.label == "good (some-dist 1.5)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise RuntimeError('at import')", "RuntimeError: at import"),
        ("def broken(:", "SyntaxError"),
        ("class Other: pass", "AttributeError"),
        (
            "class Plugin:\n    def __init__(self):\n        raise OSError('no device')",
            "OSError: no device",
        ),
        (
            "class Plugin:\n    @hookimpl\n    def proofstream_consumes(self, batch): ...",
            "Plugin implements proofstream_consumes, which is not a hook; did you mean proofstream_consume?",
        ),
        (
            "class Plugin:\n    def proofstream_consume(self, batch): ...",
            "proofstream_consume is not marked with @proofstream.hookimpl",
        ),
        (
            "class Plugin:\n    @hookimpl\n    def proofstream_consume(self, batches): ...",
            "batches",
        ),
        (
            "class Plugin:\n    @hookimpl(wrapper=True)\n    def proofstream_consume(self, batch):\n        yield",
            "proofstream_consume is a wrapper",
        ),
        (
            "class Plugin:\n    @hookimpl\n    def proofstream_options(self):\n        raise ValueError('no options')",
            "ValueError: no options",
        ),
        (
            "class Plugin:\n    @hookimpl\n    def proofstream_event_types(self):\n        return [int]",
            "not a subclass of ProofEvent",
        ),
        (
            "class Plugin:\n    derives = 'Log'\n    @hookimpl\n    def proofstream_consume(self, batch): ...",
            "derives is 'Log'; it must be a tuple of kinds",
        ),
        (
            "class Plugin:\n    derives = ['Log', 'costs']\n    @hookimpl\n    def proofstream_unconfigure(self): ...",
            "derives is ['Log', 'costs']; it must be a tuple of kinds",
        ),
        (
            "class Plugin:\n    complete = 'yes'\n    @hookimpl\n    def proofstream_consume(self, batch): ...",
            "complete is 'yes'; it must be True or False",
        ),
        ("import proofstream_nowhere_to_be_found.part", "needs proofstream_nowhere_to_be_found"),
    ],
)
def test_a_bad_plugin_says_why_and_the_others_load(site: Site, body: str, reason: str) -> None:
    site.install("bad", body)
    site.install("good", GOOD)
    registry = site.load()
    assert the(registry, "good").status is PluginStatus.AVAILABLE
    record = the(registry, "bad")
    assert record.status in (PluginStatus.BROKEN, PluginStatus.MISSING)
    assert record.reason is not None
    assert reason in record.reason
    assert "\n" not in record.reason
    with pytest.raises(PluginError, match="plugin bad"):
        registry.require("bad")


def test_a_module_that_is_not_installed_makes_a_plugin_missing_with_a_hint(site: Site) -> None:
    site.install("gpu", "import no_such_sdk", distribution="some-dist")
    record = the(site.load(), "gpu")
    assert record.status is PluginStatus.MISSING
    assert record.hint == "pip install 'some-dist[gpu]'"


def test_a_required_module_is_missed_before_anything_is_configured(site: Site) -> None:
    body = """
class Plugin:
    requires = ('json', 'no_such_sdk.trace')

    @hookimpl
    def proofstream_options(self):
        return [proofstream.Option(flag='--sdk', key='k', kind=proofstream.OptionKind.VALUE, summary='s')]
"""
    site.install("sdk", body)
    registry = site.load()
    record = the(registry, "sdk")
    assert (record.status, record.hint) == (PluginStatus.MISSING, "pip install 'sdk[sdk]'")
    # Its flag stays known, so that its user learns what to install.
    assert registry.options["--sdk"][1] == "sdk"
    assert registry.automatic(by_command=True) == []


@pytest.mark.parametrize(
    ("environ", "names"), [({}, []), ({"B": " "}, []), ({"B": "1", "C": "1"}, ["B"]), ({"D": "1"}, [])]
)
def test_a_variable_that_wants_a_plugin_in_vain_is_told(site: Site, environ: dict[str, str], names: list[str]) -> None:
    body = "class Plugin:\n    requires = ('no_such_sdk',)\n    wanted_by = ('A', 'B', 'C')\n"
    site.install("sdk", body)
    site.install("good", GOOD)
    registry = site.load()
    assert registry.unmet_wishes(registry.enabled(by_command=True), environ) == [
        f"{name} is set, and plugin sdk cannot be used: needs no_such_sdk, which is not installed "
        f"(pip install 'sdk[sdk]')"
        for name in names
    ]


@pytest.mark.parametrize("declared", ["'A'", "(1,)", "('',)", "None"])
def test_wanted_by_must_name_variables(site: Site, declared: str) -> None:
    site.install("sdk", f"class Plugin:\n    wanted_by = {declared}\n")
    record = the(site.load(), "sdk")
    assert record.status is PluginStatus.BROKEN
    assert "it must be a tuple of environment variables" in str(record.reason)


def test_an_instance_that_misses_a_module_cannot_be_used() -> None:
    class Missing(RecordingPlugin):
        requires = ("no_such_sdk",)

    with pytest.raises(PluginError, match="needs no_such_sdk"):
        open_session(plugins=[Missing()])


def test_a_plugins_own_module_that_is_gone_makes_it_broken(site: Site) -> None:
    site.install("gone", GOOD)
    (site.folder / f"{site.modules[0]}.py").unlink()
    record = the(site.load(), "gone")
    assert record.status is PluginStatus.BROKEN
    assert record.reason is not None
    assert "incomplete install" in record.reason


def test_a_blocked_plugin_is_never_imported(site: Site) -> None:
    site.install("bad", "raise RuntimeError('imported')")
    record = the(site.load(Selection(blocked=frozenset({"bad"}))), "bad")
    assert record.status is PluginStatus.DISABLED
    assert site.modules[0] not in sys.modules


def test_only_what_is_allowed_or_asked_for_is_imported(site: Site) -> None:
    for name in ("one", "two", "three"):
        site.install(name, GOOD)
    registry = site.load(Selection(allowed=frozenset({"one"}), asked=frozenset({"two"})))
    statuses = {name: record.status.value for name, record in registry.records.items()}
    assert statuses == {"one": "available", "two": "available", "three": "disabled"}
    assert site.modules[2] not in sys.modules


def test_switching_off_what_is_not_there_is_a_mistake(site: Site) -> None:
    site.install("one", GOOD)
    with pytest.raises(UsageError, match="no plugin is named 'onne'"):
        site.load(Selection(blocked=frozenset({"onne"})))


def test_asking_for_what_is_switched_off_is_a_contradiction(site: Site) -> None:
    site.install("one", GOOD)
    with pytest.raises(UsageError, match="'one' is both asked for and switched off"):
        site.load(Selection(asked=frozenset({"one"}), blocked=frozenset({"one"})))


def test_two_distributions_with_one_name_break_both_and_are_named(site: Site) -> None:
    site.install("same", GOOD, distribution="dist-a")
    site.install("same", GOOD, distribution="dist-b")
    record = the(site.load(), "same")
    assert record.status is PluginStatus.BROKEN
    assert record.reason is not None
    assert "dist-a 1.5" in record.reason
    assert "dist-b 1.5" in record.reason


@pytest.mark.parametrize(
    ("declaration", "what"),
    [
        ("def proofstream_event_types(self): return [Measured]", "Measured"),
        (
            (
                "def proofstream_options(self): return [proofstream.Option(flag='--same', key='k', "
                "kind=proofstream.OptionKind.VALUE, summary='s')]"
            ),
            "--same",
        ),
        (
            (
                "def proofstream_sources(self): return [proofstream.SourceType(scheme='same', form='same:', "
                "summary='s', open=print, live=True, waits=True)]"
            ),
            "same",
        ),
        (
            (
                "def proofstream_commands(self): return [proofstream.Command(name='same', summary='s', "
                "sources={'a': 'same:'}, artefacts_dir='out')]"
            ),
            "same",
        ),
    ],
)
def test_two_declarations_of_one_name_break_the_second_and_name_both(site: Site, declaration: str, what: str) -> None:
    body = (
        f"class Measured(proofstream.ProofEvent, frozen=True): pass\nclass Plugin:\n    @hookimpl\n    {declaration}\n"
    )
    site.install("first", body)
    site.install("second", body)
    registry = site.load()
    assert the(registry, "first").status is PluginStatus.AVAILABLE
    reason = the(registry, "second").reason
    assert reason is not None
    assert what in reason
    assert "first" in reason
    assert "second" in reason


def test_what_plugins_declare_is_collected(site: Site) -> None:
    body = """
class Measured(proofstream.ProofEvent, frozen=True):
    volts: float

class Plugin:
    autoload = "command"
    tick_s = 2
    derives = ["Measured"]
    complete = True

    @hookimpl
    def proofstream_event_types(self):
        return [Measured]
"""
    site.install("meter", body)
    registry = site.load()
    assert "Measured" in registry.catalog
    record = the(registry, "meter")
    assert record.tick_s == 2.0
    assert record.derives == ("Measured",)
    assert record.complete
    assert registry.automatic(by_command=True) == ["meter"]
    assert registry.automatic(by_command=False) == []


def test_an_instance_takes_the_place_of_the_entry_point_that_names_its_class() -> None:
    from proofstream_console import ConsolePlugin

    plugin = ConsolePlugin()
    registry = load(Selection(allowed=frozenset()), instances=[plugin])
    record = the(registry, "console")
    assert record.hooks is not None
    assert record.hooks.plugin is plugin
    assert record.distribution == "proofstream"


@pytest.mark.parametrize("name", ["host", "producer", "proofstream"])
def test_a_plugin_cannot_have_the_name_of_another_origin(site: Site, name: str) -> None:
    site.install(name, GOOD, distribution="some-dist")
    record = the(site.load(), name)
    assert record.status is PluginStatus.BROKEN
    assert record.reason == f"a plugin cannot be named {name!r}: events of the core and of producers have that name"


def test_two_instances_need_two_names() -> None:
    with pytest.raises(UsageError, match="two plugins named 'recording'"):
        load(Selection(), found=[], instances=[RecordingPlugin(), RecordingPlugin()])


def test_a_misspelt_hook_of_an_instance_is_refused() -> None:
    class Misspelt:
        @hookimpl
        def proofstream_unconfigured(self) -> None: ...

    with pytest.raises(PluginError, match="proofstream_unconfigured"):
        load(Selection(), found=[], instances=[Misspelt()])


def test_an_unknown_name_is_answered_with_the_known_ones(site: Site) -> None:
    site.install("good", GOOD)
    with pytest.raises(PluginError, match="no plugin is named 'goood'") as caught:
        site.load().require("goood")
    assert caught.value.hint == "installed: good"
