"""Parse an S3 request that a client wants signed: its operation, and the objects that it reads or changes.

Only the operations that Iceberg's clients need can be signed. Each method has a list of allowed query parameters; all
others (`?acl`, `?versionId`, `?restore`, ...) are rejected.

The parser of DeleteObjects' body is strict, so that no other parser finds other keys in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from storage.profiles.s3 import S3Profile
from storage.signing.errors import (
    DeleteWithoutBody,
    InvalidDeleteBody,
    InvalidListPrefix,
    ListWithoutPrefix,
    MethodNotSignable,
    RepeatedListParameter,
    UnsupportedHeader,
    UnsupportedListParameter,
    UnsupportedQueryParameter,
    UriNotBucket,
    UriNotS3,
)
from storage.signing.headers import COPY_SOURCE, copy_source_key, read_headers, require_allowed, require_host
from storage.signing.uri import Authority, Parameters, Style, Uri, has_control, key_of, read_uri, require_plain_key

READING_METHODS: Final = frozenset({"GET", "HEAD"})


class Operation(Enum):
    READ = "read"
    LIST = "list"
    WRITE = "write"
    DELETE = "delete"
    BULK_DELETE = "bulk delete"

    @property
    def is_reading(self) -> bool:
        return self in {Operation.READ, Operation.LIST}


@dataclass(frozen=True, slots=True)
class RequestToSign:
    """RemoteSignRequest of the specification; only its JSON types are validated."""

    region: str
    method: str
    uri: str
    headers: Mapping[str, Sequence[str]]
    body: str | None = None


@dataclass(frozen=True, slots=True)
class SignableRequest:
    """A parsed request. `keys` are the objects that it reads, writes or deletes, or the prefix of a list.

    `path` is decoded and begins with a slash; `headers` are those of `read_headers`.
    """

    operation: Operation
    method: str
    host: str
    path: str
    parameters: Parameters
    headers: dict[str, str]
    keys: tuple[str, ...]
    body: str | None = None

    @property
    def is_repeatable(self) -> bool:
        """Return whether the signature is valid for all reads of the same URI.

        Java's clients cache it by method, region and URI, and reuse it with other headers.
        """
        return self.operation.is_reading and not any(name.startswith("if-") for name in self.headers)

    def is_within(self, folders: Sequence[str]) -> bool:
        """Return whether all keys are below `folders` (without trailing slash); a copy must stay within one of them."""
        if self.operation is Operation.WRITE:
            return self.folder_of(folders) is not None
        below = tuple(f"{folder}/" for folder in folders)
        return bool(below) and all(key.startswith(below) for key in self.keys)

    def folder_of(self, folders: Sequence[str]) -> str | None:
        """Return the folder that contains all keys."""
        return next((each for each in folders if all(key.startswith(f"{each}/") for key in self.keys)), None)


_UPLOAD: Final = {"uploadId": re.compile(r"[!-~]{1,2048}")}
_PART: Final = {"partNumber": re.compile(r"[1-9][0-9]{0,4}")}
_EITHER_METHOD: Final = {"x-id": re.compile(r"[A-Za-z0-9]{0,64}")}
"""The operation's name, which SDKs add and S3 ignores."""

_OBJECT_QUERIES: Final = {
    "GET": ({}, _PART),
    "HEAD": ({}, _PART),
    "PUT": ({}, {**_PART, **_UPLOAD}),
    "POST": ({"uploads": re.compile("")}, _UPLOAD),
    "DELETE": ({}, _UPLOAD),
}
"""By method: the allowed sets of query parameters of an object, with patterns of their values."""

_LIST_PARAMETERS: Final = {
    "list-type": re.compile("2"),
    "prefix": re.compile(r".*", re.DOTALL),
    "continuation-token": re.compile(r".{0,4096}"),
    "delimiter": re.compile(r".{0,1024}"),
    "encoding-type": re.compile(r"(url)?"),
    "fetch-owner": re.compile(r"true|false|"),
    "max-keys": re.compile(r"[0-9]{0,9}"),
    "start-after": re.compile(r".{0,1024}"),
    **_EITHER_METHOD,
}
_DELETE_FORM: Final = {"delete": re.compile("")}


