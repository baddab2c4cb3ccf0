"""What stands behind a live session in the benchmarks: a receiver of OTLP/HTTP and a terminal, in another process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO

from proofstream import Session, open_session
from proofstream_console import ConsolePlugin

_CHILD = """
import os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left > 0:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass

def read_terminal():
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass

terminal = int(sys.argv[1])
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=read_terminal, daemon=True).start()
sys.stdin.read()
"""


class Backdrop:
    """A receiver, a terminal of 120 by 40, and a folder for recordings."""

    def __init__(self, port: int, terminal: IO[str], folder: Path) -> None:
        self._port = port
        self._terminal = terminal
        self._folder = folder
        self._sessions = 0

    def observe(self, *, console: bool = True) -> Session:
        """Open a session with otel, record and, if wanted, console; wait until they are ready."""
        self._sessions += 1
        plugins = ["otel", "record", *([ConsolePlugin(self._terminal)] if console else [])]
        session = open_session(
            plugins=plugins,
            config={
                "otel": {"endpoint": f"http://127.0.0.1:{self._port}"},
                "record": {"path": str(self._folder / f"{self._sessions}.jsonl")},
                **({"console": {"mode": "live"}} if console else {}),
            },
            source="benchmark",
        )
        if not session.flush(60.0):
            raise SystemExit("the plugins did not get ready")
        return session


@contextlib.contextmanager
def backdrop() -> Generator[Backdrop]:
    """Start the other process, and end it."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    os.environ["TERM"] = "xterm-256color"
    os.environ.pop("NO_COLOR", None)
    with (
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(ours)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[ours],
        ) as child,
        tempfile.TemporaryDirectory() as folder,
        os.fdopen(theirs, "w") as terminal,
    ):
        os.close(ours)
        assert child.stdout is not None
        assert child.stdin is not None
        try:
            yield Backdrop(int(child.stdout.readline()), terminal, Path(folder))
        finally:
            child.stdin.close()
            child.wait(10)
