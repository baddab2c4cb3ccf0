"""A plugin in a file that the command line names: how it is found, and the message when it cannot be used."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from proofstream import UsageError
from proofstream.command import cli
from proofstream.command.plugin_files import load_plugin_file

GOOD = """
from __future__ import annotations
from dataclasses import dataclass
import proofstream
from proofstream import *

class GreetingSeen(ProofEvent, frozen=True, kw_only=True):
    name: str

@dataclass
class Greeting:
    name: str

class Base:
    @hookimpl
    def proofstream_event_types(self):
        return [GreetingSeen]

class Greeter(Base):
    @hookimpl
    def proofstream_options(self):
        return [Option(flag="--greet", key="greet", kind=OptionKind.VALUE, summary="Greet NAME.", metavar="NAME")]

    @hookimpl
    def proofstream_sources(self):
        return [SourceType(scheme="greet", form="greet:", summary="s", open=print, live=True, waits=False)]

    @hookimpl
    def proofstream_configure(self, context):
        if set(context.config) - {"greet", "loud"}:
            raise ConfigError("greeter: only greet and loud")
        self.greeting = Greeting(f"{context.config['greet']} {context.config.get('loud')}")

    @hookimpl
    def proofstream_consume(self, batch):
        return [GreetingSeen(name=self.greeting.name) for e in batch if isinstance(e.event, ProofStart)]

    @hookimpl
    def proofstream_commands(self):
        def run(call):
            call.write(f"{call.argument} {call.settings['loud']}")
            return 0
        return [Tool(name="greet", summary="Greet.", argument="NAME", options=(), run=run)]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plugin in a file, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("my_greeter.py").write_text(GOOD)
    return Path("my_greeter.py")


def test_the_files_stem_names_the_plugin(file: Path) -> None:
    name, plugin = load_plugin_file(file)
    assert (name, type(plugin).__name__) == ("my-greeter", "Greeter")


def test_an_attribute_of_the_class_names_it_first(file: Path) -> None:
    file.write_text(GOOD.replace("class Greeter(Base):", "class Greeter(Base):\n    name = 'greeter'\n"))
    assert load_plugin_file(file)[0] == "greeter"


def test_a_module_that_is_imported_already_is_left_alone(tmp_path: Path) -> None:
    before = sys.modules["json"]
    (tmp_path / "json.py").write_text(GOOD)
    assert load_plugin_file(tmp_path / "json.py")[0] == "json"
    assert sys.modules["json"] is before


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("x = 1\ndef f(:\n", r"^plugin file bad\.py, line 2: SyntaxError: invalid syntax$"),
        ("\nraise ValueError('no\\nway')", r"^plugin file bad\.py, line 2: ValueError: no\u240away$"),
        ("import no_such_sdk", r"^plugin file bad\.py, line 1: ModuleNotFoundError: No module named 'no_such_sdk'$"),
        ("import sys\nsys.exit(3)", r"^plugin file bad\.py, line 2: SystemExit: 3$"),
        ("def f(): ...", r"^plugin file bad\.py has no class with hooks$"),
        ("from proofstream.testing import RecordingPlugin", r"^plugin file bad\.py has no class with hooks$"),
        (
            GOOD + GOOD.replace("Greeter", "Other").replace("from __future__ import annotations", ""),
            r"^plugin file bad\.py has several classes with hooks: Greeter, Other$",
        ),
        (
            GOOD.replace("class Greeter(Base):", "class Greeter(Base):\n    def __init__(self, x): ...\n"),
            r"^plugin file bad\.py: TypeError: Greeter\.__init__\(\) missing 1 required",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(body)
    with pytest.raises(UsageError) as caught:
        load_plugin_file(Path("bad.py"))
    assert re.search(says, str(caught.value))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.py", "cannot read the plugin file none.py: No such file or directory"),
        (".", "cannot read the plugin file .: Is a directory"),
        ("my greeter.py", "plugin file my greeter.py: 'my greeter' is not a plugin name"),
    ],
)
def test_a_file_name_that_cannot_be_used_is_one_line(file: Path, name: str, says: str) -> None:
    Path("my greeter.py").write_text(GOOD)
    with pytest.raises(UsageError) as caught:
        load_plugin_file(Path(name))
    assert str(caught.value) == says


