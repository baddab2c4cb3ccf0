"""Finds the endpoint of a signal, and opens the transport to it: HTTP or gRPC."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

import msgspec

from proofstream import ConfigError, PluginError, safe_text
from proofstream_otel import addresses, environment, tls
from proofstream_otel.addresses import Address
from proofstream_otel.otlp.transport import Transport
from proofstream_otel.values.signals import SIGNALS, Signal

HTTP_DEFAULT = "http://localhost:4318"
GRPC_DEFAULT = "grpc://localhost:4317"

_SETTING = "otel.endpoint"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_GRPC_KEY = re.compile(r"[0-9A-Za-z_.-]+")


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a signal goes.

    Attributes:
        address: The address; for HTTP it includes the path.
        is_grpc: Whether OTLP goes over gRPC.
    """

    address: Address
    is_grpc: bool


def open_transport(endpoint: str, headers: Mapping[str, str], signal: Signal) -> Transport:
    """Return the transport for a signal to an endpoint, or to the environment's endpoint if it is empty.

    Nothing is connected yet.

    Raises:
        ConfigError: The endpoint cannot be one, or a variable or header is wrong.
        PluginError: The packages for gRPC are not installed.
    """
    place = _place_of(endpoint, signal)
    files = tls.checked(environment.tls(signal))
    all_headers = _all_headers(headers, place, signal)
    if not place.is_grpc:
        from proofstream_otel.otlp.http import HttpTransport

        return HttpTransport(place.address, all_headers, files, signal)
    if importlib.util.find_spec("grpc") is None:
        raise PluginError(
            "otel: an endpoint with gRPC needs packages that are not installed",
            hint="pip install 'proofstream[otel-grpc]'",
        )
    from proofstream_otel.otlp.grpc import GrpcTransport

    return GrpcTransport(place.address, all_headers, files, signal)


def notes(endpoint: str, signal: Signal) -> list[str]:
    """Return a line for each variable that the endpoint overrules although its user may count on it.

    Raises:
        ConfigError: The endpoint cannot be one, or a variable is wrong.
    """
    found: list[str] = []
    address = _place_of(endpoint, signal).address
    shown = f"{address.scheme}://{urlsplit(address.url).netloc}"  # the same for all signals
    secure = {"http": "https", "grpc": "grpcs"}
    names = environment.tls(signal).variables
    if names and not address.uses_tls:
        wish = f"for TLS the endpoint begins with {secure[address.scheme]}://"
        found.append(f"{', '.join(names)}: not used, because {shown} is plain text; {wish}")
    if endpoint and address.scheme in ("http", "https") and environment.is_grpc(signal):
        variable, wish = (
            environment.exporter_variable("PROTOCOL", signal),
            {"http": "grpc", "https": "grpcs"}[address.scheme],
        )
        found.append(f"{variable}: {shown} was asked for, which is OTLP over HTTP; for gRPC it begins with {wish}://")
    return found


def _place_of(endpoint: str, signal: Signal) -> _Place:
    """Return the place that a configured endpoint names by its scheme, or else the place that the environment names."""
    asks_grpc = environment.is_grpc(signal)
    if endpoint:
        address = addresses.parse(endpoint, _SETTING)
        is_grpc, is_exact = address.scheme.startswith("grpc"), False
    else:
        said = environment.endpoint_of(signal)
        url, origin = GRPC_DEFAULT if asks_grpc else HTTP_DEFAULT, _SETTING
        if said is not None:
            url, origin = said.url, said.variable
        if asks_grpc and "://" not in url and addresses.fault_of(f"grpc://{url}") is None:
            url = f"{'grpc' if environment.is_insecure(signal) else 'grpcs'}://{url}"
        address = addresses.parse(url, origin)
        is_grpc = asks_grpc or address.scheme.startswith("grpc")
        # The specification has a signal's own endpoint used unchanged.
        is_exact = said is not None and said.is_exact
    if not is_grpc and not is_exact:
        address = msgspec.structs.replace(address, url=_with_path(address.url, signal))
    return _Place(address=address, is_grpc=is_grpc)


def _with_path(url: str, signal: Signal) -> str:
    """Return the signal's URL below a base URL, from which the path of any signal is removed first."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for known in SIGNALS:
        path = path.removesuffix(known.path)
    return urlunsplit(parts._replace(path=path + signal.path))


def _all_headers(configured: Mapping[str, str], place: _Place, signal: Signal) -> dict[str, str]:
    """Merge headers by their names, which have no case: configured ones win, then the environment's, then the URL's.

    Raises:
        ConfigError: One cannot be sent.
    """
    merged = {"authorization": ("Authorization", place.address.authorization)} if place.address.authorization else {}
    ambient = environment.headers(signal), environment.exporter_variable("HEADERS", signal)
    for headers, origin in (ambient, (configured, "otel.headers")):
        for key, value in headers.items():
            _check_header(key, value, origin, is_grpc=place.is_grpc)
            merged[key.lower()] = (key, value)
    return dict(merged.values())


def _check_header(key: str, value: str, origin: str, *, is_grpc: bool) -> None:
    """Refuse what a client would refuse at each request. The message does not quote the value: it may be a secret."""
    if not (_GRPC_KEY if is_grpc else _TOKEN).fullmatch(key):
        raise ConfigError(f"{origin}: {safe_text(key)!r} cannot be the name of a header")
    fits = value.isprintable() and (value.isascii() or (not is_grpc and all(ord(char) < 256 for char in value)))  # noqa: PLR2004 - Latin 1
    if not fits:
        raise ConfigError(f"{origin}: the value of {safe_text(key)} has characters that no header can have")
