"""URIs as a store parses them: the addresses of a bucket, parsed URIs, and the canonical encoding of signatures.

A signature covers host and path, but not how the store splits them into bucket and key. So the URL style follows from
the profile and never from a URI alone: a URI that we parse as one key and the store as another would give access to an
unchecked object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import quote, unquote_to_bytes, urlsplit

from storage.profiles.s3 import S3Profile, is_s3_host
from storage.signing.errors import (
    InvalidObjectKey,
    UndecodableUri,
    UnsupportedQueryParameter,
    UriNoHost,
    UriNotS3,
    UriSchemeNotSupported,
)

Style = Literal["path", "virtual_host"]
"""The bucket is the first segment of the path, or the first labels of the host."""

Authority = tuple[str, int]
"""A host in lower case, IPv6 in brackets, and the port."""

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def bucket_addresses(profile: S3Profile) -> dict[Authority, Style]:
    """Return all addresses of the profile's bucket."""
    found: dict[Authority, Style] = {}
    for host, port in _endpoints(profile):
        for style in _styles(profile, host):
            found[host if style == "path" else f"{profile.bucket}.{host}", port] = style
    return found


def _endpoints(profile: S3Profile) -> Iterator[Authority]:
    if profile.endpoint is not None:
        parts = urlsplit(profile.endpoint)
        host = parts.hostname or ""
        yield f"[{host}]" if ":" in host else host, parts.port or DEFAULT_PORTS[parts.scheme]
        return
    for host in _hosts_of_aws(profile.region.lower()):
        for port in DEFAULT_PORTS.values():
            yield host, port


def _hosts_of_aws(region: str) -> Iterator[str]:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    for service in ("s3.", "s3-", "s3.dualstack.", "s3-fips.", "s3-fips.dualstack."):
        yield f"{service}{region}.{domain}"
    yield f"s3.{domain}"
    if region == "us-east-1":
        yield f"s3-external-1.{domain}"


def _styles(profile: S3Profile, host: str) -> list[Style]:
    """Return the URL styles that the store may accept at this host, according to the profile."""
    if profile.remote_signing_url_style != "auto":
        return [profile.remote_signing_url_style]
    if is_s3_host(host):
        return ["path", "virtual_host"]
    if host.startswith(f"{profile.bucket}."):
        return ["virtual_host"]  # `endpoint` is the address of the bucket, so the path is the key
    if profile.path_style_access or _is_number(host) or "." in profile.bucket:
        return ["path"]
    if profile.path_style_access is None and "." not in host:
        return ["path"]
    return ["path", "virtual_host"]  # the catalog itself uses virtual-hosted URLs, so the store accepts them


def _is_number(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


MAX_URI_LENGTH: Final = 8192
MAX_KEY_BYTES: Final = 1024
"""Limit of an object's key at S3."""

MAX_PARAMETERS: Final = 16

Parameters = tuple[tuple[str, str], ...]
"""Decoded query parameters in their order."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?", re.DOTALL)
_AUTHORITY = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/\[\]-]|%[0-9A-Fa-f]{2})*")
_QUERY = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Uri:
    """A parsed URI. `usual_port` is that of its scheme; `segments` are the raw segments of the path."""

    authority: Authority
    usual_port: int
    segments: tuple[str, ...]
    parameters: Parameters

    @property
    def host(self) -> str:
        """Return the Host header as clients send it."""
        name, port = self.authority
        return name if port == self.usual_port else f"{name}:{port}"


def read_uri(text: str) -> Uri:
    """Parse a URI.

    Raises `UriSchemeNotSupported`, `UriNoHost`, `UriNotS3`, `UndecodableUri`, `UnsupportedQueryParameter`.
    """
    if len(text) > MAX_URI_LENGTH:
        raise UriNotS3(f"uri: longer than {MAX_URI_LENGTH} characters")
    matched = _URI.fullmatch(text)
    if matched is None or matched[1].lower() not in DEFAULT_PORTS:
        raise UriSchemeNotSupported("uri: must begin with http:// or https://")
    scheme, authority, path, query, fragment = matched.groups()
    if not authority:
        raise UriNoHost("uri: has no host")
    if fragment is not None:
        raise UriNotS3("uri: must not have a fragment")
    usual_port = DEFAULT_PORTS[scheme.lower()]
    if _PATH.fullmatch(path) is None:
        raise UndecodableUri("uri: the path contains characters that must be percent-encoded")
    at = read_authority(authority, usual_port)
    return Uri(at, usual_port, tuple(path.split("/")[1:]), _parameters(query))


def read_authority(text: str, usual_port: int) -> Authority:
    """Parse `host` or `host:port`. Raises `UriNotS3`, also for user information."""
    matched = _AUTHORITY.fullmatch(text)
    if matched is None:
        raise UriNotS3("uri: the host must be a name or an address with or without a port, and nothing else")
    return matched[1].lower(), usual_port if matched[2] is None else int(matched[2])


def _parameters(query: str | None) -> Parameters:
    """Decode as form data: a plus is a space."""
    if not query:
        return ()
    if _QUERY.fullmatch(query) is None or ";" in query:  # some stores treat a semicolon as an ampersand
        raise UndecodableUri("uri: the query contains characters that must be percent-encoded")
    pairs = query.split("&")
    if len(pairs) > MAX_PARAMETERS:
        raise UnsupportedQueryParameter(f"uri: more than {MAX_PARAMETERS} query parameters")
    split = (pair.partition("=") for pair in pairs)
    return tuple((_form_text(name), _form_text(value)) for name, _, value in split)


def _form_text(raw: str) -> str:
    return percent_decode(raw.replace("+", " "))


def percent_decode(raw: str) -> str:
    """Decode percent-encoding once. Raises `UndecodableUri` if the result is not UTF-8."""
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise UndecodableUri("uri: percent-encoded bytes are not UTF-8") from None


def key_of(segments: tuple[str, ...]) -> str:
    """Return the key of raw path segments. Raises as `require_plain_key`, and `UndecodableUri`."""
    parts = [percent_decode(segment) for segment in segments]
    if any("/" in part for part in parts):
        raise InvalidObjectKey("uri: an encoded slash in the path is not signed")
    key = "/".join(parts)
    require_plain_key(key, "uri")
    return key


def require_plain_key(key: str, where: str) -> None:
    """Raise `InvalidObjectKey` for a key that a store might interpret as another one.

    Some stores remove dot and empty segments or cut at control characters; SeaweedFS treats backslashes as slashes.
    """
    if len(key.encode()) > MAX_KEY_BYTES:
        raise InvalidObjectKey(f"{where}: the key is longer than {MAX_KEY_BYTES} bytes")
    if any(segment in {"", ".", ".."} for segment in key.split("/")):
        raise InvalidObjectKey(f"{where}: the key has empty or dot segments")
    if "\\" in key or has_control(key):
        raise InvalidObjectKey(f"{where}: the key contains a backslash or a control character")


def has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None


def canonical_path(path: str) -> str:
    """Return a decoded path in canonical encoding: all but unreserved characters and slashes are encoded."""
    return quote(path, safe="/-_.~")


def canonical_query(parameters: Parameters) -> str:
    """Return the query in canonical form: encoded and sorted."""
    written = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parameters)
    return "&".join(f"{name}={value}" for name, value in written)
