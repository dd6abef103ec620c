"""Addresses that somebody else chose and this server connects to: one spelling, where names lead, what is forbidden.

Nothing useful answers at a forbidden address, such as the metadata services of clouds, but a server that asks there for
somebody else gives away what it is trusted with.

A name is looked up when it is judged, and again by the library that connects: a name server that answers differently
each time gets past that (DNS rebinding). Only a list of allowed names, or rules of the network, keep such out.
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

from icekeeper.kernel.request import deadline

IP = IPv4Address | IPv6Address


class UnusableAddress(ValueError):
    """What is wrong with an address; the message does not repeat it."""


_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]{1,254}))(?::(?P<port>[0-9]{1,5}))?(?:/[!-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PORTS: Final = {"http": 80, "https": 443}

METADATA_NAMES: Final = frozenset({"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"})
NEVER: Final = tuple(
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
"""At once; a name server that answers nobody must not fill the process with threads."""

_lookups = BoundedSemaphore(MAX_LOOKUPS)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Scheme, host and port of an address in one spelling: lower-case, without a trailing dot; `ip` of literal ones."""

    scheme: str
    host: str
    port: int
    ip: IP | None


def parse_endpoint(address: str) -> Endpoint:
    """Raises `UnusableAddress` for what two libraries might read differently, and for forbidden hosts."""
    matched = _ADDRESS.fullmatch(address)
    if matched is None:
        raise UnusableAddress("must be an http or https address of plain ASCII, without a user")
    scheme = matched["scheme"].lower()
    port = int(matched["port"] or _PORTS[scheme])
    if not 0 < port < 65536:  # noqa: PLR2004
        raise UnusableAddress("there is no such port")
    host = (matched["six"] or matched["name"]).lower()
    if not matched["six"]:
        host = host.removesuffix(".")
    ip = _literal(host, is_six=bool(matched["six"]))
    if ip is None and (matched["six"] or not all(_LABEL.fullmatch(label) for label in host.split("."))):
        raise UnusableAddress("its host is no name and no IP address in the usual form")
    if host in METADATA_NAMES:
        raise UnusableAddress("this server connects to no such host")
    return Endpoint(scheme, host if ip is None else str(ip), port, ip)


def _literal(host: str, *, is_six: bool) -> IP | None:
    """The IP address that a host is. Raises `UnusableAddress` for a number that is none in the usual form."""
    if is_six:
        with suppress(ValueError):
            return IPv6Address(host)
        return None
    if not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2]):
        return None
    with suppress(ValueError):
        return IPv4Address(host)
    raise UnusableAddress("its host is no name and no IP address in the usual form")


def require_allowed_ip(ip: IP, *, allow_private: bool) -> None:
    """Raises `UnusableAddress` for forbidden addresses, and for private ones unless they are allowed."""
    for each in (ip, *_embedded(ip)):
        if any(each in network for network in NEVER) or each.is_unspecified or each.is_multicast or each.is_link_local:
            raise UnusableAddress("this server connects to no such address")
        is_public = each.is_global and not (isinstance(each, IPv6Address) and each.is_site_local)
        if not (is_public or allow_private):
            raise UnusableAddress("must not lead into a private network, says the server's operator")


def resolve(endpoint: Endpoint, timeout: float) -> list[IP] | None:
    """All addresses that an endpoint leads to; None when its name leads nowhere, or nobody says so in time.

    Empty where a proxy looks it up, and connects.
    """
    if endpoint.ip is not None:
        return [endpoint.ip]
    if endpoint.scheme in getproxies() and not proxy_bypass(endpoint.host):
        return []
    return _addresses_of(endpoint.host, timeout)


def _embedded(ip: IP) -> Iterator[IPv4Address]:
    """The IPv4 addresses that one of IPv6 may stand for."""
    if isinstance(ip, IPv4Address):
        return
    teredo = ip.teredo or ()
    yield from (each for each in (ip.ipv4_mapped, ip.sixtofour, *teredo) if each is not None)
    if any(ip in network for network in _NAT64) or (ip in _COMPATIBLE and int(ip) > 1):
        yield IPv4Address(int(ip) & 0xFFFF_FFFF)


def _addresses_of(host: str, timeout: float) -> list[IP] | None:
    if not _lookups.acquire(blocking=False):
        return None
    outcome: Future[list[IP]] = Future()
    # A thread of its own: a lookup cannot be ended, and holds up neither the request nor a stop of the server.
    Thread(target=_look_up, args=(host, outcome), name="lookup", daemon=True).start()
    left = deadline.remaining()
    try:
        return outcome.result(timeout if left is None else min(left, timeout))
    except (OSError, UnicodeError, NotInTime):
        return None


def _look_up(host: str, outcome: Future[list[IP]]) -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        outcome.set_result([ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found])
    except BaseException as error:  # noqa: BLE001 - whoever waits is told
        outcome.set_exception(error)
    finally:
        _lookups.release()
