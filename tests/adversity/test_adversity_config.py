"""Configuration that a stranger wrote or placed: no effect without consent, bounded cost, harmless messages."""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

import proofstream
from proofstream.command import cli

STREAM = Path(__file__).parents[1] / "data" / "wire" / "stark-without-proof.jsonl"
CONTROLS = "\x1b]52;c;b3duZWQ=\x07\u202e\u2028\x9b31m\r"
MEMORY = 1 << 29
"""Bytes of address space within which each hostile text is refused."""

REFUSE_ALL = """
import json, sys
import proofstream
for text in json.load(sys.stdin):
    try:
        proofstream.parse_toml(text)
    except ValueError:
        print("refused")
"""


@dataclass(frozen=True)
class Finished:
    """The result of a command that has ended."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class User:
    """A user with a home of their own, who works in a clone. Called with words, it runs the command in this process.

    Attributes:
        home: The home.
        clone: The current folder.
    """

    home: Path
    clone: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str | Path, folder: Path | None = None, **env: str) -> Finished:
        with self.monkeypatch.context() as patch:
            patch.chdir(folder or self.clone)
            patch.setattr("proofstream.notices._said", set[str]())  # as in a new process
            for name, value in env.items():
                patch.setenv(name, value)
            self.capsys.readouterr()
            status = cli.main([str(word) for word in words])
            said = self.capsys.readouterr()
        return Finished(status, said.out, said.err)

    def run(self, *words: str | Path, folder: Path | None = None, **env: str) -> Finished:
        return self("run", STREAM, "--no-console", *words, folder=folder, **env)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    """A user, and an empty clone."""
    for name in list(os.environ):
        if name.startswith(("PROOFSTREAM_", "OTEL_", "XDG_")):
            monkeypatch.delenv(name)
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    clone.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "120")
    return User(home, clone, monkeypatch, capsys)


def lines_about(text: str, found: Finished) -> list[str]:
    return [line for line in found.err.splitlines() if text in line]


# What a folder's file may do


@pytest.fixture
def victim(user: User) -> Path:
    """A file of the user's that the clone's configuration wants to replace."""
    path = user.home / "victim"
    path.write_text("precious\n")
    (user.clone / "proofstream.toml").write_text(f'[record]\npath = "{path}"\noverwrite = true\n')
    return path


def test_a_clone_s_file_replaces_nothing_and_is_named_on_one_line(user: User, victim: Path) -> None:
    ran = user.run()
    assert (ran.status, victim.read_text()) == (0, "precious\n")
    (line,) = lines_about("proofstream.toml", ran)
    place = user.clone / "proofstream.toml"
    assert line.startswith(f"proofstream: {place} is not used, because you have not trusted it; it sets record.path, ")
    assert f"run: proofstream trust {place}" in line
    assert "--config" in line
    assert not list(user.home.glob(".*"))


def test_a_clone_s_file_starts_no_program_and_sends_nothing(user: User) -> None:
    script = user.clone / "viewer.sh"
    script.write_text(f"#!/bin/sh\ntouch {user.home}/ran\n")
    script.chmod(0o755)
    (user.clone / "pyproject.toml").write_text(
        '[tool.proofstream.rerun]\nconnections = ["spawn"]\nviewer = "./viewer.sh"\n'
        '[tool.proofstream.otel]\nendpoint = "http://127.0.0.1:9"\n'
    )
    ran = user.run(DISPLAY=":99")
    assert ran.status == 0
    assert not (user.home / "ran").exists()
    assert lines_about("127.0.0.1", ran) == []
    assert len(lines_about("rerun.connections, rerun.viewer, otel.endpoint", ran)) == 1


def test_trust_holds_for_one_place_and_one_content(user: User, victim: Path, tmp_path: Path) -> None:
    said = user("trust")
    assert said.status == 0
    assert lines_about("is trusted until it changes; it sets record.path, record.overwrite", said) != []
    ran = user.run()
    assert lines_about("proofstream: settings from proofstream.toml", ran) != []
    assert "StarkProofStart" in victim.read_text()

    victim.write_text("precious\n")
    with (user.clone / "proofstream.toml").open("a") as file:
        file.write("# one more line\n")
    assert len(lines_about("it has changed since you trusted it", user.run())) == 1
    assert victim.read_text() == "precious\n"

    user("trust", user.clone / "proofstream.toml")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "proofstream.toml").symlink_to(user.clone / "proofstream.toml")
    assert len(lines_about("you have not trusted it", user.run(folder=elsewhere))) == 1
    through_link = tmp_path / "link"
    through_link.symlink_to(user.clone)
    assert victim.read_text() == "precious\n"
    assert lines_about("settings from proofstream.toml", user.run(folder=through_link)) != []

    victim.write_text("precious\n")
    assert len(lines_about("is not trusted any more", user("trust", "--revoke"))) == 1
    assert len(lines_about("was not trusted", user("trust", "--revoke"))) == 1
    user.run()
    assert victim.read_text() == "precious\n"


def test_a_trusted_link_whose_target_changes_is_not_trusted_any_more(user: User, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("[record]\npath = 'first.jsonl'\n")
    (user.clone / "proofstream.toml").symlink_to(tmp_path / "target")
    user("trust")
    user.run()
    assert (user.clone / "first.jsonl").exists()
    (tmp_path / "target").write_text("[record]\npath = 'second.jsonl'\n")
    user.run()
    assert not (user.clone / "second.jsonl").exists()


def test_the_records_of_trust_are_private(user: User, victim: Path) -> None:
    assert victim.exists()
    user("trust", XDG_STATE_HOME=str(user.home / "state"))
    folder = user.home / "state" / "proofstream" / "trusted"
    (record,) = folder.iterdir()
    assert (record.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert record.read_text().endswith(f"  {user.clone}/proofstream.toml\n")


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "XDG_CONFIG_HOME"])
def test_a_relative_xdg_folder_does_not_lead_into_the_clone(user: User, victim: Path, variable: str) -> None:
    """Otherwise the clone could bring the record of its own trust, or a user's own configuration."""
    user("trust", XDG_STATE_HOME=str(user.clone / "here"))
    (user.clone / "here" / "proofstream" / "config.toml").write_text((user.clone / "proofstream.toml").read_text())
    user.monkeypatch.setenv(variable, "here")
    user.run()
    assert victim.read_text() == "precious\n"


