"""Headers of requests to sign: which are rejected, which are signed, what effect they have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from storage.profiles.s3 import S3Profile
from storage.signing.errors import InvalidCopySource, UndecodableUri, UnsupportedHeader, UriNotS3
from storage.signing.uri import Uri, percent_decode, read_authority, require_plain_key

MAX_HEADERS: Final = 64
MAX_HEADERS_BYTES: Final = 32_768
"""Limit of all names and values together; S3 accepts 8 KB."""

COPY_SOURCE: Final = "x-amz-copy-source"
PAYLOAD_HASH: Final = "x-amz-content-sha256"
CHUNKED_PAYLOAD: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
"""A chunked body with a checksum trailer, as newer AWS SDKs send it; the body itself is not signed."""

SIGNATURE_HEADERS: Final = frozenset({"authorization", "x-amz-date", PAYLOAD_HASH, "x-amz-security-token"})
"""Headers of the signature itself, which are not taken from the client."""

_OF_HTTP: Final = frozenset(
    {
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-disposition",
        "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date", "expires",
        "host", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "origin", "pragma",
        "referer", "baggage", "traceparent", "tracestate",
    }
)  # fmt: skip
_OF_S3: Final = frozenset(
    {
        "x-amz-checksum-algorithm", "x-amz-checksum-mode", "x-amz-checksum-type", "x-amz-sdk-checksum-algorithm",
        "x-amz-decoded-content-length", "x-amz-trailer", "x-amz-expected-bucket-owner", "x-amz-mp-object-size",
        "x-amz-request-payer", "x-amz-source-expected-bucket-owner", "x-amz-storage-class", "x-amz-te",
        "x-amz-user-agent", "x-amz-metadata-directive", COPY_SOURCE, "x-amz-copy-source-range",
    }
)  # fmt: skip
_BEGINNINGS: Final = ("x-amz-meta-", "x-amz-checksum-", "x-amz-copy-source-if-", "x-amz-if-match-")
_ORDERS: Final = ("x-amz-meta-snowball", "x-amz-meta-minio-", "x-amz-meta-x-minio-")
"""Metadata that MinIO interprets as instructions: to unpack an archive into any folder."""

_ENCRYPTION: Final = "x-amz-server-side-encryption"

_UNSIGNED: Final = frozenset(
    {
        "range", "amz-sdk-invocation-id", "amz-sdk-retry", "amz-sdk-request",
        "connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
        "proxy-authenticate", "proxy-authorization", "user-agent", "x-amzn-trace-id",
    }
)  # fmt: skip
"""Headers that clients and proxies may change after signing; the first line is the same as in Lakekeeper."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]{1,256}")
"""No underscore: some servers and proxies replace it with a hyphen."""

_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


def read_headers(given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the headers by lower-case name, without those of a signature and those without a value.

    Raises `UnsupportedHeader`.
    """
    if len(given) > MAX_HEADERS:
        raise UnsupportedHeader(f"headers: more than {MAX_HEADERS}")
    found: dict[str, str] = {}
    size = 0
    for spelled, values in given.items():
        name = spelled.lower()
        size += len(name) + sum(map(len, values)) + len(values)
        if _NAME.fullmatch(spelled) is None or size > MAX_HEADERS_BYTES:
            raise UnsupportedHeader("headers: a name is not valid in HTTP, or all together are too long")
        if name in found:
            raise UnsupportedHeader(f"headers: {name} was given twice")
        if not all(_VALUE.fullmatch(value) for value in values):
            raise UnsupportedHeader(f"headers.{name}: contains a control character")
        if values:
            found[name] = ",".join(" ".join(value.split()) for value in values)
    payload = found.get(PAYLOAD_HASH, "")
    if payload.startswith("STREAMING-") and payload != CHUNKED_PAYLOAD:
        raise UnsupportedHeader(f"headers.{PAYLOAD_HASH}: chunks cannot be signed one by one")
    return {name: value for name, value in found.items() if name not in SIGNATURE_HEADERS or value == CHUNKED_PAYLOAD}


def require_allowed(headers: Mapping[str, str], profile: S3Profile) -> None:
    """Raises `UnsupportedHeader` unless each header is one that clients store and read with.

    What is not known is refused, as stores have orders of their own: `x-minio-extract`, `x-goog-copy-source`, ... AWS
    refuses `x-amz-` headers that are not signed, so none can be added afterwards; see `Signer` for other stores.
    """
    for name, value in headers.items():
        if name in _OF_HTTP or name in _OF_S3 or name in _UNSIGNED or name == PAYLOAD_HASH:
            continue
        if name.startswith(_BEGINNINGS) and not name.startswith(_ORDERS):
            continue
        if not _is_of_profile(name, value, profile):
            raise UnsupportedHeader(f"headers.{name}: requests with it are not signed")


def _is_of_profile(name: str, value: str, profile: S3Profile) -> bool:
    key = profile.aws_kms_key_arn
    return key is not None and (name, value) in {(_ENCRYPTION, "aws:kms"), (f"{_ENCRYPTION}-aws-kms-key-id", key)}


def require_host(headers: Mapping[str, str], uri: Uri) -> None:
    """Raises `UriNotS3` for a Host header that is not the URI's host."""
    if "host" in headers and read_authority(headers["host"], uri.usual_port) != uri.authority:
        raise UriNotS3("headers.host: another host than that of uri")


def copy_source_key(headers: Mapping[str, str], *, bucket: str) -> str | None:
    """Return the key of the source object of a copy; None if the request is not a copy.

    Raises `InvalidCopySource` unless it is the newest version of an object in `bucket`.
    """
    if COPY_SOURCE not in headers:
        if any(name.startswith(COPY_SOURCE) for name in headers):
            raise InvalidCopySource(f"headers.{COPY_SOURCE}: required with other headers of a copy")
        return None
    source = headers[COPY_SOURCE].removeprefix("/")
    named, slash, raw = source.partition("/")
    if named != bucket or not slash:
        raise InvalidCopySource(f"headers.{COPY_SOURCE}: must name an object of the warehouse's bucket")
    if re.search(r"[?#+,\\ ]", raw):  # versions, and characters that stores decode differently
        raise InvalidCopySource(f"headers.{COPY_SOURCE}: must be a percent-encoded key and no version")
    try:
        key = percent_decode(raw)
    except UndecodableUri:
        raise InvalidCopySource(f"headers.{COPY_SOURCE}: percent-encoded bytes are not UTF-8") from None
    require_plain_key(key, f"headers.{COPY_SOURCE}")
    return key


def signed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of `read_headers` that are signed."""
    return {name: value for name, value in headers.items() if name not in _UNSIGNED and name not in SIGNATURE_HEADERS}
