"""The pytest fixture `proofstream_host`.

pytest imports this module in every test run where proofstream is installed, so it lies outside the package and imports
nothing but pytest until a test uses the fixture. `proofstream.testing` has everything else for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from proofstream.testing import PluginHost


@pytest.fixture
def proofstream_host() -> Iterator[Callable[..., PluginHost]]:
    """Return a function that makes hosts of plugins. Its arguments are those of `proofstream.testing.PluginHost`.

    Every host is closed after the test. If the test did not close a host itself, the problems in its report fail the
    test.
    """
    from proofstream.testing import PluginHost

    hosts: list[PluginHost] = []

    def make(*plugins: object, **arguments: Any) -> PluginHost:
        host = PluginHost(*plugins, **arguments)
        hosts.append(host)
        return host

    yield make
    problems = [problem for host in hosts if not host.is_closed for problem in host.close().problems]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
