"""Says what the user must know even if the application has not set logging up."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from proofstream.text import safe_text

_LONGEST_NOTICE = 1000

_log = logging.getLogger("proofstream")


def warn_user(text: str) -> None:
    """Log a line as a warning; write it to standard error if no handler would show it. Never raises.

    Our logger has a handler that does nothing, as a library's should. Because of it, Python's own last resort for
    applications without logging does not show our warnings.
    """
    line = safe_text(text, _LONGEST_NOTICE)
    _log.warning("%s", line)
    if _log.isEnabledFor(logging.WARNING) and not _is_handled():
        with suppress(Exception):  # it may be closed, or not exist
            sys.stderr.write(f"proofstream: {line}\n")
            sys.stderr.flush()


def _is_handled() -> bool:
    """Return whether the application has given our logger, or one above it, a handler."""
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
