"""Runs the command, as ``proofstream`` or as ``python -m proofstream``."""

from __future__ import annotations

import sys

from proofstream.command.early import begin_reading
from proofstream_start import end_quietly


def main() -> int:
    """Run the command line of this process and return the exit status."""
    end_quietly()
    begin_reading(sys.argv[1:])
    from proofstream.command.cli import main as run  # only now: what it imports takes longer than a layer

    return run()


if __name__ == "__main__":
    sys.exit(main())
