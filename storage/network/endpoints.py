"""Which servers this one connects to because a storage profile or a credential says so.

Who may make a warehouse chooses addresses that the server then sends requests to, from inside the operator's network.
What an address may be is the operator's to say (`ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS` and its like); what no store is
at, such as the metadata services of clouds, is refused always.

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

from django.conf import settings

from icekeeper.kernel import deadline
from icekeeper.kernel.errors import BadRequest
from storage.errors import StoreUnavailable

IP = IPv4Address | IPv6Address


class EndpointNotPermitted(BadRequest):
    """This server connects to no such address. The message names the member and never the address."""

    wire_type = "EndpointNotPermitted"


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

MOST_LOOKUPS: Final = 32
"""At once; a name server that answers nobody must not fill the process with threads."""

_lookups = BoundedSemaphore(MOST_LOOKUPS)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Scheme, host and port of an address in one spelling: lower-case, without a trailing dot; `ip` of literal ones."""

    scheme: str
    host: str
    port: int
    ip: IP | None


def require_permitted_address(address: str, member: str = "endpoint") -> None:
    """To be called before this server connects to an address, whoever gave it: its name is looked up, for a bounded
    time.

    Raises `EndpointNotPermitted` (400), `StoreUnavailable` (503) when the name leads nowhere.
    """
    endpoint = read_endpoint(address, member)
    _require_listed(endpoint, member)
    if _looked_up(endpoint, member) is None:
        raise StoreUnavailable(f"{member}: the name of the host cannot be resolved")


def require_acceptable_address(address: str, member: str) -> None:
    """To be called before an address is kept: as `require_permitted_address`, but its name may lead nowhere yet.

    Raises `EndpointNotPermitted` (400).
    """
    endpoint = read_endpoint(address, member)
    _require_listed(endpoint, member)
    _looked_up(endpoint, member)


def require_listed_address(address: str, member: str) -> None:
    """For addresses that are a cloud's own, which lead where the cloud says. Raises `EndpointNotPermitted` (400)."""
    _require_listed(read_endpoint(address, member), member)


def require_harmless_address(address: str, member: str) -> None:
    """For names below one that is listed, or that nobody connects to. Raises `EndpointNotPermitted` (400)."""
    _looked_up(read_endpoint(address, member), member)


def read_endpoint(address: str, member: str) -> Endpoint:
    """Raises `EndpointNotPermitted` for what two libraries might read differently."""
    matched = _ADDRESS.fullmatch(address)
    if matched is None:
        raise EndpointNotPermitted(f"{member}: must be an http or https address of plain ASCII, without a user")
    scheme = matched["scheme"].lower()
    port = int(matched["port"] or _PORTS[scheme])
    host = (matched["six"] or matched["name"]).lower()
    ip: IP | None = None
    if matched["six"]:
        with suppress(ValueError):
            ip = IPv6Address(host)
    else:
        host = host.removesuffix(".")
        *_, last = host.split(".")
        if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last):
            with suppress(ValueError):
                ip = IPv4Address(host)
        elif all(_LABEL.fullmatch(label) for label in host.split(".")):
            return _checked(Endpoint(scheme, host, port, None), member)
    if ip is None:
        raise EndpointNotPermitted(f"{member}: its host is no name and no IP address in the usual form")
    return _checked(Endpoint(scheme, str(ip), port, ip), member)


def is_listed(endpoint: Endpoint) -> bool:
    """Whether the server's operator has named it, or a domain that it is in (`allowed_endpoints`)."""
    listed = settings.ICEKEEPER.storage.allowed_endpoints or ()
    return any(each.matches(endpoint.scheme, endpoint.host, endpoint.port) for each in listed)


def _checked(endpoint: Endpoint, member: str) -> Endpoint:
    if not 0 < endpoint.port < 65536:  # noqa: PLR2004
        raise EndpointNotPermitted(f"{member}: there is no such port")
    if endpoint.scheme == "http" and not settings.ICEKEEPER.storage.allow_http_endpoints:
        raise EndpointNotPermitted(f"{member}: must be an https address, says the server's operator")
    if endpoint.host in METADATA_NAMES:
        raise EndpointNotPermitted(f"{member}: this server connects to no such host")
    return endpoint


def _require_listed(endpoint: Endpoint, member: str) -> None:
    if settings.ICEKEEPER.storage.allowed_endpoints is not None and not is_listed(endpoint):
        raise EndpointNotPermitted(f"{member}: this address is none of those that the server's operator allows")


def _looked_up(endpoint: Endpoint, member: str) -> list[IP] | None:
    """Where it leads; None when its name leads nowhere now. Raises `EndpointNotPermitted` when one of them is wrong."""
    if endpoint.ip is None and _goes_through_proxy(endpoint):
        return []  # the proxy looks it up, and connects
    found = [endpoint.ip] if endpoint.ip is not None else _addresses_of(endpoint.host)
    for ip in found or []:
        _require_harmless(ip, endpoint, member)
    return found


def _require_harmless(ip: IP, endpoint: Endpoint, member: str) -> None:
    own = settings.ICEKEEPER.storage
    if any(each.matches(endpoint.scheme, str(ip), endpoint.port) for each in own.allowed_endpoints or ()):
        return  # the operator has named just this address
    for each in (ip, *_embedded(ip)):
        if any(each in network for network in NEVER) or each.is_unspecified or each.is_multicast or each.is_link_local:
            raise EndpointNotPermitted(f"{member}: this server connects to no such address")
        is_public = each.is_global and not (isinstance(each, IPv6Address) and each.is_site_local)
        if not (is_public or own.allow_private_endpoints):
            raise EndpointNotPermitted(f"{member}: must not lead into a private network, says the server's operator")


def _embedded(ip: IP) -> Iterator[IPv4Address]:
    """The IPv4 addresses that one of IPv6 may stand for."""
    if isinstance(ip, IPv4Address):
        return
    teredo = ip.teredo or ()
    yield from (each for each in (ip.ipv4_mapped, ip.sixtofour, *teredo) if each is not None)
    if any(ip in network for network in _NAT64) or (ip in _COMPATIBLE and int(ip) > 1):
        yield IPv4Address(int(ip) & 0xFFFF_FFFF)


def _goes_through_proxy(endpoint: Endpoint) -> bool:
    return endpoint.scheme in getproxies() and not proxy_bypass(endpoint.host)


def _addresses_of(host: str) -> list[IP] | None:
    """All that a name leads to; None when it leads nowhere, or nobody says so in time."""
    if not _lookups.acquire(blocking=False):
        return None
    outcome: Future[list[IP]] = Future()
    # A thread of its own: a lookup cannot be ended, and holds up neither the request nor a stop of the server.
    Thread(target=_look_up, args=(host, outcome), name="lookup", daemon=True).start()
    left = deadline.remaining()
    patience: float = settings.ICEKEEPER.storage.connect_timeout
    try:
        return outcome.result(patience if left is None else min(left, patience))
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
