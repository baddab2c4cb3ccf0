"""Where events come from: files, standard input, local sockets. The contracts they implement are in `contracts`."""

from __future__ import annotations