def test_without_a_home_nothing_is_trusted(user: User, victim: Path) -> None:
    said = user("trust", HOME="")
    assert said.status == 2
    assert len(lines_about("neither XDG_STATE_HOME nor HOME names a folder", said)) == 1
    user.run(HOME="")
    assert victim.read_text() == "precious\n"


@pytest.mark.parametrize("by", ["flag", "variable", "own file", "set"])
def test_the_user_s_own_ways_are_honoured(user: User, by: str) -> None:
    table, made = "[record]\npath = 'made.jsonl'\n", user.clone / "made.jsonl"
    (user.clone / "proofstream.toml").write_text(table)
    words: tuple[str, ...] = ()
    match by:
        case "flag":
            words = ("--config", "proofstream.toml")
        case "variable":
            user.monkeypatch.setenv("PROOFSTREAM_CONFIG", "proofstream.toml")
        case "own file":
            own = user.home / ".config" / "proofstream" / "config.toml"
            own.parent.mkdir(parents=True)
            own.write_text(table)
        case _:
            words = ("--set", "record.path=made.jsonl")
    ran = user.run(*words)
    assert ran.status == 0
    assert made.exists()
    assert len(lines_about("settings from", ran)) == (1 if by in ("flag", "variable") else 0)
    assert len(lines_about("is not used", ran)) == (0 if by in ("flag", "variable") else 1)


def test_a_named_file_wins_over_the_user_s_own_key_by_key(user: User) -> None:
    own = user.home / "xdg" / "proofstream" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("strict = true\n[record]\npath = 'own.jsonl'\noverwrite = true\n")
    (user.clone / "c.toml").write_text("[record]\npath = 'named.jsonl'\n")
    (user.clone / "named.jsonl").write_text("old\n")
    ran = user.run("--config", "c.toml", XDG_CONFIG_HOME=str(user.home / "xdg"))
    assert ran.status == 0
    assert not (user.clone / "own.jsonl").exists()
    assert "StarkProofStart" in (user.clone / "named.jsonl").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_an_own_file_of_another_user_is_not_used(user: User) -> None:
    own = user.home / ".config" / "proofstream" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[record]\npath = 'made.jsonl'\n")
    os.chown(own, 12345, 12345)
    ran = user.run()
    assert len(lines_about("belongs to another user", ran)) == 1
    assert not (user.clone / "made.jsonl").exists()