def read_request(given: RequestToSign, profile: S3Profile, addresses: Mapping[Authority, Style]) -> SignableRequest:
    """Parse a request to the bucket of `profile`, whose addresses are `addresses`.

    Raises the errors of `storage.signing.errors` (400, 405).
    """
    uri = read_uri(given.uri)
    if given.method not in _OBJECT_QUERIES:
        raise MethodNotSignable(f"method: requests with {given.method[:20]} are not signed")
    style = addresses.get(uri.authority)
    segments = _key_segments(uri, style, profile.bucket)
    headers = read_headers(given.headers)
    require_host(headers, uri)
    require_allowed(headers, profile)
    host = headers.get("host", uri.host)
    base = f"/{profile.bucket}" if style == "path" else ""
    if segments in {(), ("",)}:
        operation, keys = _bucket_operation(given, uri)
        path = base + "/" * len(segments) or "/"
        body = given.body if operation is Operation.BULK_DELETE else None
        _require_no_copy(headers)
        return SignableRequest(operation, given.method, host, path, uri.parameters, headers, keys, body)
    operation = _object_operation(given.method, uri)
    key = key_of(segments)
    keys = (key,)
    if given.method == "PUT":
        source = copy_source_key(headers, bucket=profile.bucket)
        keys = keys if source is None else (key, source)
    else:
        _require_no_copy(headers)
    return SignableRequest(operation, given.method, host, f"{base}/{key}", uri.parameters, headers, keys)


def _key_segments(uri: Uri, style: Style | None, bucket: str) -> tuple[str, ...]:
    """Return the raw segments of the key; none or one empty segment for the bucket itself. Raises `UriNotS3`.

    The error does not say which of host, port and bucket is wrong: that would reveal the location of the warehouse.
    """
    if style == "virtual_host":
        return uri.segments
    if style is None or uri.segments[:1] != (bucket,):
        raise UriNotS3("uri: not an address of this warehouse's bucket")
    return uri.segments[1:]


def _bucket_operation(given: RequestToSign, uri: Uri) -> tuple[Operation, tuple[str, ...]]:
    """Return the operation on the bucket, and the keys of its objects."""
    names = {name for name, _ in uri.parameters}
    if given.method == "GET" and "list-type" in names:
        return Operation.LIST, (_listed_prefix(uri.parameters),)
    if given.method == "POST" and "delete" in names:
        _require_form(uri.parameters, _DELETE_FORM)
        return Operation.BULK_DELETE, parse_delete_body(given.body)
    raise UriNotS3("uri: names no object, and of buckets only ListObjectsV2 and DeleteObjects are signed")


def _object_operation(method: str, uri: Uri) -> Operation:
    names = {name for name, _ in uri.parameters} - _EITHER_METHOD.keys()
    if method == "POST" and "delete" in names:
        raise UriNotBucket("uri: DeleteObjects is an operation on the bucket")
    form = next((form for form in _OBJECT_QUERIES[method] if names == form.keys()), None)
    if form is None:
        raise UnsupportedQueryParameter(f"uri: {method} of an object is not signed with these query parameters")
    _require_form(uri.parameters, form)
    if method in READING_METHODS:
        return Operation.READ
    return Operation.DELETE if method == "DELETE" else Operation.WRITE


def _require_form(parameters: Parameters, form: Mapping[str, re.Pattern[str]]) -> None:
    """Raise `UnsupportedQueryParameter` unless the query has each parameter of the form once, and no others."""
    expected = {**form, **_EITHER_METHOD}
    names = [name for name, _ in parameters]
    if len(set(names)) != len(names) or not form.keys() <= set(names) <= expected.keys():
        raise UnsupportedQueryParameter("uri: requests with these query parameters are not signed")
    for name, value in parameters:
        if expected[name].fullmatch(value) is None:
            raise UnsupportedQueryParameter(f"uri: the query parameter {name} has a value that is not signed")


