"""Which endpoints of storage profiles and credentials the server may connect to (protection against SSRF).

The creator of a warehouse chooses addresses that the server connects to from inside the operator's network. The
operator limits them (`ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS` and related settings). Addresses where no store can be,
such as the metadata services of clouds, are always denied (`icekeeper.kernel.http.network_addresses`).
"""

from __future__ import annotations

from dataclasses import replace

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
from storage.documents import form_field
from storage.errors import StoreUnavailable


class EndpointNotPermitted(BadRequest):
    """The server may not connect to this address. The message names the member but not the address."""

    wire_type = "EndpointNotPermitted"

    def __init__(self, member: str, message: str) -> None:
        super().__init__(f"{member}: {message}", field=form_field(member))


def require_permitted_address(address: str, member: str = "endpoint") -> None:
    """Check an address before the server connects to it. Its host name is resolved, within the connect timeout.

    Raises `EndpointNotPermitted` (400), `StoreUnavailable` (503) when the name cannot be resolved.
    """
    endpoint = read_endpoint(address, member)
    _require_allowed(endpoint, member)
    if _resolve_safely(endpoint, member) is None:
        raise StoreUnavailable(f"{member}: the name of the host cannot be resolved")


def require_valid_address(address: str, member: str) -> None:
    """Check an address before it is stored: as `require_permitted_address`, but its name need not resolve yet.

    Raises `EndpointNotPermitted` (400).
    """
    endpoint = read_endpoint(address, member)
    _require_allowed(endpoint, member)
    _resolve_safely(endpoint, member)


def require_permitted_host(host: str, port: int, member: str) -> None:
    """Check a host before the server connects to it with another protocol than HTTP, as `require_permitted_address`.

    Entries of `allowed_endpoints` with a scheme do not allow it.
    """
    named = f"[{host}]" if ":" in host else host
    endpoint = replace(read_endpoint(f"https://{named}:{port}", member), scheme="tcp")
    _require_allowed(endpoint, member)
    if _resolve_safely(endpoint, member) is None:
        raise StoreUnavailable(f"{member}: the name of the host cannot be resolved")


def require_allowed_address(address: str, member: str) -> None:
    """Check a fixed address of a cloud, which is not resolved. Raises `EndpointNotPermitted` (400)."""
    _require_allowed(read_endpoint(address, member), member)


def require_safe_target(address: str, member: str) -> None:
    """Check what a name resolves to, whether it is allowed or not. Raises `EndpointNotPermitted` (400)."""
    _resolve_safely(read_endpoint(address, member), member)


def read_endpoint(address: str, member: str) -> Endpoint:
    """Parse an address. Raises `EndpointNotPermitted` for one that two libraries may parse differently."""
    try:
        endpoint = parse_endpoint(address)
    except UnusableAddress as complaint:
        raise EndpointNotPermitted(member, str(complaint)) from None
    if endpoint.scheme == "http" and not settings.ICEKEEPER.storage.allow_http_endpoints:
        raise EndpointNotPermitted(
            member, "must be an https address (ICEKEEPER__STORAGE__ALLOW_HTTP_ENDPOINTS is false)"
        )
    return endpoint


def is_allowed_endpoint(endpoint: Endpoint) -> bool:
    """Return whether `allowed_endpoints` contains the endpoint or its domain."""
    listed = settings.ICEKEEPER.storage.allowed_endpoints or ()
    return any(each.matches(endpoint.scheme, endpoint.host, endpoint.port) for each in listed)


def _require_allowed(endpoint: Endpoint, member: str) -> None:
    if settings.ICEKEEPER.storage.allowed_endpoints is not None and not is_allowed_endpoint(endpoint):
        raise EndpointNotPermitted(member, "this address is not in ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS")


def _resolve_safely(endpoint: Endpoint, member: str) -> list[IP] | None:
    """Resolve the host; None when that fails. Raises `EndpointNotPermitted` for an unsafe IP address."""
    found = resolve(endpoint, settings.ICEKEEPER.storage.connect_timeout)
    for ip in found or []:
        _require_safe_ip(ip, endpoint, member)
    return found


def _require_safe_ip(ip: IP, endpoint: Endpoint, member: str) -> None:
    own = settings.ICEKEEPER.storage
    if any(each.matches(endpoint.scheme, str(ip), endpoint.port) for each in own.allowed_endpoints or ()):
        return  # allowed explicitly
    try:
        require_allowed_ip(ip, allow_private=own.allow_private_endpoints)
    except UnusableAddress as complaint:
        raise EndpointNotPermitted(member, str(complaint)) from None
