"""Reads small files and TOML within bounds, because a stranger may have written or placed them."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import time
from typing import Any

MAX_TOML_DEPTH = 32
"""Parts of a dotted key, or brackets inside one another. The parser's cost grows with the square of the former."""

_PIPE_S = 5.0
"""How long a pipe may take to end. One without an end would hold a command forever."""

_CHUNK = 2**16
# Only single characters are repeated possessively: of groups, that goes wrong before Python 3.11.5. Each group can end
# in one way alone, so it is never tried again.
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]++|\\.)*"?|'[^'\n]*+'?)"""
_TOKEN = rf"""
      \"\"\"(?:[^"\\]++|\\.|"(?!""))* (?:\"{{3,5}}|\\?\Z)
    | \'\'\'(?:[^']++|'(?!\'\'))* (?:\'{{3,5}}|\Z)
    | \#[^\n]*+
    | (?P<key>{_PART}(?:[ \t]*+\.[ \t]*+{_PART})*)
    | (?P<open>[\[{{])
    | (?P<close>[\]}}])
"""
"""What can be nested, and the strings and comments in which the same characters mean nothing. It reads each character
once, whatever the text. It is compiled when it is used, because importing proofstream must be quick."""


def read_small_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Read a file, or a pipe that ends within five seconds.

    Args:
        path: The path. A device, a socket or a folder is refused.
        most_bytes: The length in bytes above which it is refused. No more than this is read.

    Raises:
        OSError: It cannot be read, or not within these bounds; `strerror` says why.
        ValueError: The path has a NUL in it.
    """
    # Opening a pipe without a writer would wait for one.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "neither a file nor a pipe")
        content = _read_to_end(handle, most_bytes + 1, is_pipe=stat.S_ISFIFO(mode))
    finally:
        os.close(handle)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"longer than {most_bytes} bytes")
    return content


def _read_to_end(handle: int, most_bytes: int, *, is_pipe: bool) -> bytes:
    content = bytearray()
    deadline = time.monotonic() + _PIPE_S
    while len(content) < most_bytes:
        # A pipe that no writer has opened yet reads as if it had ended, so wait for one first.
        if is_pipe and not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(errno.ETIMEDOUT, f"this pipe has not ended within {_PIPE_S:g} s")
        chunk = os.read(handle, min(_CHUNK, most_bytes - len(content)))
        if not chunk:
            break
        content += chunk
    return bytes(content)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML whose nesting is at most `MAX_TOML_DEPTH`.

    Raises:
        TOMLDecodeError: The text is not TOML.
        ValueError: It is nested deeper, or has a number that is too long.
    """
    import tomllib  # as the pattern above

    line = _line_nested_too_deep(text)
    if line is not None:
        raise ValueError(f"line {line}: nested deeper than {MAX_TOML_DEPTH}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except (ValueError, RecursionError):
        raise ValueError("a number is too long, or it is nested too deep") from None


def _line_nested_too_deep(text: str) -> int | None:
    depth = 0
    for token in re.finditer(_TOKEN, text, re.VERBOSE | re.DOTALL):
        depth += 1 if token["open"] else -1 if token["close"] else 0
        # Dots may stand in quoted parts, too, so the parts are counted, but only where there may be so many.
        dots = token[0].count(".") if token["key"] else 0
        if depth > MAX_TOML_DEPTH or (dots >= MAX_TOML_DEPTH and len(re.findall(_PART, token[0])) > MAX_TOML_DEPTH):
            return text.count("\n", 0, token.start()) + 1
    return None
