"""Lists the core's sources by scheme. Each is imported only when it is opened, since most processes open none."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import msgspec

from proofstream.catalog import Catalog
from proofstream.contracts import Source, SourceRequest, SourceType
from proofstream.errors import UsageError
from proofstream.wire import MAX_NAME_CHARS, LineDecoder


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


def named(request: SourceRequest) -> SourceRequest:
    """Return the request with what its address calls the model, `tcp://HOST:PORT?name=MODEL` or `unix:PATH?name=MODEL`.

    Only for sockets: a file's own name may end so, and a plugin's source has a query of its own.

    Raises:
        UsageError: The name is empty, too long, or not the one of ``--name``, or the address has more than a name.
    """
    address, mark, query = request.uri.rpartition("?")
    if mark and query.startswith("name=") and address.startswith(("tcp:", "unix:")):
        given = dict(parse_qsl(query, keep_blank_values=True))
        name = given.pop("name")
        if given:
            raise UsageError(f"{request.uri}: an address knows name only, not {', '.join(given)}")
        if request.model_name not in (None, name):
            raise UsageError(
                f"the model has two names, {name!r} and {request.model_name!r}: leave out ?name= or --name"
            )
        request = msgspec.structs.replace(request, uri=address, model_name=name)
    if request.model_name is not None and not 0 < len(request.model_name.strip()) <= MAX_NAME_CHARS:
        raise UsageError(f"a model's name has 1 to {MAX_NAME_CHARS} characters, and is not blank")
    return request


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
