"""Sends OTLP over HTTP with protobuf."""

from __future__ import annotations

import gzip
import math
import os
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException, RemoteDisconnected
from http.cookiejar import DefaultCookiePolicy

import requests

from proofstream_otel import environment
from proofstream_otel.addresses import Address
from proofstream_otel.otlp.protobuf import decode_rejection
from proofstream_otel.otlp.proxies import proxy_of, shown_with
from proofstream_otel.otlp.transport import NO_TLS, OURS, PERHAPS_OURS, TLS_ONLY, TRUST, Reply, speaks_tls
from proofstream_otel.tls import Tls
from proofstream_otel.values.signals import Signal

MAX_ANSWER_BYTES = 64 * 2**10

_RETRYABLE = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_UNSUPPORTED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_CHUNK_BYTES = 4096
_SHOWN_CHARS = 60
_GRPC_PORT = 4317
_DEFAULT_PORT = 80
_SETTINGS = "\x04"
"""The type of the frame that a gRPC server sends first, in the fourth byte."""
_BROKEN = (BrokenPipeError, ConnectionResetError, HTTPException, ssl.SSLError)
"""What comes of speaking HTTP to a server that speaks gRPC, if not that frame, or TLS."""


class HttpTransport:
    """Posts to one URL over one persistent connection."""

    def __init__(self, address: Address, headers: Mapping[str, str], tls: Tls, signal: Signal) -> None:
        self._address = address
        self._proxy = proxy_of(address)
        self.shown = shown_with(self._proxy, address)
        self._gzip = environment.is_gzip(signal)
        self._timeout_s = environment.timeout_s(signal)
        self._session = requests.Session()
        self._session.headers.update({"Content-Type": "application/x-protobuf", "User-Agent": "proofstream"})
        if self._gzip:
            self._session.headers["Content-Encoding"] = "gzip"
        self._session.headers.update(headers)
        # A receiver may set any number of cookies; none is kept or sent back.
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        # Otherwise requests replaces a configured Authorization header by credentials from .netrc, and asks proxies
        # for addresses on this machine.
        self._session.trust_env = False
        if self._proxy is not None:
            self._session.proxies = {address.scheme: self._proxy.url}
        self._verify = _authorities() if tls.authority is None else str(tls.authority.path)
        if tls.certificate is not None:
            self._session.cert = (str(tls.certificate.path), str(tls.key_path))

    def post(self, body: bytes, timeout_s: float) -> Reply:
        """Send one request."""
        limit = min(timeout_s, self._timeout_s)
        deadline = time.monotonic() + limit
        content = gzip.compress(body, compresslevel=6) if self._gzip else body
        try:
            # No redirects: a redirected POST arrives as a GET without a body.
            with self._session.post(
                self._address.url, data=content, timeout=limit, verify=self._verify, allow_redirects=False, stream=True
            ) as response:
                return _reply(response, _read(response, deadline))
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            return Reply(accepted=False, reason=self._plain(error), retryable=True)
        except Exception as error:  # noqa: BLE001 - no failure may end the exporting thread
            return Reply(accepted=False, reason=self._plain(error))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _plain(self, error: Exception) -> str:
        """Describe an error in a few words, and whose it is."""
        text, cause = _plain(error), _cause_of(error)
        is_broken = isinstance(cause, _BROKEN) and self._proxy is None
        if isinstance(error, requests.exceptions.ProxyError):
            return f"the proxy cannot be used: {text}"
        if isinstance(cause, BadStatusLine) and str(cause)[:2] == "\0\0" and str(cause)[3:4] == _SETTINGS:
            return f"gRPC answers there; {self._other_protocol}"
        if is_broken and not self._address.uses_tls and self._speaks_tls:
            return TLS_ONLY.format(scheme=self._address.scheme)
        if isinstance(cause, ssl.SSLEOFError) and self._session.cert is None:
            text = f"{text}; {PERHAPS_OURS}"
        if is_broken and self._address.port == _GRPC_PORT:
            return f"{text}; {_GRPC_PORT} is the port of gRPC: {self._other_protocol}"
        return text

    @cached_property
    def _speaks_tls(self) -> bool:
        return speaks_tls(self._address, _DEFAULT_PORT)

    @property
    def _other_protocol(self) -> str:
        scheme = "grpcs" if self._address.uses_tls else "grpc"
        return f"OTLP over HTTP has port 4318 by default, and the endpoint for gRPC begins with {scheme}://"


def _authorities() -> str | bool:
    """Return the authorities to trust by default; requests has variables for them."""
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True


def _read(response: requests.Response, deadline: float) -> bytes:
    """Read the answer, up to a limit and until the deadline."""
    answer = b""
    try:
        for chunk in response.iter_content(_CHUNK_BYTES):
            answer += chunk
            if len(answer) > MAX_ANSWER_BYTES:
                break
            if time.monotonic() > deadline:
                # The timeout of requests is for each read, so a trickle of bytes would pass it.
                raise requests.Timeout("the answer takes too long")
    except requests.exceptions.ContentDecodingError:
        return b""  # the status says whether the receiver accepted the request
    return answer


def _reply(response: requests.Response, answer: bytes) -> Reply:
    status = response.status_code
    if status // 100 == 2:  # noqa: PLR2004 - the class of successful answers
        rejected, message = decode_rejection(answer)
        return Reply(accepted=True, rejected=rejected, reason=message)
    return Reply(
        accepted=False,
        reason=TLS_ONLY.format(scheme="http")
        if _wants_tls(status, answer)
        else f"HTTP {status} {response.reason or ''}".strip(),
        retryable=status in _RETRYABLE,
        unsupported=status in _UNSUPPORTED,
        retry_after_s=_retry_after(response.headers.get("Retry-After")),
    )


def _wants_tls(status: int, answer: bytes) -> bool:
    """Return whether a server with TLS answers to plain text, as those of Go and nginx do."""
    return status == HTTPStatus.BAD_REQUEST and (b"to an HTTPS server" in answer or b"to HTTPS port" in answer)


def _retry_after(value: str | None) -> float:
    """Return the header's delay, given in seconds or as a date, in seconds; 0 if it is missing or makes no sense."""
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value)
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return 0.0  # the receiver may write anything


def _plain(error: Exception) -> str:
    """Describe an error in a few words: requests nests errors three deep, with addresses of objects in them."""
    cause = _cause_of(error)
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the answer broke off"
    if isinstance(cause, RemoteDisconnected):
        return "the connection was closed without an answer"
    if isinstance(cause, BadStatusLine):
        return f"the answer is not HTTP: {str(cause).strip()[:_SHOWN_CHARS]}"
    if isinstance(cause, ssl.SSLError):
        return _plain_tls(cause)
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return text or type(cause).__name__


def _plain_tls(error: ssl.SSLError) -> str:
    """Describe a failure of TLS, with what to do about it."""
    if error.reason == "WRONG_VERSION_NUMBER":
        return NO_TLS.format(scheme="http")
    if "CERTIFICATE_REQUIRED" in (error.reason or ""):
        return f"the receiver wants a certificate of ours; {OURS}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{error.verify_message}; {TRUST}"
    if isinstance(error, ssl.SSLEOFError):
        return "the receiver broke TLS off"
    return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"


def _cause_of(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__ or _wrapped_in(error)) is not None:
        error = inner
    return error


def _wrapped_in(error: BaseException) -> BaseException | None:
    """Return the error that urllib3 has put into one that was never raised itself."""
    return next((part for part in error.args if isinstance(part, BaseException)), None)
