"""The core's own sources: files, standard input and local sockets. They implement the protocols in `contracts`."""

from __future__ import annotations
