"""What all tests share: the streams to test against, and how hypothesis runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A slow machine is no failure, and a failure must come back on the next run.
settings.register_profile("proofstream", deadline=None, derandomize=True, database=None)
settings.load_profile("proofstream")


@pytest.fixture(scope="session")
def wire_data() -> Path:
    """The folder with the streams and what a correct reader finds in them."""
    return Path(__file__).parent / "data" / "wire"


@pytest.fixture(autouse=True, scope="session")
def no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep a developer's own configuration, and the folders that they trust, out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.setenv(variable, str(tmp_path_factory.mktemp("xdg")))
        yield


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets logging up for its process, which in a test is everybody's."""
    logger = logging.getLogger("proofstream")
    level, handlers, propagate = logger.level, logger.handlers, logger.propagate
    yield
    logger.setLevel(level)
    logger.handlers, logger.propagate = handlers, propagate