def test_a_run_uses_its_flags_settings_and_events(
    file: Path, wire_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = wire_data / "smollm2-135m-cpu.jsonl"
    Path("proofstream.toml").write_text("[my-greeter]\nloud = true\n")
    configured = ["--config", "proofstream.toml", "-q", "--no-console"]
    words = ["run", str(stream), "--plugin-file", str(file), *configured, "--greet", "Ada", "--record", "r.jsonl"]
    assert cli.main(words) == 0
    assert '"GreetingSeen":{"name":"Ada True"}' in Path("r.jsonl").read_text()
    assert cli.main([*words[:-1], "s.jsonl", "--set", "my-greeter.loud=7"]) == 0
    assert '"GreetingSeen":{"name":"Ada 7"}' in Path("s.jsonl").read_text()
    capsys.readouterr()
    assert cli.main([*words[:-1], "t.jsonl", "--set", "my-greeter.shy=1"]) == 2
    assert capsys.readouterr().err == "proofstream: error: greeter: only greet and loud\n"


def test_its_line_for_the_user_is_shown_unless_the_command_is_quiet(
    file: Path, wire_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        GOOD.replace("        if set(context", "        context.tell('look\\nhere')\n        if set(context")
    )
    words = ["run", str(wire_data / "stark-without-proof.jsonl"), "--plugin-file", str(file), "--no-console"]
    assert cli.main([*words, "--greet", "Ada"]) == 0
    assert "proofstream: look\u240ahere" in capsys.readouterr().err.splitlines()
    assert cli.main([*words, "--greet", "Ada", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_its_command_can_be_called(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["greet", "Ada", f"--plugin-file={file}", "--set", "my-greeter.loud=1"]) == 0
    assert capsys.readouterr().out == "Ada 1\n"


@pytest.mark.parametrize(
    ("listing", "key", "value"),
    [("plugins", "name", "my-greeter"), ("events", "kind", "GreetingSeen"), ("sources", "source", "greet:")],
)
def test_listings_have_it(file: Path, capsys: pytest.CaptureFixture[str], listing: str, key: str, value: str) -> None:
    assert cli.main([listing, "--json", "--plugin-file", str(file)]) == 0
    assert value in [row[key] for row in json.loads(capsys.readouterr().out)]


def test_a_file_takes_the_place_of_an_installed_plugin_of_its_name(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.rename("record.py")
    assert cli.main(["plugins", "--json", "--plugin-file", "record.py"]) == 0
    rows = [row for row in json.loads(capsys.readouterr().out) if row["name"] == "record"]
    assert [(row["status"], row["distribution"]) for row in rows] == [("available", "")]


def test_a_hook_that_is_not_marked_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("class Greeter:\n    def proofstream_consume(self, batch): ...\n")
    assert cli.main(["plugins", "--plugin-file", str(file)]) == 2
    says = "error: plugin my-greeter: proofstream_consume is not marked with @proofstream.hookimpl\n"
    assert capsys.readouterr().err == f"proofstream: {says}"


@pytest.mark.parametrize("key", ["plugin_file", "plugin_files"])
def test_configuration_and_environment_cannot_name_a_file(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    Path("proofstream.toml").write_text(f'{key} = "{file}"\n')
    assert cli.main(["plugins", "--config", "proofstream.toml"]) == 2
    Path("proofstream.toml").unlink()
    monkeypatch.setenv(f"PROOFSTREAM_{key.upper()}", str(file))
    assert cli.main(["plugins"]) == 0
    mistake, warning = capsys.readouterr().err.splitlines()
    assert f"error: proofstream.toml: {key}: there is no such key" in mistake
    assert f"PROOFSTREAM_{key.upper()} is not a setting" in warning


def test_everything_shows_the_traceback(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("raise ValueError('deep')")
    assert cli.main(["plugins", "--plugin-file", str(file)]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert cli.main(["plugins", "-vv", "--plugin-file", str(file)]) == 2
    assert "Traceback" in capsys.readouterr().err
