"""A plugin's mistakes as the user of the command meets them: one line that names the plugin and the real cause."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from proofstream.command import cli

Try: TypeAlias = Callable[..., tuple[int, list[str]]]

HEADER = "from proofstream import *\n"
OPTION = "Option(flag='{}', key='path', kind=OptionKind.VALUE, summary='s', metavar='F')"
HINT = "(--traceback shows where)"
WRITER = """
class Writer:
    @hookimpl
    def proofstream_options(self):
        artefact = Artefact(name="notes.txt", next_step="read {path}")
        return [Option(flag="--notes", key="path", kind=OptionKind.VALUE, summary="s", metavar="F", artefact=artefact)]
    @hookimpl
    def proofstream_configure(self, context):
        if "path" not in context.config:
            return False
        open(context.config["path"], "w").close()
    @hookimpl
    def proofstream_consume(self, batch): ...
"""


def plugin(*hooks: str) -> str:
    """Return the source of a plugin with these hooks, each given as its definition."""
    return "class Plugin:\n" + "".join(f"    @hookimpl\n    def proofstream_{hook}\n" for hook in hooks)


def declaring(flag: str) -> str:
    return plugin(f"options(self): return [{OPTION.format(flag)}]", "consume(self, batch): ...")


@pytest.fixture
def stream(wire_data: Path) -> str:
    return str(wire_data / "stark-without-proof.jsonl")


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Try:
    """Runs the command in a folder of its own, with `body` as the plugin file mine.py; returns status and lines."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, body: str | None = None) -> tuple[int, list[str]]:
        capsys.readouterr()
        if body is not None:
            Path("mine.py").write_text(HEADER + body)
            words = (*words, "--plugin-file", "mine.py")
        status = cli.main(list(words))
        return status, capsys.readouterr().err.splitlines()

    return run


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a distribution with one plugin."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def install(name: str, body: str) -> None:
        module = f"installed_{name}_{tmp_path.name.replace('-', '_')}"
        (site / f"{module}.py").write_text(HEADER + body)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[proofstream]\n{name} = {module}:Plugin\n")
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


def test_a_plugin_file_takes_no_flag_from_a_first_party_plugin(attempt: Try, stream: str) -> None:
    status, lines = attempt("run", stream, "--record", "r.jsonl", body=declaring("--record"))
    assert status == 2
    assert lines == [
        "proofstream: error: plugin mine is broken: flag '--record' is declared by both record and mine",
    ]


def test_a_plugin_file_takes_no_source_from_an_installed_plugin(
    attempt: Try, install: Callable[[str, str], None]
) -> None:
    source = "sources(self): return [SourceType(scheme='z', form='z:', summary='s', open=print, live=True, waits=True)]"
    install("zoo", plugin(source))
    status, lines = attempt("run", "z:", body=plugin(source))
    assert (status, len(lines)) == (2, 1)
    assert lines[0].endswith("plugin mine is broken: source scheme 'z' is declared by both zoo and mine")


def test_an_installed_third_party_plugin_takes_no_flag_from_a_first_party_plugin(
    attempt: Try, install: Callable[[str, str], None], stream: str
) -> None:
    install("aaa", declaring("--record"))
    status, lines = attempt("run", stream, "--record", "r.jsonl", "--no-console")
    assert status == 0
    assert "plugin aaa (aaa-dist 1.0) is broken: flag '--record' is declared by both record and aaa" in lines[0]
    assert Path("r.jsonl").exists()


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (plugin("options(self): raise ValueError('the cause')"), "ValueError: the cause (--traceback shows where)"),
        (
            plugin(f"options(self): return {OPTION.format('--aa')}"),
            "TypeError: proofstream_options returned one Option; return a list of Options (--traceback shows where)",
        ),
        (
            plugin("options(self): return ['--aa']"),
            f"TypeError: proofstream_options returned a list with a str; return a list of Options {HINT}",
        ),
    ],
)
def test_an_unknown_flag_names_the_broken_plugins(attempt: Try, stream: str, body: str, cause: str) -> None:
    status, lines = attempt("run", stream, "--aa", "3", body=body)
    assert status == 2
    assert lines[1:] == [
        f"proofstream: plugin mine is broken: {cause}",
        "proofstream: hint: see: proofstream run --help",
    ]


def test_an_unknown_flag_or_command_names_the_plugins_that_are_switched_off(attempt: Try, stream: str) -> None:
    line = "proofstream: switched off, and their flags and commands with them: demo, record"
    switched_off = ["--no-plugin", "record", "--no-plugin", "demo"]
    assert line in attempt("run", stream, "--record", "x", *switched_off)[1]
    assert line in attempt("demo", *switched_off)[1]


@pytest.mark.parametrize("body", ["1/0", plugin("options(self): 1/0")])
def test_settings_for_a_plugin_that_is_broken_when_it_is_loaded_end_the_run(
    attempt: Try, install: Callable[[str, str], None], stream: str, body: str
) -> None:
    install("slow", body)
    assert attempt("run", stream, "--no-console")[0] == 0
    status, lines = attempt("run", stream, "--no-console", "--set", "slow.count=2")
    assert status == 2
    assert lines[0] == "proofstream: error: plugin slow (slow-dist 1.0) is broken: ZeroDivisionError: division by zero"


