"""Sends OTLP over HTTP with protobuf."""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy

import requests

from proofstream_otel import environment
from proofstream_otel.otlp.protobuf import decode_rejection
from proofstream_otel.otlp.transport import Reply, without_secrets
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


class HttpTransport:
    """Posts to one URL over one persistent connection."""

    def __init__(self, url: str, headers: Mapping[str, str], signal: Signal) -> None:
        self.shown = without_secrets(url)
        self._url = url
        self._gzip = environment.is_gzip(signal)
        self._timeout_s = environment.timeout_s(signal)
        self._session = requests.Session()
        self._session.headers.update({"Content-Type": "application/x-protobuf", "User-Agent": "proofstream"})
        if self._gzip:
            self._session.headers["Content-Encoding"] = "gzip"
        self._session.headers.update(headers)
        # A receiver may set any number of cookies; none is kept or sent back.
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        # Without this, requests replaces a configured Authorization header by credentials from .netrc.
        self._session.auth = _unchanged
        tls = environment.tls(signal)
        self._verify = str(tls.authority) if tls.authority is not None else True
        if tls.certificate is not None and tls.key is not None:
            self._session.cert = (str(tls.certificate), str(tls.key))
        elif tls.certificate is not None:
            self._session.cert = str(tls.certificate)

    def post(self, body: bytes, timeout_s: float) -> Reply:
        """Send one request."""
        limit = min(timeout_s, self._timeout_s)
        deadline = time.monotonic() + limit
        content = gzip.compress(body, compresslevel=6) if self._gzip else body
        try:
            # No redirects: a redirected POST arrives as a GET without a body.
            with self._session.post(
                self._url, data=content, timeout=limit, verify=self._verify, allow_redirects=False, stream=True
            ) as response:
                return _reply(response, _read(response, deadline))
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            return Reply(accepted=False, reason=_plain(error), retryable=True)
        except Exception as error:  # noqa: BLE001 - no failure may end the exporting thread
            return Reply(accepted=False, reason=_plain(error))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


def _unchanged(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


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
        reason=f"HTTP {status} {response.reason or ''}".strip(),
        retryable=status in _RETRYABLE,
        unsupported=status in _UNSUPPORTED,
        retry_after_s=_retry_after(response.headers.get("Retry-After")),
    )


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
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the answer broke off"
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return text or type(cause).__name__
