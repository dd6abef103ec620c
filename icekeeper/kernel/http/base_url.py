"""The public URL of this server, for links in responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import Protocol
from urllib.parse import urlsplit

from icekeeper.kernel.errors.types import BadRequest, NoHostHeader

_FORWARDED = ("HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_PORT", "HTTP_X_FORWARDED_PREFIX")
_HOST = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?")
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*/?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class AddressSettings(Protocol):
    """The members of `settings.ICEKEEPER` that decide the URL."""

    @property
    def base_uri(self) -> object | None: ...

    @property
    def use_x_forwarded_headers(self) -> bool: ...


def base_url(meta: Mapping[str, object], settings: AddressSettings) -> str:
    """Return scheme, host and prefix without a trailing slash, such as `https://catalog.example.com/iceberg`.

    `meta` is `request.META`. LAKEKEEPER__BASE_URI takes precedence over `x-forwarded-{host,proto,port,prefix}` (the
    default scheme is then https; the first element of a list counts), and these over `http://` and the Host header.
    Raises `NoHostHeader` (400) without a host, and `BadRequest` for an invalid header: clients send these headers, and
    other clients follow the links.
    """
    if settings.base_uri is not None:
        return str(settings.base_uri).rstrip("/")
    if settings.use_x_forwarded_headers and any(meta.get(name) for name in _FORWARDED):
        return _forwarded(*(_first(meta.get(name)) for name in _FORWARDED), own_host=_text(meta.get("HTTP_HOST")))
    host, port = _host_and_port(_text(meta.get("HTTP_HOST")), "Host")
    return _join("http", host, port, "")


def base_path(meta: Mapping[str, object], settings: AddressSettings) -> str:
    """Return the path of `base_url`, such as `/iceberg`; empty for a server at the root. Raises the same errors."""
    return urlsplit(base_url(meta, settings)).path


def _forwarded(forwarded_host: str, proto: str, forwarded_port: str, prefix: str, *, own_host: str) -> str:
    scheme = proto.lower() or "https"
    if scheme not in _DEFAULT_PORTS:
        raise BadRequest("Invalid x-forwarded-proto: must be http or https")
    if forwarded_port and not _is_port(forwarded_port):
        raise BadRequest("Invalid x-forwarded-port: must be a number from 1 to 65535")
    if not _PREFIX.fullmatch(prefix):
        raise BadRequest("Invalid x-forwarded-prefix: must be a path such as /iceberg")
    if forwarded_host:
        host, port = _host_and_port(forwarded_host, "x-forwarded-host")
        port = port or forwarded_port  # the port of the host header is more specific
    else:
        host, port = _host_and_port(own_host, "Host")
        port = forwarded_port or port  # the public port of the proxy, not this server's
    return _join(scheme, host, port, prefix.rstrip("/"))


def _host_and_port(value: str, header: str) -> tuple[str, str]:
    if not value:
        raise NoHostHeader("The request has no Host header, so the address of this server is unknown")
    found = _HOST.fullmatch(value)
    port = (found["port"] or "") if found else ""
    if found is None or (port and not _is_port(port)) or not _is_address(found["name"]):
        raise BadRequest(f"Invalid {header} header: not a host name")
    return found["name"], port


def _is_address(name: str) -> bool:
    if not name.startswith("["):
        return True
    try:
        IPv6Address(name[1:-1])
    except AddressValueError:
        return False
    return True


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535  # noqa: PLR2004


def _join(scheme: str, host: str, port: str, prefix: str) -> str:
    suffix = f":{port}" if port and port != _DEFAULT_PORTS[scheme] else ""
    return f"{scheme}://{host}{suffix}{prefix}"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _first(value: object) -> str:
    return _text(value).split(",", 1)[0].strip()
