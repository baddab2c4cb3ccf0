"""Finds the proxy on the way to a receiver, so that its failures can be told from the receiver's."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

import msgspec
from requests.utils import get_environ_proxies, select_proxy, should_bypass_proxies

from proofstream import ConfigError
from proofstream_otel import addresses
from proofstream_otel.addresses import Address

_SCHEMES = ("http", "https", "socks5", "socks5h", "socks4", "socks4a")


class Proxy(msgspec.Struct, frozen=True):
    """A proxy, and the variable that names it."""

    url: str
    variable: str


def shown_with(proxy: Proxy | None, address: Address) -> str:
    """Return a receiver's address, and the proxy on the way there, without secrets."""
    shown = addresses.without_secrets(address.url)
    if proxy is None:
        return shown
    return f"{shown} by way of the proxy {addresses.without_secrets(proxy.url)} ({proxy.variable})"


def proxy_of(address: Address) -> Proxy | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names for a receiver, unless NO_PROXY excepts it.

    A receiver on this machine is reached directly.

    Raises:
        ConfigError: The proxy's address cannot be one, or needs a package that is not installed.
    """
    if address.is_loopback:
        return None
    url = select_proxy(address.url, get_environ_proxies(address.url))
    if not url:
        return None
    name = f"{address.scheme}_proxy"
    variable = _first_set((name, name.upper(), "all_proxy", "ALL_PROXY")) or name.upper()
    url = url.strip() if "://" in url else f"http://{url.strip().lstrip('/')}"
    found = addresses.parse(url, variable, _SCHEMES)
    if found.scheme.startswith("socks") and importlib.util.find_spec("socks") is None:
        raise ConfigError(
            f"{variable}: a SOCKS proxy needs a package that is not installed", hint="pip install 'requests[socks]'"
        )
    return Proxy(url, variable)


def grpc_proxy_of(address: Address) -> Proxy | None:
    """Return the proxy that gRPC takes. It reads the variables itself, and only in lower case."""
    if address.is_loopback:
        return None
    variable = _first_set(("grpc_proxy", "https_proxy", "http_proxy"))
    spared = os.environ.get(_first_set(("no_grpc_proxy", "no_proxy")) or "")
    if variable is None or should_bypass_proxies(f"http://{address.target(0)}", spared):
        return None
    url = os.environ[variable]
    return Proxy(url if "://" in url else f"http://{url}", variable)


def _first_set(names: Sequence[str]) -> str | None:
    return next((name for name in names if os.environ.get(name)), None)
