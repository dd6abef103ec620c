"""URIs as a store reads them: split once, decoded once, written again in the canonical form for signatures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from storage.signing.addresses import DEFAULT_PORTS, Authority
from storage.signing.errors import (
    InvalidObjectKey,
    UndecodableUri,
    UnsupportedQueryParameter,
    UriNoHost,
    UriNotS3,
    UriSchemeNotSupported,
)

MAX_URI_LENGTH: Final = 8192
MAX_KEY_BYTES: Final = 1024
"""Bytes of an object's key, which is S3's own bound."""

MAX_PARAMETERS: Final = 16

Parameters = tuple[tuple[str, str], ...]
"""Of a query: names and values in their order, decoded."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?", re.DOTALL)
_AUTHORITY = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/\[\]-]|%[0-9A-Fa-f]{2})*")
_QUERY = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Uri:
    """`usual_port` is its scheme's; `segments` are raw, those behind each slash of the path."""

    authority: Authority
    usual_port: int
    segments: tuple[str, ...]
    parameters: Parameters

    @property
    def host(self) -> str:
        """The Host header as clients send it."""
        name, port = self.authority
        return name if port == self.usual_port else f"{name}:{port}"


def read_uri(text: str) -> Uri:
    """Raises `UriSchemeNotSupported`, `UriNoHost`, `UriNotS3`, `UndecodableUri`, `UnsupportedQueryParameter`."""
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
        raise UndecodableUri("uri: the path holds characters that must be percent-encoded")
    at = read_authority(authority, usual_port)
    return Uri(at, usual_port, tuple(path.split("/")[1:]), _parameters(query))


def read_authority(text: str, usual_port: int) -> Authority:
    """Of `host` or `host:port`. Raises `UriNotS3`, also for a user's name before the host."""
    matched = _AUTHORITY.fullmatch(text)
    if matched is None:
        raise UriNotS3("uri: the host must be a name or an address with or without a port, and nothing else")
    return matched[1].lower(), usual_port if matched[2] is None else int(matched[2])


def _parameters(query: str | None) -> Parameters:
    """In their order, decoded as forms are: a plus is a space."""
    if not query:
        return ()
    if _QUERY.fullmatch(query) is None or ";" in query:  # some stores took a semicolon for an ampersand
        raise UndecodableUri("uri: the query holds characters that must be percent-encoded")
    pairs = query.split("&")
    if len(pairs) > MAX_PARAMETERS:
        raise UnsupportedQueryParameter(f"uri: more than {MAX_PARAMETERS} query parameters")
    split = (pair.partition("=") for pair in pairs)
    return tuple((_form_text(name), _form_text(value)) for name, _, value in split)


def _form_text(raw: str) -> str:
    return decoded(raw.replace("+", " "))


def decoded(raw: str) -> str:
    """Percent-decoded, once. Raises `UndecodableUri` when that is not UTF-8."""
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise UndecodableUri("uri: percent-encoded bytes are not UTF-8") from None


def key_of(segments: tuple[str, ...]) -> str:
    """The object's key in raw segments of a path. Raises as `require_plain_key`, and `UndecodableUri`."""
    parts = [decoded(segment) for segment in segments]
    if any("/" in part for part in parts):
        raise InvalidObjectKey("uri: an encoded slash in the path is not signed")
    key = "/".join(parts)
    require_plain_key(key, "uri")
    return key


def require_plain_key(key: str, where: str) -> None:
    """Raises `InvalidObjectKey` for a key that some store takes for another one.

    Dots and empty segments are cleaned away, control characters end texts, SeaweedFS has backslashes for slashes.
    """
    if len(key.encode()) > MAX_KEY_BYTES:
        raise InvalidObjectKey(f"{where}: the key is longer than {MAX_KEY_BYTES} bytes")
    if any(segment in {"", ".", ".."} for segment in key.split("/")):
        raise InvalidObjectKey(f"{where}: the key has empty or dot segments")
    if "\\" in key or has_control(key):
        raise InvalidObjectKey(f"{where}: the key holds a backslash or a control character")


def has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None


def canonical_path(path: str) -> str:
    """Of a decoded path, as signatures have it: all but unreserved characters and slashes encoded, once."""
    return quote(path, safe="/-_.~")


def canonical_query(parameters: Parameters) -> str:
    """Encoded and sorted, as signatures have it."""
    written = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parameters)
    return "&".join(f"{name}={value}" for name, value in written)