PANIC = "raise type('Panic', (BaseException,), {})('a panic')"
"""What a Rust extension raises: no Exception."""


@pytest.mark.parametrize("hook", ["event_types", "sources", "options", "commands"])
def test_a_panic_in_a_declaring_hook_breaks_that_plugin_alone(
    attempt: Try, install: Callable[[str, str], None], stream: str, hook: str
) -> None:
    install("rusty", plugin(f"{hook}(self): {PANIC}", "consume(self, batch): ..."))
    status, lines = attempt("run", stream, "--record", "r.jsonl", "--no-console")
    assert status == 0
    assert "plugin rusty (rusty-dist 1.0) is broken: Panic: a panic" in lines[0]
    assert Path("r.jsonl").exists()


@pytest.mark.parametrize("body", [PANIC, plugin(f"sources(self): {PANIC}")])
def test_a_panic_in_a_plugin_that_was_asked_for_is_one_line(attempt: Try, stream: str, body: str) -> None:
    status, lines = attempt("run", stream, "--no-console", body=body)
    assert status == 2
    assert [line for line in lines if "Panic: a panic" in line] != []
    assert not any("Traceback" in line for line in lines)


def test_a_panic_in_a_tool_is_one_line(attempt: Try) -> None:
    tool = "[Tool(name='rust', summary='s', argument='X', options=(), run=panic)]"
    body = f"def panic(call): {PANIC}\n" + plugin(f"commands(self): return {tool}")
    assert attempt("rust", "x", body=body) == (
        1,
        ["proofstream: plugin mine failed: Panic: a panic (--traceback shows where)"],
    )


@pytest.mark.parametrize("body", ["raise KeyboardInterrupt", plugin("options(self): raise KeyboardInterrupt")])
def test_a_ctrl_c_while_plugins_are_loaded_ends_the_command(attempt: Try, stream: str, body: str) -> None:
    assert attempt("run", stream, "--no-console", body=body) == (130, [])


SOURCE = """
class Bad:
    def run(self, feed):
        session = feed.open_session(source="x", time_source={time_source!r})
        {running}
        session.close({outcome!r})
    def stop(self):
        {stopping}
def open_it(request):
    {opening}
class Plugin:
    @hookimpl
    def proofstream_sources(self):
        return [SourceType(scheme="bad", form="bad:", summary="s", open=open_it, live=True, waits=False)]
"""


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"opening": "raise ValueError('no')"}, 2, "error: bad: cannot be opened: ValueError: no"),
        ({"opening": PANIC}, 2, "error: bad: cannot be opened: Panic: a panic"),
        ({"running": PANIC}, 1, "not delivered: the source failed: Panic: a panic"),
        ({"stopping": PANIC}, 0, "bad: could not be stopped: Panic: a panic"),
        ({"opening": "return None"}, 2, "bad: cannot be opened: `open` returned NoneType, without run and stop"),
        ({"time_source": "bogus"}, 2, "time_source is 'bogus'; it must be one of envelope, arrival, reconstructed"),
        ({"outcome": "bogus"}, 1, "outcome is 'bogus'; it must be one of ended, lost, interrupted"),
    ],
)
def test_a_mistake_of_a_source_is_one_line(attempt: Try, fields: dict[str, str], status: int, says: str) -> None:
    right = {"opening": "return Bad()", "running": "", "stopping": "pass", "time_source": "arrival", "outcome": "ended"}
    body = SOURCE.format(**right | fields)
    got, lines = attempt("run", "bad:", "--no-console", body=body)
    assert got == status
    assert [line for line in lines if line.endswith(says)] != [], lines
    assert not any("Traceback" in line for line in lines)


@pytest.mark.parametrize(
    "body",
    [plugin("options(self): raise ValueError('deep')"), plugin("consume(self, batch): raise ValueError('deep')")],
)
@pytest.mark.parametrize("flag", ["--traceback", "-vv"])
def test_a_flag_shows_the_place(attempt: Try, stream: str, body: str, flag: str) -> None:
    _, lines = attempt("run", stream, flag, "--no-console", body=body)
    assert any("mine.py" in line for line in lines)
    assert not any("--traceback shows where" in line for line in lines)


def test_a_traceback_cannot_speak_to_the_terminal_or_for_the_command(attempt: Try, stream: str) -> None:
    body = plugin("consume(self, batch): raise ValueError('x\\x1b[31m\\nproofstream: all is well')")
    _, lines = attempt("run", stream, "-vv", "--no-console", body=body)
    assert not any("\x1b" in line for line in lines)
    assert "proofstream: all is well" not in lines


