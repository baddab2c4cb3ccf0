"""``python -m proofstream``."""

from __future__ import annotations

import sys

from proofstream.cli import main

if __name__ == "__main__":
    sys.exit(main())