def test_parent_folders_are_not_searched(user: User, victim: Path) -> None:
    inner = user.clone / "inner"
    inner.mkdir()
    assert user.run(folder=inner).err.count("proofstream.toml") == 0
    assert victim.read_text() == "precious\n"


def test_a_service_s_telemetry_is_not_redirected(
    user: User, victim: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(user.clone)
    caplog.set_level(logging.INFO)
    for _ in range(3):
        with proofstream.open_session(plugins=["record"], config={"record": {"path": "mine.jsonl"}}):
            pass
    assert victim.read_text() == "precious\n"
    (record,) = [record for record in caplog.records if "is not used" in record.getMessage()]
    assert (record.name, record.levelno) == ("proofstream", logging.WARNING)
    assert "PROOFSTREAM_CONFIG" in record.getMessage()


def test_a_service_without_logging_is_told_on_standard_error(user: User, victim: Path) -> None:
    code = "import proofstream; proofstream.open_session(plugins=[]).close()"
    ran = subprocess.run([sys.executable, "-c", code], cwd=user.clone, capture_output=True, text=True, check=True)
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"proofstream: {user.clone}/proofstream.toml is not used, ")
    assert victim.read_text() == "precious\n"


def test_a_folder_s_broken_file_ends_no_command(user: User) -> None:
    (user.clone / "proofstream.toml").write_text("[record\n")
    ran = user.run()
    assert ran.status == 0
    assert len(lines_about("this file is not used", ran)) == 1
    said = user("trust")
    assert (said.status, len(said.err.splitlines())) == (2, 1)


