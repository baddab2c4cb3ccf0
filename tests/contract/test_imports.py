"""Importing is cheap, quiet and one-directional: a module loads what it needs, and no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
STREAM = REPOSITORY / "tests" / "data" / "wire" / "smollm2-135m-cpu.jsonl"
FACE = {"msgspec", "typing_extensions"}  # the last one is for msgspec, where it is installed
CORE = {*FACE, "pluggy"}

# Prints the top-level names of what importing argv[1:] loaded, without the standard library.
LOADED = """
import importlib, json, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(name)
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(new - set(sys.stdlib_module_names))))
"""

# Runs the command with argv[1:], and prints the names of all modules that are loaded at its end.
COMMAND = """
import json, sys
import proofstream_start
sys.argv = ["proofstream", *sys.argv[1:]]
proofstream_start.main()
print("\\n" + json.dumps(list(sys.modules)))
"""

# Opens a session, and prints the same.
SESSION = """
import json, sys
import proofstream
proofstream.open_session().close()
print("\\n" + json.dumps(list(sys.modules)))
"""

# What is slow to load, each with the reason why most runs do without it.
CHECKS_TABLES = {"pydantic"}  # right tables are read by msgspec
SENDS = {"google", "grpc", "requests", "urllib3"}  # for a receiver
SDKS = {"numpy", "opentelemetry.context", "opentelemetry.sdk.trace", "psutil", "pyarrow", "pynvml", "rerun"}
DRAWS = {"rich"}  # for a terminal
FINDS = {"email", "importlib.metadata", "zipfile"}  # entry points are read in plain folders

# Imports each of argv[1:] in a copy of an interpreter that has imported nothing of ours, and prints what could be.
FIRST = """
import importlib, os, sys
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        importlib.import_module(name)
        print(name, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def modules_below(root: Path) -> list[str]:
    """Return the importable modules in a folder, without `__main__` modules, which run when imported."""
    paths = (path.relative_to(root).with_suffix("") for path in sorted(root.rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__"]


class Accepting(BaseHTTPRequestHandler):
    """Accepts whatever is posted."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002
        pass


@contextmanager
def accepting_receiver() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Accepting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def loaded_by(*modules: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *modules], capture_output=True, text=True, timeout=60, check=True
    )
    found: list[str] = json.loads(done.stdout)
    return {name for name in found if not name.startswith("__editable__") and name[:1] != "_"}


def test_the_public_face_loads_msgspec_alone() -> None:
    assert loaded_by("proofstream") == {"proofstream", *FACE}


def test_a_prover_that_imports_the_public_face_loads_nothing_that_only_plugins_use() -> None:
    script = (
        "import json, sys, proofstream; print(json.dumps([name for name in sys.modules if 'proofstream.' in name]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(json.loads(done.stdout))
    assert "proofstream.session" in loaded
    assert not loaded & {
        f"proofstream.{name}" for name in ("contracts", "hookspecs", "intervals", "observed", "timeline")
    }


def modules_after(script: str, *words: str, cwd: Path) -> set[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PROOFSTREAM_"))}
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=cwd,
        env=environ,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("words", "never"),
    [
        (["--help"], {"asyncio", "ssl", "proofstream.config", *CHECKS_TABLES, *SENDS, *SDKS, *DRAWS, *FINDS}),
        (["run", "STREAM", "--no-console"], {"asyncio", "ssl", *CHECKS_TABLES, *SENDS, *SDKS, *DRAWS, *FINDS}),
        (
            ["run", "STREAM", "--no-console", "--record", "a.jsonl"],
            {"asyncio", "ssl", *CHECKS_TABLES, *SENDS, *SDKS, *DRAWS, *FINDS},
        ),
        (
            ["run", "STREAM", "--no-console", "--otlp-file", "otlp"],
            {"asyncio", "ssl", *CHECKS_TABLES, *SENDS, *SDKS, *DRAWS, *FINDS},
        ),
        (["run", "STREAM", "--no-console", "--otlp", "RECEIVER"], {"asyncio", "grpc", *CHECKS_TABLES, *SDKS, *DRAWS}),
        (["run", "STREAM", "--no-plugin", "otel"], {"asyncio", "ssl", *CHECKS_TABLES, *SENDS, *SDKS, *FINDS}),
    ],
    ids=["help", "run", "record", "otlp-file", "otlp", "console"],
)
def test_a_command_loads_nothing_that_it_does_not_need(words: list[str], never: set[str], tmp_path: Path) -> None:
    with accepting_receiver() as receiver:
        places = {"STREAM": str(STREAM), "RECEIVER": receiver}
        loaded = modules_after(COMMAND, *(places.get(word, word) for word in words), cwd=tmp_path)
    assert "proofstream.command.cli" in loaded
    assert not loaded & never


def test_a_session_by_default_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    loaded = modules_after(SESSION, cwd=tmp_path)
    assert "proofstream_otel" in loaded
    assert not loaded & {"asyncio", "click", "ssl", *CHECKS_TABLES, *SENDS, *SDKS, *DRAWS, *FINDS}


def test_testing_loads_no_more_than_the_public_face() -> None:
    assert loaded_by("proofstream.testing") == {"proofstream", *CORE}


def test_the_whole_core_loads_no_plugin_and_no_sdk() -> None:
    everything = modules_below(REPOSITORY / "src")

    assert len(everything) > 30
    everything.remove("proofstream_pytest")
    assert loaded_by(*everything) == {"proofstream", "proofstream_start", "click", *CORE}


def test_the_pytest_plugin_loads_nothing_of_ours_in_test_runs_that_do_not_use_it() -> None:
    assert loaded_by("proofstream_pytest") == {"proofstream_pytest", *loaded_by("pytest")}


@pytest.mark.parametrize("plugin", [path.name for path in sorted((REPOSITORY / "plugins").glob("proofstream_*"))])
def test_the_class_of_a_plugin_loads_nothing_heavy(plugin: str) -> None:
    assert loaded_by(plugin) == {"proofstream", plugin, *CORE}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_module_can_be_the_first_one_imported_and_warns_of_nothing() -> None:
    modules = [*modules_below(REPOSITORY / "src"), *modules_below(REPOSITORY / "plugins")]

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST, *modules], capture_output=True, text=True, timeout=550, check=False
    )

    assert (done.returncode, done.stdout.split(), done.stderr) == (0, modules, "")


def test_every_plugin_stands_under_the_import_rule() -> None:
    linter = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    _, core, independence, face, *_ = linter["contracts"]
    plugins = {folder.name for folder in (REPOSITORY / "plugins").glob("proofstream_*")}

    for listed in (linter["root_packages"], core["forbidden_modules"], independence["modules"], face["source_modules"]):
        assert plugins <= set(listed)
