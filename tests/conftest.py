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


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets logging up for its process, which in a test is everybody's."""
    logger = logging.getLogger("proofstream")
    level, handlers, propagate = logger.level, logger.handlers, logger.propagate
    yield
    logger.setLevel(level)
    logger.handlers, logger.propagate = handlers, propagate
