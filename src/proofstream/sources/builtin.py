"""Lists the core's sources by scheme. Each is imported only when it is opened, since most processes open none."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from urllib.parse import unquote

from proofstream.catalog import Catalog
from proofstream.contracts import Source, SourceRequest, SourceType
from proofstream.errors import UsageError
from proofstream.wire import LineDecoder


def builtin_sources(catalog: Catalog) -> list[SourceType]:
    """Return the core's own source types.

    Args:
        catalog: The event types to read with. It may grow until a source is opened.
    """
    decoder = LineDecoder(catalog)

    def open_stdin(request: SourceRequest) -> Source:
        _refuse_file_flags(request)
        _refuse_once(request)
        return open_standard_input(request, decoder)

    def open_unix(request: SourceRequest) -> Source:
        from proofstream.sources.shedding import BulkLines
        from proofstream.sources.sockets import UnixSource

        _refuse_file_flags(request)
        return UnixSource(request, decoder, BulkLines(catalog))

    def open_tcp(request: SourceRequest) -> Source:
        from proofstream.sources.shedding import BulkLines
        from proofstream.sources.sockets import TcpSource

        _refuse_file_flags(request)
        return TcpSource(request, decoder, BulkLines(catalog))

    return [
        SourceType(
            scheme="file",
            form="PATH",
            summary="a file of JSON lines or a recording, also compressed (gzip, zstd)",
            open=lambda request: _open_file(request, decoder),
            live=False,
            waits=True,
        ),
        SourceType(
            scheme="-",
            form="-",
            summary="JSON lines on standard input, also compressed",
            open=open_stdin,
            live=True,
            waits=True,
        ),
        SourceType(
            scheme="unix",
            form="unix:PATH",
            summary="JSON lines from connections to a Unix socket, which proofstream listens on",
            open=open_unix,
            live=True,
            waits=False,
        ),
        SourceType(
            scheme="tcp",
            form="tcp://HOST:PORT",
            summary="JSON lines from connections to a TCP port of this machine, which proofstream listens on",
            open=open_tcp,
            live=True,
            waits=False,
        ),
    ]


def open_standard_input(request: SourceRequest, decoder: LineDecoder, *, descriptor: int = 0) -> Source:
    """Open standard input: as a file if one is redirected into it, else as a stream, which is read from now on."""
    from proofstream.sources.files import RedirectedFile
    from proofstream.sources.streams import StdinSource

    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        is_file = False
    if is_file:
        return RedirectedFile(descriptor, request, decoder)
    return StdinSource(request, decoder, descriptor=descriptor)


def _open_file(request: SourceRequest, decoder: LineDecoder) -> Source:
    from proofstream.sources.compression import is_compressed, need_zstandard
    from proofstream.sources.files import FileSource
    from proofstream.sources.following import FollowedFile

    _refuse_once(request)
    path = path_of(request.uri)
    if path == Path():
        raise UsageError("SOURCE names no file", hint="name a file, or - for standard input")
    if request.speed is not None and not (math.isfinite(request.speed) and request.speed > 0):
        raise UsageError(f"--speed {request.speed}: must be a number above 0")
    if not request.follow:
        need_zstandard(path)
        return FileSource(path, request, decoder)
    if is_compressed(path):
        raise UsageError(f"{path}: a compressed file cannot be followed")
    if request.speed is not None:
        raise UsageError("--follow and --speed cannot be combined: a followed file has its own pace")
    return FollowedFile(path, request, decoder)


def path_of(uri: str) -> Path:
    """Return the path that a SOURCE names, given as PATH, `file:PATH` or `file:///PATH`."""
    if uri.startswith("file://"):
        return Path(unquote(uri.removeprefix("file://")))
    return Path(uri.removeprefix("file:"))


def _refuse_file_flags(request: SourceRequest) -> None:
    for flag, given in (("--follow", request.follow), ("--speed", request.speed is not None)):
        if given:
            raise UsageError(f"{flag} is for files; {_shown(request)} has its own pace")


def _refuse_once(request: SourceRequest) -> None:
    if request.once:
        raise UsageError(
            f"--once is for sockets, where it ends the run with the first connection; it is not for {request.uri}"
        )


def _shown(request: SourceRequest) -> str:
    return "standard input" if request.uri == "-" else request.uri
