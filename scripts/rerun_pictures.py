"""Makes the pictures of docs/rerun.md: runs tests/pictures, and reduces those that are shown to 256 colours."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
SHOWN = {
    "transformer-running": "rerun-transformer",
    "smollm2-running": "rerun-smollm2",
    "aborted": "rerun-aborted",
}
"""Names of the tests' pictures -> their names in docs/images."""


def main() -> None:
    """Draw the pictures and write those that are shown to docs/images."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests/pictures"],
            cwd=ROOT,
            env={**os.environ, "CI": "true", "PROOFSTREAM_PICTURES": folder},
            check=True,
        )
        for drawn, shown in SHOWN.items():
            target = ROOT / "docs" / "images" / f"{shown}.png"
            picture = Image.open(Path(folder) / f"{drawn}.png").convert("RGB")
            picture.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)
            sys.stdout.write(f"wrote {target.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
