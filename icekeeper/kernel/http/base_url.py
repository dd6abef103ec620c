"""The address under which clients reach this server, for links that answers hand out."""

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
    """What `settings.ICEKEEPER` says about the address."""

    @property
    def base_uri(self) -> object | None: ...

    @property
    def use_x_forwarded_headers(self) -> bool: ...


def base_url(meta: Mapping[str, object], settings: AddressSettings) -> str:
    """Scheme, host and prefix without a slash at the end, such as `https://catalog.example.com/iceberg`.

    `meta` is `request.META`. LAKEKEEPER__BASE_URI comes first; then `x-forwarded-{host,proto,port,prefix}` (the scheme
    is https as soon as any of them is there, of a comma list the first counts); then `http://` and the Host header.
    Raises `NoHostHeader` (400) when nothing names a host and `BadRequest` for a value that is none: these headers come
    from outside and end up in what other clients are told to call.
    """
    if settings.base_uri is not None:
        return str(settings.base_uri).rstrip("/")
    if settings.use_x_forwarded_headers and any(meta.get(name) for name in _FORWARDED):
        return _forwarded(*(_first(meta.get(name)) for name in _FORWARDED), own_host=_text(meta.get("HTTP_HOST")))
    host, port = _host_and_port(_text(meta.get("HTTP_HOST")), "Host")
    return _join("http", host, port, "")


def base_path(meta: Mapping[str, object], settings: AddressSettings) -> str:
    """The path of `base_url`, such as `/iceberg`; empty when the server is at the root. Raises as that."""
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
        port = port or forwarded_port  # a port named beside its host is the more exact one
    else:
        host, port = _host_and_port(own_host, "Host")
        port = forwarded_port or port  # the proxy's public port, not the one it calls us on
    return _join(scheme, host, port, prefix.rstrip("/"))


def _host_and_port(value: str, header: str) -> tuple[str, str]:
    if not value:
        raise NoHostHeader("The request names no host, so the address of this server is not known")
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
    shown = f":{port}" if port and port != _DEFAULT_PORTS[scheme] else ""
    return f"{scheme}://{host}{shown}{prefix}"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _first(value: object) -> str:
    return _text(value).split(",", 1)[0].strip()
