"""The hooks are what docs/plugins.md says they are, each is documented, implemented by a plugin of ours, and called."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from proofstream import (
    Batch,
    Command,
    Envelope,
    Option,
    PluginContext,
    PluginStatus,
    ProofEvent,
    ProofStart,
    ProofstreamError,
    ReportLine,
    SourceType,
    Tool,
    ToolCall,
    hookimpl,
    open_session,
)
from proofstream.command import cli
from proofstream.hooks import Hooks
from proofstream.hookspecs import ProofstreamHooks
from proofstream.testing import PluginHost

REPOSITORY = Path(__file__).parents[2]
GUIDE = (REPOSITORY / "docs" / "plugins.md").read_text("utf-8")
EXAMPLE = REPOSITORY / "examples" / "proofstream_hello" / "proofstream_hello.py"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
HOOKS = {name: spec for name, spec in vars(ProofstreamHooks).items() if name.startswith("proofstream_")}


def parameters(function: Any) -> dict[str, Any]:
    """Return the arguments and their annotations, as written."""
    return {name: p.annotation for name, p in inspect.signature(function).parameters.items() if name != "self"}


def plugin_classes() -> dict[str, type]:
    """Return the plugins of this distribution, and the example."""
    points = metadata.distribution("proofstream").entry_points.select(group="proofstream")
    return {point.name: point.load() for point in points} | {"hello": runpy.run_path(str(EXAMPLE))["HelloPlugin"]}


PLUGINS = plugin_classes()
IMPLEMENTATIONS = [
    pytest.param(getattr(cls, hook), hook, id=f"{plugin}-{hook.removeprefix('proofstream_')}")
    for plugin, cls in PLUGINS.items()
    for hook in HOOKS
    if hasattr(cls, hook)
]


def test_the_guide_names_every_hook_with_its_arguments() -> None:
    documented = re.findall(r"^### `(proofstream_\w+)\(([^)]*)\)`$", GUIDE, re.MULTILINE)

    assert dict(documented) == {name: ", ".join(parameters(spec)) for name, spec in HOOKS.items()}
    assert len(documented) == len(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hookspec_says_when_it_is_called_and_on_which_thread_and_what_failing_means(hook: str) -> None:
    written = inspect.getdoc(HOOKS[hook]) or ""

    assert [word for word in ("When:", "Thread:", "Failure:") if word not in written] == []


@pytest.mark.parametrize("hook", HOOKS)
def test_a_plugin_of_ours_implements_it(hook: str) -> None:
    assert [plugin for plugin, cls in PLUGINS.items() if hasattr(cls, hook)] != []


@pytest.mark.parametrize(("implementation", "hook"), IMPLEMENTATIONS)
def test_an_implementation_is_annotated_as_the_hookspec(implementation: Any, hook: str) -> None:
    spec = parameters(HOOKS[hook])

    assert {name: spec.get(name) for name in parameters(implementation)} == parameters(implementation)
    assert inspect.signature(implementation).return_annotation is not inspect.Signature.empty


def test_the_guide_names_every_status_and_every_field_of_the_context() -> None:
    for status in PluginStatus:
        assert f"| `{status.value}` |" in GUIDE
    for field in PluginContext.__struct_fields__:
        assert re.search(rf"^\| `{field}[`(]", GUIDE, re.MULTILINE), field


def run_block(position: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run one block of the guide by itself, as a reader pastes it; return its names."""
    module = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)  # where msgspec looks annotations up
    monkeypatch.setattr(sys, "path", [str(EXAMPLE.parent), *sys.path])
    exec(BLOCKS[position], vars(module))
    return vars(module)


def block_with(text: str) -> int:
    (position,) = [position for position, block in enumerate(BLOCKS) if text in block]
    return position


