"""Errors for requests to a store that are not signed. The wire types are Lakekeeper's, as far as it has one."""

from __future__ import annotations

from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden


class UnsupportedStorageType(BadRequest):
    wire_type = "UnsupportedStorageType"


class RemoteSigningDisabled(Forbidden):
    wire_type = "RemoteSigningDisabled"


class MethodNotSignable(CatalogError):
    """Of the request to be signed, not of the one that asks for it."""

    status, wire_type, is_final = 405, "MethodNotAllowed", True


class UriSchemeNotSupported(BadRequest):
    wire_type = "UriSchemeNotSupported"


class UriNoHost(BadRequest):
    wire_type = "UriNoHost"


class UriNotS3(BadRequest):
    """It names no object of the warehouse's bucket, at an address where that bucket is."""

    wire_type = "UriNotS3"


class UriNotBucket(BadRequest):
    """What is done with the bucket was asked of an object."""

    wire_type = "UriNotBucket"


class UndecodableUri(BadRequest):
    wire_type = "FailedToDecodeURISegment"


class InvalidObjectKey(BadRequest):
    """A key that a proxy or the store could read as another one."""

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
    """It is about other files than those of the table that it is signed for."""

    wire_type = "RequestUriMismatch"
