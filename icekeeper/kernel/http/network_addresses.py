"""Validation of addresses that a user chose and this server connects to (server-side request forgery).

Addresses such as the metadata services of clouds are forbidden: their responses contain credentials of this server.

A host name is resolved here and again by the library that connects. DNS rebinding, with different results for the two
look-ups, can only be prevented by a list of allowed names or by network rules.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from threading import BoundedSemaphore, Thread
from typing import Final
from urllib.request import getproxies, proxy_bypass

from icekeeper.kernel import request_context

IP = IPv4Address | IPv6Address


class UnusableAddress(ValueError):
    """An invalid or forbidden address; the message does not contain it."""


_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]{1,254}))(?::(?P<port>[0-9]{1,5}))?(?:/[!-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PORTS: Final = {"http": 80, "https": 443}

METADATA_NAMES: Final = frozenset({"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"})
FORBIDDEN_NETWORKS: Final = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # this network
            "169.254.0.0/16",  # link-local, with the metadata services of AWS, Azure, Google Cloud, ...
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, with the broadcast address
            "100.100.100.200/32",  # metadata of Alibaba Cloud
            "168.63.129.16/32",  # Azure's WireServer
            "192.0.0.192/32",  # metadata of Oracle Cloud
            "::/128",
            "fe80::/10",  # link-local
            "ff00::/8",  # multicast
            "fd00:ec2::/32",  # metadata of AWS
            "fd20:ce::254/128",  # metadata of Google Cloud
        ),
    )
)
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE: Final = IPv6Network("::/96")

MAX_LOOKUPS: Final = 32
"""Concurrent look-ups; a name server that does not respond must not fill the process with threads."""

_lookups = BoundedSemaphore(MAX_LOOKUPS)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Scheme, host and port of a normalized address: lower-case, without a trailing dot; `ip` if the host is one."""

    scheme: str
    host: str
    port: int
    ip: IP | None


def parse_endpoint(address: str) -> Endpoint:
    """Parse an http or https URL. Raises `UnusableAddress` for ambiguous ones, which libraries read differently, and
    for forbidden hosts.
    """
    matched = _ADDRESS.fullmatch(address)
    if matched is None:
        raise UnusableAddress("must be an http or https URL in ASCII, without user information")
    scheme = matched["scheme"].lower()
    port = int(matched["port"] or _PORTS[scheme])
    if not 0 < port < 65536:  # noqa: PLR2004
        raise UnusableAddress("the port must be a number from 1 to 65535")
    host = (matched["six"] or matched["name"]).lower()
    if not matched["six"]:
        host = host.removesuffix(".")
    ip = _literal(host, is_six=bool(matched["six"]))
    if ip is None and (matched["six"] or not all(_LABEL.fullmatch(label) for label in host.split("."))):
        raise UnusableAddress("the host must be a host name or an IP address in its standard notation")
    if host in METADATA_NAMES:
        raise UnusableAddress("connections to this host are not allowed")
    return Endpoint(scheme, host if ip is None else str(ip), port, ip)


def _literal(host: str, *, is_six: bool) -> IP | None:
    """Return the host as an IP address; None for a name. Raises `UnusableAddress` for a number in another notation."""
    if is_six:
        with suppress(ValueError):
            return IPv6Address(host)
        return None
    if not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2]):
        return None
    with suppress(ValueError):
        return IPv4Address(host)
    raise UnusableAddress("the host must be a host name or an IP address in its standard notation")


def require_allowed_ip(ip: IP, *, allow_private: bool) -> None:
    """Raise `UnusableAddress` for a forbidden address, and for a private one unless they are allowed."""
    for each in (ip, *_embedded(ip)):
        if (
            any(each in network for network in FORBIDDEN_NETWORKS)
            or each.is_unspecified
            or each.is_multicast
            or each.is_link_local
        ):
            raise UnusableAddress("connections to this address are not allowed")
        is_public = each.is_global and not (isinstance(each, IPv6Address) and each.is_site_local)
        if not (is_public or allow_private):
            raise UnusableAddress("private networks are not allowed (ICEKEEPER__STORAGE__ALLOW_PRIVATE_ENDPOINTS)")


def resolve(endpoint: Endpoint, timeout: float) -> list[IP] | None:
    """Return all addresses of an endpoint; None if its name cannot be resolved within `timeout` seconds.

    The list is empty if a proxy resolves the name and connects.
    """
    if endpoint.ip is not None:
        return [endpoint.ip]
    if endpoint.scheme in getproxies() and not proxy_bypass(endpoint.host):
        return []
    return _addresses_of(endpoint.host, timeout)


def _embedded(ip: IP) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that are embedded in an IPv6 address."""
    if isinstance(ip, IPv4Address):
        return
    teredo = ip.teredo or ()
    yield from (each for each in (ip.ipv4_mapped, ip.sixtofour, *teredo) if each is not None)
    if any(ip in network for network in _NAT64) or (ip in _COMPATIBLE and int(ip) > 1):
        yield IPv4Address(int(ip) & 0xFFFF_FFFF)


def _addresses_of(host: str, timeout: float) -> list[IP] | None:
    if not _lookups.acquire(blocking=False):
        return None
    result: Future[list[IP]] = Future()
    # In its own thread, because a look-up cannot be cancelled: it must not delay the request or a stop of the server.
    Thread(target=_look_up, args=(host, result), name="lookup", daemon=True).start()
    left = request_context.remaining_seconds()
    try:
        return result.result(timeout if left is None else min(left, timeout))
    except (OSError, UnicodeError, NotInTime):
        return None


def _look_up(host: str, result: Future[list[IP]]) -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        result.set_result([ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found])
    except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
        result.set_exception(error)
    finally:
        _lookups.release()
