"""Which servers this one connects to because a storage profile or a credential says so.

The creator of a warehouse chooses addresses that the server then connects to, from inside the operator's network.
What an address may be is the operator's to say (`ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS` and its like); what no store is
at, such as the metadata services of clouds, is refused always (`icekeeper.kernel.http.network_addresses`).
"""

from __future__ import annotations

from django.conf import settings

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.network_addresses import (
    IP,
    Endpoint,
    UnusableAddress,
    parse_endpoint,
    require_allowed_ip,
    resolve,
)
from storage.errors import StoreUnavailable


class EndpointNotPermitted(BadRequest):
    """This server connects to no such address. The message names the member and never the address."""

    wire_type = "EndpointNotPermitted"


def require_permitted_address(address: str, member: str = "endpoint") -> None:
    """To be called before this server connects to an address, from any source: its name is looked up, for a bounded
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
    """For names below a listed one, or that this server does not connect to. Raises `EndpointNotPermitted` (400)."""
    _looked_up(read_endpoint(address, member), member)


def read_endpoint(address: str, member: str) -> Endpoint:
    """Raises `EndpointNotPermitted` for what two libraries might read differently."""
    try:
        endpoint = parse_endpoint(address)
    except UnusableAddress as complaint:
        raise EndpointNotPermitted(f"{member}: {complaint}") from None
    if endpoint.scheme == "http" and not settings.ICEKEEPER.storage.allow_http_endpoints:
        raise EndpointNotPermitted(
            f"{member}: must be an https address (ICEKEEPER__STORAGE__ALLOW_HTTP_ENDPOINTS is false)"
        )
    return endpoint


def is_listed(endpoint: Endpoint) -> bool:
    """Whether the server's operator has named it, or a domain that it is in (`allowed_endpoints`)."""
    listed = settings.ICEKEEPER.storage.allowed_endpoints or ()
    return any(each.matches(endpoint.scheme, endpoint.host, endpoint.port) for each in listed)


def _require_listed(endpoint: Endpoint, member: str) -> None:
    if settings.ICEKEEPER.storage.allowed_endpoints is not None and not is_listed(endpoint):
        raise EndpointNotPermitted(f"{member}: this address is none of those that the server's operator allows")


def _looked_up(endpoint: Endpoint, member: str) -> list[IP] | None:
    """Where it leads; None when its name leads nowhere now. Raises `EndpointNotPermitted` when one of them is wrong."""
    found = resolve(endpoint, settings.ICEKEEPER.storage.connect_timeout)
    for ip in found or []:
        _require_harmless(ip, endpoint, member)
    return found


def _require_harmless(ip: IP, endpoint: Endpoint, member: str) -> None:
    own = settings.ICEKEEPER.storage
    if any(each.matches(endpoint.scheme, str(ip), endpoint.port) for each in own.allowed_endpoints or ()):
        return  # the operator has named just this address
    try:
        require_allowed_ip(ip, allow_private=own.allow_private_endpoints)
    except UnusableAddress as complaint:
        raise EndpointNotPermitted(f"{member}: {complaint}") from None
