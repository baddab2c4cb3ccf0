"""docs/state-cost.md shows real output in its examples, and names every option, key and counter."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proofstream import Catalog, Decoded, LineDecoder, StateBytesMoved, StateProgramRun, read_envelope_log
from proofstream.command.cli import main
from proofstream_state_cost import StateCostPlugin
from proofstream_state_cost.settings import Settings

REPOSITORY = Path(__file__).parents[4]
TEXT = (REPOSITORY / "docs" / "state-cost.md").read_text(encoding="utf-8")
MODEL = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
SCHEMA = json.loads((REPOSITORY / "plugins" / "proofstream_state_cost" / "state-cost.schema.json").read_text("utf-8"))


def blocks() -> Iterator[tuple[str, list[str]]]:
    """Return each indented block that begins with a command: the command, and the lines that it prints."""
    command: str | None = None
    lines: list[str] = []
    for line in [*TEXT.splitlines(), "end"]:
        begins = line.startswith("    $ proofstream ")
        if command is not None and (begins or (line.strip() and not line.startswith("    "))):
            while lines and not lines[-1]:
                lines.pop()
            yield command, lines
            command = None
        if begins:
            command, lines = line.removeprefix("    $ proofstream "), []
        elif command is not None:
            lines.append(line[4:])


SHOWN = list(blocks())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder in which the examples run."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("PROOFSTREAM_", "COLUMNS", "NO_COLOR")):
            monkeypatch.delenv(name)
    shutil.copytree(REPOSITORY / "examples" / "circuits", tmp_path / "examples" / "circuits")
    shutil.copytree(REPOSITORY / "tests" / "data" / "wire", tmp_path / "tests" / "data" / "wire")
    models = json.loads((REPOSITORY / "tests" / "data" / "state" / "golden.json").read_text("utf-8"))["models"]
    (model,) = [each for each in models if each["name"] == MODEL]
    config = {"model_type": model["model_type"], "dtype": "bfloat16", **model["config"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def is_shown_by(printed: list[str], shown: list[str]) -> bool:
    """Return whether the printed lines are the shown ones, where `...` stands for any lines."""
    pattern = "".join(r"(.*\n)+?" if line.strip() == "..." else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


@pytest.mark.parametrize(("command", "shown"), [block for block in SHOWN if block[0].startswith("state-cost ")])
def test_the_command_prints_the_shown_output(
    command: str, shown: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(command.split())
    captured = capsys.readouterr()
    printed = (captured.out + captured.err).splitlines()
    assert status == (2 if captured.err else 0)
    assert is_shown_by(printed, shown), "\n".join(printed)


def test_there_are_examples_of_everything() -> None:
    assert len(SHOWN) == 9
    assert all(shown or command.startswith("run ") for command, shown in SHOWN)


def _in_a_process(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_"))}
    return subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=folder,
        env=kept | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_run_that_is_shown(folder: Path) -> None:
    (command,) = [command for command, _ in SHOWN if command.startswith("run ")]
    ran = _in_a_process(folder, "-m", "proofstream", *command.split(), PROOFSTREAM_PLUGINS="record,state-cost")
    assert ran.returncode == 0, ran.stderr
    assert (folder / "proof.jsonl").read_text().count('{"StateProgramCost":') == 4


def test_the_engine_that_is_shown(folder: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    shutil.copy(folder / "examples" / "circuits" / "nemotron-3-nano-30b-a3b.toml", folder / "model.toml")
    environ = {"PROOFSTREAM_PLUGINS": "record,state-cost,console", "PROOFSTREAM_RECORD_PATH": "engine.jsonl"}
    ran = _in_a_process(folder, "-c", code.replace('"console"', '"console", "record"'), **environ)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"verify_checkpoint +1 +8 +385 MiB +913 GiB/s$", ran.stderr, re.MULTILINE)
    made = [item.event for item in read_envelope_log(folder / "engine.jsonl") if isinstance(item, Decoded)]
    (moved,) = (event for event in made if isinstance(event, StateBytesMoved))
    assert (moved.bytes, moved.timed_ns) == (8 * 50495488, 412_000)


def test_the_line_that_is_shown_is_the_same_event() -> None:
    (line,) = re.findall(r"```json\n(.*)\n```", TEXT)
    event = StateProgramRun(program="verify_checkpoint", sequences=8, duration_ns=412_000)
    assert LineDecoder(Catalog()).decode(line.encode()).event == event


def test_every_option_and_key_is_there() -> None:
    (tool,) = StateCostPlugin().proofstream_commands()
    options = TEXT.split("\n## The command\n")[1].split("\n## ")[0]
    for option in tool.options:
        assert re.search(rf"^\|.*`{option.flag}[` ]|^\|.* {option.flag} ", options, re.MULTILINE), option.flag
    keys = TEXT.split("\n## Configuration\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)\|", keys, re.MULTILINE))))
    assert named == set(Settings.model_fields)
    assert {option.key for option in tool.options} <= named


def test_every_key_of_the_json_is_there() -> None:
    keys = TEXT.split("\n## JSON\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)\|", keys, re.MULTILINE))))
    assert named == set(SCHEMA["properties"]) | {"nodes"}
    for place in SCHEMA["$defs"]["place"]["enum"]:
        assert f"`{place}`" in keys


def test_the_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT):
        assert (REPOSITORY / "docs" / target).exists(), target
    headings = {_anchor(heading) for heading in re.findall(r"^## (.+)$", TEXT, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) == headings


def _anchor(heading: str) -> str:
    kept: Any = re.sub(r"[^\w\- ]", "", heading.lower())
    return str(kept).replace(" ", "-")