@pytest.mark.parametrize("position", range(len(BLOCKS)))
def test_each_block_of_the_guide_runs_by_itself(position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_block(position, monkeypatch)

    for cls in [value for name, value in names.items() if name.endswith("Plugin")]:
        Hooks(cls(), "guide")


def test_the_guides_tests_pass(monkeypatch: pytest.MonkeyPatch, proofstream_host: Callable[..., PluginHost]) -> None:
    names = run_block(block_with("def test_"), monkeypatch)
    tests = [value for name, value in names.items() if name.startswith("test_")]

    for test in tests:
        test(proofstream_host)

    assert len(tests) == 2


def test_the_guides_plugins_report_to_the_user(
    monkeypatch: pytest.MonkeyPatch, proofstream_host: Callable[..., PluginHost]
) -> None:
    host = proofstream_host(run_block(block_with("CountingPlugin"), monkeypatch)["CountingPlugin"]())
    started = ProofStart(model_name="m", backend="cpu", num_layers=0, input_shape=(1, 1), output_shape=(1, 1))

    assert host.feed([started, started]) == [ReportLine(text="2 proofs so far")]
    assert host.told == ["counting proofs"]


def test_the_guides_source_reads_lines_with_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stamped.py").write_text(BLOCKS[block_with("StampedPlugin")])
    Path("lines.txt").write_bytes(b'1700000000000000000 {"ProofAborted":{"reason":"no memory"}}\nnonsense\n')
    words = ["run", "stamped:lines.txt", "--plugin-file", "stamped.py", "--no-console", "--record", "r.jsonl"]

    assert cli.main(words) == 1  # a line was refused

    lines = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    times = {next(iter(line["event"])): line["time_unix_nano"] for line in lines}
    assert times["ProofAborted"] == 1700000000000000000


def test_the_guides_tool_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (tool,) = run_block(block_with("KindsPlugin"), monkeypatch)["KindsPlugin"]().proofstream_commands()
    stream = str(REPOSITORY / "tests" / "data" / "wire" / "smollm2-135m-cpu.jsonl")
    for only in (["LayerStart", "ProofStart"], "LayerStart,ProofStart"):
        assert _written(tool, stream, as_json=False, only=only) == ["ProofStart 1\nLayerStart 211"]
    assert _written(tool, stream, as_json=True, only=["ProofComplete"]) == ['{"ProofComplete": 1}']
    with pytest.raises(ProofstreamError, match=r"^cannot read nowhere: "):
        _written(tool, "nowhere", as_json=False)


def _written(tool: Tool, argument: str, *, as_json: bool, **settings: object) -> list[str]:
    """Return the text that a tool writes."""
    written: list[str] = []
    call = ToolCall(argument=argument, settings=settings, as_json=as_json, write=written.append, note=written.append)
    assert tool.run(call) == 0
    return written


class Settings(BaseModel):
    """The table of the plugin below."""

    depth: int = 0


class Everything:
    """Implements every hook and remembers which were called."""

    name = "everything"
    tick_s = 0.05

    def __init__(self) -> None:
        self.called: list[str] = []
        self.envelopes: list[Envelope] = []

    @hookimpl
    def proofstream_event_types(self) -> Iterable[type[ProofEvent]]:
        self.called.append("proofstream_event_types")
        return []

    @hookimpl
    def proofstream_sources(self) -> Iterable[SourceType]:
        self.called.append("proofstream_sources")
        return []

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        self.called.append("proofstream_options")
        return []

    @hookimpl
    def proofstream_commands(self) -> Iterable[Command]:
        self.called.append("proofstream_commands")
        return []

    @hookimpl
    def proofstream_settings(self) -> type[BaseModel]:
        self.called.append("proofstream_settings")
        return Settings

    @hookimpl
    def proofstream_capture(self) -> object:
        self.called.append("proofstream_capture")
        return "captured"

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool | None:
        self.called.append("proofstream_configure")
        return context.asked

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        self.called.append("proofstream_consume")
        self.envelopes.extend(batch)

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        self.called.append("proofstream_report_health")
        return {}

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        assert timeout_s > 0
        self.called.append("proofstream_unconfigure")


def test_a_host_calls_every_hook_in_the_order_that_is_promised() -> None:
    plugin = Everything()

    config = {"everything": {"depth": 1}}
    with open_session(plugins=[plugin], config=config) as session, session.proof(num_layers=0):
        pass

    assert set(plugin.called) == set(HOOKS)
    acting = [hook for hook in plugin.called if hook not in ("proofstream_capture", "proofstream_report_health")]
    declaring = acting[:5]
    assert all(hook.endswith("s") for hook in declaring)
    assert acting[5] == "proofstream_configure"
    assert set(acting[6:-1]) == {"proofstream_consume"}
    assert acting[-1] == "proofstream_unconfigure"
    (start,) = [envelope for envelope in plugin.envelopes if isinstance(envelope.event, ProofStart)]
    assert start.captured == {"everything": "captured"}
