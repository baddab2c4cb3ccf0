"""Makes docs/images/demo.svg from a real run of the demo: a frame of the live view, and the closing report.

Needs tmux, which is the terminal that the demo runs in.
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
WIDTH, HEIGHT = 100, 36
SESSION = "proofstream-picture"


def tmux(*words: str) -> str:
    return subprocess.run(["tmux", "-L", SESSION, *words], check=True, capture_output=True, text=True).stdout


def screen() -> str:
    return tmux("capture-pane", "-t", SESSION, "-e", "-p").rstrip()


def frames(command: str, folder: str) -> tuple[str, str]:
    """A frame with two layers done, and the last one."""
    size = ("-x", str(WIDTH), "-y", str(HEIGHT))
    tmux("new-session", "-d", "-s", SESSION, "-c", folder, *size, f"{command}; sleep 60")
    try:
        deadline = time.monotonic() + 60
        live = ""
        while time.monotonic() < deadline and "wrote" not in (now := screen()):
            if " 75 %" in now:
                live = now
            time.sleep(0.05)
        time.sleep(0.5)
        return live, screen()
    finally:
        tmux("kill-server")


def main() -> None:
    command = f"{sys.executable} -m proofstream demo"
    with tempfile.TemporaryDirectory() as folder:
        live, report = frames(command, folder)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi("$ scripts/demo"))
    console.print(Text.from_ansi(live))
    console.print(Text("\n  a moment later\n", style="dim italic"))
    console.print(Text.from_ansi("info   Proof verified" + report.partition("Proof verified")[2]))
    svg = console.export_svg(title="proofstream demo")
    # The page that shows the picture must not fetch a font from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    target = ROOT / "docs" / "images" / "demo.svg"
    target.write_text(svg, "utf-8")
    sys.stdout.write(f"wrote {target.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
