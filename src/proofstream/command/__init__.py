"""The command line: arguments, listings, what the command says, and the command as a process."""

from __future__ import annotations
