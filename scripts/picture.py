"""Makes docs/images/demo.svg from a real run of the demo: a frame of the live view, and the closing report.

It needs tmux, the terminal that the demo runs in.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 100, 56
SESSION = "proofstream-picture"


def tmux(*words: str) -> str:
    """Run a command of tmux, on a server of its own, and return its output."""
    return subprocess.run(["tmux", "-L", SESSION, *words], check=True, capture_output=True, text=True).stdout


def screen(*options: str) -> str:
    """Return what the terminal shows, with its colours."""
    return tmux("capture-pane", "-t", SESSION, "-e", "-p", *options).rstrip()


def frames(command: str, folder: str) -> tuple[str, str]:
    """Run the command; return a frame at 75 %, and the last frame."""
    size = ("-x", str(WIDTH), "-y", str(HEIGHT))
    tmux("new-session", "-d", "-s", SESSION, "-c", folder, *size, f"{command}; sleep 60")
    try:
        deadline = time.monotonic() + 60
        live = ""
        while time.monotonic() < deadline and "the results" not in (now := screen()):
            if " 75 %" in now:
                live = re.sub(r"\n{3,}", "\n\n", now)  # the view is at the bottom, far below what was said before
            time.sleep(0.05)
        time.sleep(0.5)  # until the report is complete
        return live, screen("-S", "-")  # from the beginning: the report is longer than the terminal
    finally:
        tmux("kill-server")


def main() -> None:
    """Run the demo and write the picture."""
    command = f"{sys.executable} -m proofstream demo"
    with tempfile.TemporaryDirectory() as folder:
        live, report = frames(command, folder)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi("$ scripts/demo"))
    console.print(Text.from_ansi(live))
    console.print(Text("\n  a moment later\n", style="dim italic"))
    console.print(Text.from_ansi("info   Proof verified" + report.partition("Proof verified")[2]))
    svg = console.export_svg(title="proofstream demo")
    # A page that shows the picture must not fetch a font from another host.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    target = ROOT / "docs" / "images" / "demo.svg"
    target.write_text(svg, "utf-8")
    sys.stdout.write(f"wrote {target.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
