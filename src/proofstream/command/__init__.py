"""The command line: arguments, plugin files, listings, results, messages, and the command as a process."""

from __future__ import annotations