UNDECLARED = "class Foo(ProofEvent, frozen=True, kw_only=True):\n    x: int = 1\n"


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("consume(self, batch): return [Foo()]", "kind Foo is not declared; return it from proofstream_event_types"),
        (
            "consume(self, batch): return [Foo() for e in batch if isinstance(e.event, SessionClosed)]",
            "kind Foo is not declared; return it from proofstream_event_types",
        ),
        ("configure(self, context): context.publish('x')", "published str, which is not an event"),
    ],
)
def test_an_event_that_is_not_declared_names_its_plugin(attempt: Try, stream: str, hook: str, says: str) -> None:
    status, lines = attempt("run", stream, "--no-console", body=UNDECLARED + plugin(hook))
    assert status == 1
    assert f"proofstream: plugin mine: {says}" in lines


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (
            "consume(self, batch): return ReportLine(text='x')",
            "proofstream_consume returned one ReportLine; return a list of events",
        ),
        ("report_health(self): return {'n': -1}", "proofstream_report_health: n is -1; a counter is a whole number"),
        ("report_health(self): return {'n': 1.5}", "proofstream_report_health: n is 1.5; a counter is a whole number"),
    ],
)
def test_a_wrong_result_is_said(attempt: Try, stream: str, hook: str, says: str) -> None:
    hooks = [hook] if hook.startswith("consume") else [hook, "consume(self, batch): ..."]
    status, lines = attempt("run", stream, "--no-console", body=plugin(*hooks))
    assert status == 1
    assert any(says in line for line in lines)


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("consume(self, events): ...", "proofstream_consume has no argument `events`; it has `batch`"),
        ("capture(self, thread): ...", "proofstream_capture has no argument `thread`; it has none"),
    ],
)
def test_a_wrong_argument_is_named_beside_the_right_one(attempt: Try, stream: str, hook: str, says: str) -> None:
    assert attempt("run", stream, body=plugin(hook)) == (2, [f"proofstream: error: plugin mine: {says}"])


def test_with_strict_the_report_says_that_the_run_was_cut_short(attempt: Try, wire_data: Path) -> None:
    body = plugin("consume(self, batch): raise ValueError('no')")
    source = str(wire_data / "stark-without-proof.jsonl")
    status, lines = attempt("run", source, "--follow", "--strict", "--no-console", body=body)
    assert status == 1
    says = "the rest of {}: the run ended early (a plugin failed, and --strict was given)"
    assert f"proofstream: not delivered: {says.format(source)}" in lines


def test_a_folder_that_cannot_be_made_is_named(attempt: Try, stream: str) -> None:
    Path("file").touch()
    status, lines = attempt("run", stream, "--no-console", "--notes", "file/notes.txt", body=WRITER)
    assert (status, lines) == (2, ["proofstream: error: cannot make file: Not a directory"])


def test_no_folder_is_made_for_a_plugin_that_is_not_in_the_run(attempt: Try, stream: str) -> None:
    Path("proofstream.toml").write_text("plugin_autoload = false\n[record]\npath = 'folder/r.jsonl'\n")
    assert attempt("run", stream, "--config", "proofstream.toml")[0] == 0
    assert not Path("folder").exists()


def test_a_result_that_a_command_turned_on_by_itself_never_ends_it(attempt: Try, stream: str) -> None:
    command = f"""
    @hookimpl
    def proofstream_commands(self):
        return [Command(name="show", summary="s", sources={{"a": {stream!r}}}, artefacts_dir="out")]
"""
    Path("out/notes.txt").mkdir(parents=True)  # a folder is in the way
    status, lines = attempt("show", "--no-console", "--no-plugin", "record", body=WRITER + command)
    assert status == 1
    assert any("plugin mine is broken: IsADirectoryError" in line for line in lines)
    assert any("reading" in line for line in lines)
    alone = ("show", "--no-console", *(word for name in ("otel", "record", "rerun") for word in ("--no-plugin", name)))
    assert attempt(*alone, "--notes", "out/notes.txt", body=WRITER + command)[0] == 2
    assert attempt(*alone, "--set", "mine.path=out/notes.txt", body=WRITER + command)[0] == 2


def test_a_plugin_file_may_stand_before_the_subcommand(attempt: Try, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(
        HEADER
        + "def run(call):\n    call.write(call.argument)\n    return 0\n"
        + plugin("commands(self): return [Tool(name='say', summary='Say.', argument='X', options=(), run=run)]")
    )
    for words in (["--plugin-file", "mine.py", "say", "hello"], ["say", "hello", "--plugin-file", "mine.py"]):
        assert cli.main(words) == 0
        assert capsys.readouterr().out == "hello\n"
    for words in (["--plugin-file", "mine.py", "--help"], ["--help", "--plugin-file", "mine.py"]):
        assert cli.main(words) == 0
        assert "Say." in capsys.readouterr().out


def test_the_listing_says_why_a_plugin_is_broken(attempt: Try, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(HEADER + plugin("options(self): raise ValueError('the cause')"))
    assert cli.main(["plugins", "--plugin-file", "mine.py"]) == 0
    assert "the cause" in capsys.readouterr().out
    assert cli.main(["plugins", "--json", "--plugin-file", "mine.py"]) == 0
    (row,) = [row for row in json.loads(capsys.readouterr().out) if row["name"] == "mine"]
    assert (row["reason"], row["hint"]) == ("ValueError: the cause", "--traceback shows where")
