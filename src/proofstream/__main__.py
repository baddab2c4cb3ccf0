"""Runs the command as ``python -m proofstream``."""

from __future__ import annotations

import sys

from proofstream_start import main

if __name__ == "__main__":
    sys.exit(main())