def test_a_pyproject_without_a_table_is_not_mentioned(user: User) -> None:
    (user.clone / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert "pyproject" not in user.run().err


# What reading a file may cost

HOSTILE = {
    "a dotted key": "a." * 50_000 + "a = 1",
    "a quoted dotted key": '"a" . ' * 20_000 + "a = 1",
    "a dotted header": "[" + "a." * 50_000 + "a]",
    "nested lists": "a = " + "[" * 100_000,
    "closed lists": "a = " + "[" * 500 + "]" * 500,
    "nested tables": "a = " + "{a = " * 50_000,
    "a long number": "a = " + "9" * 5000,
    "escaped quotes": '\\"""' * 200_000,
    "two megabytes": "#" * 2**21,
    "not UTF-8": "a = '\udcff'",
    "a NUL": "a = '\0'",
    "a hexadecimal number": "close_timeout_s = 0x" + "f" * 10_000,
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("name", ["c.toml", "pyproject.toml"])
def test_a_hostile_file_is_refused_in_one_line(user: User, what: str, name: str) -> None:
    (user.clone / name).write_text(HOSTILE[what], "utf-8", errors="surrogateescape")
    ran = user("sources", "--config", name)
    if name == "pyproject.toml" and what == "a hexadecimal number":
        assert ran.status == 0  # a key of another tool
    else:
        assert (ran.status, ran.err.count("\n")) == (2, 1)
        assert name in ran.err
        assert len(ran.err) < 1000
    unasked = user("sources")
    assert unasked.status == 0
    assert len(unasked.err) < 1000


def test_hostile_texts_take_little_memory() -> None:
    correct = ("two megabytes", "not UTF-8", "a hexadecimal number")
    texts = [text for what, text in HOSTILE.items() if what not in correct]
    ran = subprocess.run(
        [sys.executable, "-c", REFUSE_ALL],
        check=True,
        input=json.dumps(texts).encode(),
        capture_output=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert ran.stdout.split() == [b"refused"] * len(texts)


def test_what_needs_no_nesting_is_not_refused() -> None:
    dots = "x." * 1000
    text = f'# {dots}\na = "{dots}"\nb = """\n{dots}\n{"[" * 100}"""\nc = \'\'\'{dots}\'\'\'\n'
    text += f'"{dots}" = [{"[1], " * 500}]\n'
    assert proofstream.parse_toml(text)["c"] == dots
    assert proofstream.parse_toml(".".join("a" * 32) + " = 1")
    with pytest.raises(ValueError, match="line 2: nested deeper than 32"):
        proofstream.parse_toml("\n" + ".".join("a" * 33) + " = 1")


@pytest.mark.parametrize("words", [("sources", "--config"), ("state-cost",), ("run", STREAM, "--state-cost")])
@pytest.mark.parametrize("what", ["a pipe that never speaks", "a pipe without a writer", "a device", "a folder"])
def test_nothing_waits_or_grows_for_ever(user: User, words: tuple[str | Path, ...], what: str) -> None:
    pipe = user.clone / "pipe"
    os.mkfifo(pipe)
    path, handle = pipe, -1
    match what:
        case "a pipe that never speaks":
            handle = os.open(pipe, os.O_RDWR)
        case "a device":
            path = Path("/dev/zero")
        case "a folder":
            path = user.clone
        case _:
            pass
    began = time.monotonic()
    ran = user(*words, path)
    if handle >= 0:
        os.close(handle)
    assert time.monotonic() - began < 30
    assert ran.status == 2, ran.err
    assert len(lines_about("error", ran)) == 1


def test_a_named_pipe_waits_for_its_writer(user: User) -> None:
    pipe = user.clone / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", 'sleep 3; echo "strict = 7" > "$0"', pipe]):
        ran = user("sources", "--config", pipe)
    assert (ran.status, len(lines_about("strict: ", ran))) == (2, 1)


def test_an_endless_pipe_is_read_up_to_the_limit(user: User) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        ran = user("state-cost", f"/proc/{os.getpid()}/fd/{endless.stdout.fileno()}")
        endless.kill()
    assert ran.status == 2
    assert len(lines_about("longer than 4194304 bytes", ran)) == 1


def test_a_pipe_that_ends_is_read(user: User) -> None:
    read, write = os.pipe()
    os.write(write, b"strict = 7\n")
    os.close(write)
    ran = user("sources", "--config", f"/proc/{os.getpid()}/fd/{read}")
    os.close(read)
    assert (ran.status, len(lines_about("strict: ", ran))) == (2, 1)


DEEP = '{"model_type": ' + '{"a": ' * 50_000


@pytest.mark.parametrize("text", [*HOSTILE.values(), DEEP, "[" * 100_000, '{"model_type": ' + "9" * 5000 + "}"])
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_hostile_circuit_is_refused_in_one_line(user: User, text: str, suffix: str) -> None:
    (user.clone / f"c.{suffix}").write_text(text, "utf-8", errors="surrogateescape")
    ran = user("state-cost", f"c.{suffix}")
    assert ran.status == 2
    assert len(lines_about("error", ran)) == 1
    assert "Traceback" not in ran.err


# What messages may contain


def as_toml(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    table = cast("dict[str, Any]", value)
    return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(inner)}" for key, inner in table.items()) + "}"


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize(
    "document",
    [
        {CONTROLS: 1},
        {CONTROLS: {"a": 1}},
        {"record": {CONTROLS: 1}},
        {"record": {"path": CONTROLS, "on_gap": CONTROLS}},
        {"otel": {"endpoint": CONTROLS, "rounds": CONTROLS, CONTROLS: CONTROLS}},
        {"state-cost": {"file": CONTROLS, "formats": [CONTROLS], "convention": CONTROLS}},
        {"state-cost": {"formats": {CONTROLS: CONTROLS}}},
        {"gpu": {"devices": [CONTROLS], "enabled": CONTROLS}},
        {"console": {CONTROLS: 1}},
        {"rerun": {"connections": [CONTROLS]}},
        {"strict": CONTROLS},
        {"plugins": CONTROLS},
    ],
)
@pytest.mark.parametrize("trusted", [False, True])
def test_keys_and_values_reach_the_terminal_as_text(user: User, document: dict[str, Any], trusted: bool) -> None:
    text = "".join(f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in document.items())
    (user.clone / "proofstream.toml").write_text(text)
    ran = user.run("--config", "proofstream.toml") if trusted else user.run()
    assert trusted or ran.status == 0
    assert ran.err != ""
    assert harmless(ran.err), repr(ran.err)
    assert harmless(user("trust").err)


def test_errors_of_the_library_are_one_safe_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from proofstream.config import load_config
    from proofstream.loader import Selection, load

    path = tmp_path / "c.toml"
    for text in ('"\\u001b" = 1', '["\\u202e"]', 'strict = "\\u001b\\n"', "a = \x1b", '[record]\n"\\u001b" = 1\nx'):
        path.write_text(text)
        with pytest.raises(proofstream.ConfigError) as caught:
            load_config(plugins=["record"], path=path, environ={})
        assert str(caught.value).isprintable()
    environ = {"PROOFSTREAM_\x1b": "1"}
    load_config(plugins=["record"], folder=tmp_path, environ=environ).warn_of_strangers(load(Selection(), found=[]))
    (record,) = caplog.records
    assert record.getMessage().isprintable()


# A third party that takes a name


def option(flag: str) -> str:
    made = f"Option(flag={flag!r}, key='k', kind=OptionKind.SWITCH, summary='s')"
    return f"    @hookimpl\n    def proofstream_options(self): return [{made}]\n"


SOURCE = """    @hookimpl
    def proofstream_sources(self, catalog):
        return [SourceType(scheme="tcp", form="tcp:", summary="s", open=print, live=True, waits=False)]
"""
COMMAND = """    @hookimpl
    def proofstream_commands(self):
        return [Tool(name="{}", summary="s", argument="X", options=(), run=print)]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a third-party plugin of a name."""
    site, module = tmp_path / "site", f"stranger_{tmp_path.name}"

    def make(name: str, hooks: str) -> None:
        info = site / "stranger-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[proofstream]\n{name} = {module}:P\n")
        body = "    @hookimpl\n    def proofstream_consume(self, batch): ...\n"
        (site / f"{module}.py").write_text(f"from proofstream import *\nclass P:\n{hooks}{body}")
        monkeypatch.setattr(sys, "path", [str(site), *sys.path])
        importlib.invalidate_caches()

    return make


@pytest.mark.parametrize(
    ("name", "hooks", "says"),
    [
        ("otel", "", "the plugin otel of stranger 1.0 is not used, because a plugin of proofstream has this name; "),
        (
            "aaa",
            option("--otlp"),
            "plugin aaa (stranger 1.0) is broken: flag '--otlp' is declared by both otel and aaa",
        ),
        ("aaa", option("--follow"), "flag '--follow' is declared by both proofstream and aaa"),
        ("aaa", option("--record"), "flag '--record' is declared by both record and aaa"),
        ("aaa", SOURCE, "source scheme 'tcp' is declared by both proofstream and aaa"),
        ("aaa", COMMAND.format("demo"), "command 'demo' is declared by both demo and aaa"),
        ("aaa", COMMAND.format("trust"), "command 'trust' is declared by both proofstream and aaa"),
        ("proofstream", "", "a plugin cannot be named 'proofstream'"),
        ("producer", "", "a plugin cannot be named 'producer'"),
    ],
)
def test_first_party_features_work_beside_a_plugin_that_takes_their_name(
    user: User, install: Callable[[str, str], None], name: str, hooks: str, says: str
) -> None:
    install(name, hooks)
    ran = user.run("--otlp-file", "out", "--record", "r.jsonl")
    assert ran.status == 0, ran.err
    assert (user.clone / "out" / "traces.jsonl").stat().st_size > 0
    assert (user.clone / "r.jsonl").stat().st_size > 0
    assert len(lines_about(says, ran)) == 1
    assert "tcp://" in user("sources").out
    said = user.run("--otlp", "--set", "otel.nonsense=1")
    assert lines_about("otel.nonsense", said) != []
    (user.clone / "proofstream.toml").write_text("strict = true\n")
    assert len(lines_about("is trusted until it changes", user("trust"))) == 1
