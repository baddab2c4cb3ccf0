"""Hosts for the tests of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proofstream.config import Config, HostSettings
from proofstream.host import Host
from proofstream.loader import Selection, load


@pytest.fixture
def make_host() -> Iterator[Callable[..., Host]]:
    """Makes and starts a host of plugin instances. Keywords are host settings. It is closed after the test."""
    hosts: list[Host] = []

    def make(*plugins: object, live: bool = True, ready: bool = True, start: bool = True, **settings: Any) -> Host:
        registry = load(Selection(), found=[], instances=plugins)
        config = Config(host=HostSettings(**settings))
        host = Host(registry=registry, config=config, asked=list(registry.records), live=live)
        hosts.append(host)
        if start:
            host.start()
        if start and ready:
            host.wait_configured()
        return host

    yield make
    for host in hosts:
        host.close(1.0)
