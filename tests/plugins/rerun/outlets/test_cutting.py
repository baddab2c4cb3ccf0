"""Cutting ends the connections to one address, and leaves all others alone."""

from __future__ import annotations

import contextlib
import socket

from proofstream_rerun.connections import Viewer
from proofstream_rerun.outlets.cutting import addresses_of, cut_connections


def test_only_connections_to_the_address_are_cut() -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        callers = [stack.enter_context(socket.create_connection(server.getsockname())) for server in servers]
        guests = [stack.enter_context(server.accept()[0]) for server in servers]

        assert cut_connections(addresses_of(Viewer("127.0.0.1", servers[0].getsockname()[1]))) == 1
        callers[1].sendall(b"still there")
        assert guests[1].recv(64) == b"still there"
        assert guests[0].recv(64) == b""
        assert callers[0].recv(64) == b""


def test_a_host_without_an_address_has_no_connections() -> None:
    assert addresses_of(Viewer("no-such-host.invalid", 9876)) == frozenset()
    assert cut_connections(frozenset()) == 0