def _listed_prefix(parameters: Parameters) -> str:
    """Return the prefix of a list. Raises `BadRequest` of four types."""
    found: dict[str, str] = {}
    for name, value in parameters:
        pattern = _LIST_PARAMETERS.get(name)
        if pattern is None or pattern.fullmatch(value) is None or has_control(value):
            if name == "prefix":
                raise InvalidListPrefix("uri: the prefix contains a control character")
            raise UnsupportedListParameter(f"uri: lists are not signed with the query parameter {name[:100]} as given")
        if name in found:
            raise RepeatedListParameter(f"uri: the query parameter {name} was given twice")
        found[name] = value
    prefix = found.get("prefix")
    if not prefix:
        raise ListWithoutPrefix("uri: lists are signed with a prefix only")
    segments = prefix.split("/")
    if re.search(r"[\\\ufffd]", prefix) or "" in segments[:-1] or not {".", ".."}.isdisjoint(segments):
        raise InvalidListPrefix("uri: the prefix has empty or dot segments, a backslash, or was not UTF-8")
    return prefix


def _require_no_copy(headers: Mapping[str, str]) -> None:
    if any(name.startswith(COPY_SOURCE) for name in headers):
        raise UnsupportedHeader(f"headers.{COPY_SOURCE}: only for PUT of an object")


MAX_KEYS: Final = 1000
"""The limit of S3."""

MAX_BODY_CHARACTERS: Final = 4 * 1024 * 1024

_DECLARATION = re.compile(r"\s*<\?xml\s+version=(['\"])1\.0\1(?:\s+encoding=(['\"])utf-8\2)?\s*\?>", re.IGNORECASE)
_CONDITIONS: Final = frozenset({"ETag", "LastModifiedTime", "Size"})


def parse_delete_body(body: str | None) -> tuple[str, ...]:
    """Return the keys to delete. Raises `DeleteWithoutBody`, `InvalidDeleteBody`, `InvalidObjectKey`.

    Versions of objects cannot be deleted, as with vended credentials.
    """
    if not body:
        raise DeleteWithoutBody("body: required where objects are deleted")
    if len(body) > MAX_BODY_CHARACTERS:
        raise InvalidDeleteBody(f"body: longer than {MAX_BODY_CHARACTERS} characters")
    keys = tuple(key for child in _root(body) for key in _keys_of(child))
    if not 0 < len(keys) <= MAX_KEYS:
        raise InvalidDeleteBody(f"body: must name 1 to {MAX_KEYS} objects")
    for key in keys:
        require_plain_key(key, "body")
    return keys


def _root(body: str) -> Element:
    document = _DECLARATION.sub("", body, count=1) if body.lstrip().startswith("<?") else body
    if "<!" in document or "<?" in document:
        raise InvalidDeleteBody("body: must be XML without comments, sections, instructions and types")
    try:
        root: Element = fromstring(document.encode(), forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        raise InvalidDeleteBody("body: not the XML of DeleteObjects") from None
    if _name(root) != "Delete":
        raise InvalidDeleteBody("body: not the XML of DeleteObjects")
    return root


def _keys_of(child: Element) -> list[str]:
    if _name(child) == "Quiet":
        _text(child)
        return []
    if _name(child) != "Object":
        raise InvalidDeleteBody("body: contains elements that DeleteObjects does not have")
    found = [_text(member) for member in child if _name(member) == "Key"]
    others = {_name(member) for member in child} - {"Key"}
    if "VersionId" in others:
        raise InvalidDeleteBody("body: versions of objects cannot be deleted with a signature of the catalog")
    if len(found) != 1 or not others <= _CONDITIONS:
        raise InvalidDeleteBody("body: each Object must have one Key, and no elements that DeleteObjects does not have")
    return found


def _text(element: Element) -> str:
    if len(element) or not element.text:
        raise InvalidDeleteBody("body: keys and flags must be texts")
    return element.text


def _name(element: Element) -> str:
    """Return the name of an element without its namespace, which stores treat differently."""
    if element.attrib:
        raise InvalidDeleteBody("body: contains attributes")
    return str(element.tag).rpartition("}")[2]
