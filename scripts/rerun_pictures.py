"""Makes the pictures of docs/rerun.md: draws those of tests/pictures, and reduces what is shown to 256 colours."""

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
"""Pictures of the tests by the names under which they are shown."""


def main() -> None:
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
