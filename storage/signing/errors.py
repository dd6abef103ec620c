"""Errors of remote signing. Wire types are as in Lakekeeper, where it has one."""

from __future__ import annotations

from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden


class UnsupportedStorageType(BadRequest):
    wire_type = "UnsupportedStorageType"


class RemoteSigningDisabled(Forbidden):
    wire_type = "RemoteSigningDisabled"


class MethodNotSignable(CatalogError):
    """The method of the request to sign is not allowed."""

    status, wire_type, is_final = 405, "MethodNotAllowed", True


class UriSchemeNotSupported(BadRequest):
    wire_type = "UriSchemeNotSupported"


class UriNoHost(BadRequest):
    wire_type = "UriNoHost"


class UriNotS3(BadRequest):
    """The URI is not an address of an object in the warehouse's bucket."""

    wire_type = "UriNotS3"


class UriNotBucket(BadRequest):
    """An operation on buckets was requested for an object."""

    wire_type = "UriNotBucket"


class UndecodableUri(BadRequest):
    wire_type = "FailedToDecodeURISegment"


class InvalidObjectKey(BadRequest):
    """A proxy or the store could interpret the key as another one."""

    wire_type = "InvalidObjectKey"


class UnsupportedQueryParameter(BadRequest):
    wire_type = "UnsupportedQueryParameter"


class UnsupportedListParameter(BadRequest):
    wire_type = "UnsupportedListParameter"


class RepeatedListParameter(BadRequest):
    wire_type = "RepeatedListParameter"


class ListWithoutPrefix(BadRequest):
    wire_type = "ListWithoutPrefix"


class InvalidListPrefix(BadRequest):
    wire_type = "InvalidListPrefix"


class UnsupportedHeader(BadRequest):
    wire_type = "UnsupportedHeader"


class InvalidCopySource(BadRequest):
    wire_type = "InvalidCopySource"


class DeleteWithoutBody(BadRequest):
    wire_type = "DeleteWithoutBody"


class InvalidDeleteBody(BadRequest):
    wire_type = "InvalidDeleteBody"


class RegionMismatch(BadRequest):
    wire_type = "RegionMismatch"


class RequestUriMismatch(BadRequest):
    """The request is about files outside of the table."""

    wire_type = "RequestUriMismatch"
