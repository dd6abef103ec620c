"""Responses of loads: stored metadata, never parsed, with the config by which a client accesses the files."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Annotated, Final, TypedDict
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from catalog.api.operation import format_referenced_by
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.access.files import Access, Reader, TabularFiles, vended_credentials
from catalog.selectors.tables.generic_tables import LoadedGenericTable
from catalog.selectors.tables.load import LoadedTabular, StagedTable
from catalog.services.tables.staging import StagingTicket
from icekeeper.kernel.clock import now, now_ms
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.base_url import base_url
from icekeeper.kernel.json.strict import write_json
from storage.vending.client_config import SignerEndpoint, client_config, credential_config
from storage.vending.delegation import FileAccess, Vended
from tenancy.actor import ANONYMOUS
from tenancy.audit.occurrences import record_read
from tenancy.audit.recording import Event
from tenancy.authz.actions import Can
from tenancy.models import Securable

logger = logging.getLogger("icekeeper.storage")

MAX_REFRESH_DELAY: Final = timedelta(hours=1)
"""A client with a credential refreshes it after this at the latest."""


class StorageCredential(TypedDict):
    prefix: Annotated[str, "The credential is for locations that begin with it"]
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class TableAccessConfig:
    """Members of a response, for a caller with `access`.

    `refresh_at`, in UTC, is when a client should load it again; None if nothing expires.
    """

    config: dict[str, str] = field(default_factory=dict, repr=False)
    storage_credentials: list[StorageCredential] = field(default_factory=list, repr=False)
    refresh_at: datetime | None = None
    access: Access | None = None


def build_access_config(
    request: HttpRequest,
    files: TabularFiles | None,
    access: Access | None,
    *,
    kind: Tabular.Kind,
    tabular_id: UUID | None,
    identifier: Identifier,
    ticket: StagingTicket | None = None,
    reader: Reader | None = None,
) -> TableAccessConfig:
    """Build the config for a caller with `access`, and vend credentials; empty if there are no files (None).

    A staged table has a `ticket` and no `tabular_id`. Tables have a route from which clients refresh their credentials;
    a `reader` of a view chain does so with the same chain. Vended credentials are audited if that is enabled. Raises as
    `vend`.
    """
    if files is None or access is None:
        return TableAccessConfig()
    profile, warehouse_id = files.storage.profile, files.storage.warehouse_id
    vended = vended_credentials(files, access)
    if vended:
        record_read(
            actor=reader.actor if reader is not None else request.META.get("icekeeper.actor", ANONYMOUS),
            event=Event.DATA_CREDENTIALS_VENDED,
            action=Can.READ_DATA if access.rights is FileAccess.READ else Can.WRITE_DATA,
            object_type=kind.value if tabular_id is not None else Securable.Type.WAREHOUSE.value,
            object_id=tabular_id or warehouse_id,
        )
    signer = refresh_endpoint = None
    if access.delegation.signing and (tabular_id or ticket):
        table = f"tabular-id/{tabular_id}" if ticket is None else f"staged/{ticket.encode()}"
        signer = SignerEndpoint(
            uri=f"{_catalog(request)}/", endpoint=f"v1/signer/{warehouse_id}/{table}/v1/aws/s3/sign"
        )
    if vended and kind == Tabular.Kind.TABLE:
        refresh_endpoint = f"{_catalog(request)}/v1/{warehouse_id}/{_path(identifier)}/credentials"
        if reader is not None and reader.is_delegate:
            refresh_endpoint += f"?{format_referenced_by(reader.views)}"
    agent = request.META.get("HTTP_USER_AGENT", "")
    config = client_config(
        profile,
        vended=vended[0][1] if vended else None,
        signer=signer,
        refresh_endpoint=refresh_endpoint,
        user_agent=agent,
    )
    credentials: list[StorageCredential] = [
        {
            "prefix": prefix,
            "config": credential_config(profile, each, refresh_endpoint=refresh_endpoint, user_agent=agent),
        }
        for prefix, each in vended
    ]
    return TableAccessConfig(config, credentials, _refresh_time([each for _, each in vended]), access)


def build_access_config_after_write(
    request: HttpRequest,
    files: TabularFiles | None,
    access: Access | None,
    *,
    kind: Tabular.Kind,
    tabular_id: UUID,
    identifier: Identifier,
) -> TableAccessConfig:
    """Build the config for the response to a committed write; credentials that cannot be vended now are left out."""
    try:
        return build_access_config(request, files, access, kind=kind, tabular_id=tabular_id, identifier=identifier)
    except CatalogError as error:
        logger.warning("no credentials vended after the write: %s", error.message, extra={"tabular": str(tabular_id)})
    if access is not None:
        access = replace(access, delegation=replace(access.delegation, vended=False))
    return build_access_config(request, files, access, kind=kind, tabular_id=tabular_id, identifier=identifier)


def _catalog(request: HttpRequest) -> str:
    return f"{base_url(request.META, settings.ICEKEEPER)}/catalog"


def _path(table: Identifier) -> str:
    levels = "%1F".join(quote(level, safe="") for level in table.levels)
    return f"namespaces/{levels}/tables/{quote(table.name, safe='')}"


def _refresh_time(vended: list[Vended]) -> datetime | None:
    """Return the half of the shortest life."""
    if not vended:
        return None
    vended_at = now()
    return vended_at + min((min(each.expires_at for each in vended) - vended_at) / 2, MAX_REFRESH_DELAY)


def load_table_result(
    loaded: LoadedTabular | StagedTable, access_config: TableAccessConfig, *, etag: str | None
) -> HttpResponse:
    """LoadTableResult; `metadata-location` is null for a staged table. `etag` does not cover credentials."""
    location = write_json(loaded.metadata_location if isinstance(loaded, LoadedTabular) else None)
    content = b'{"metadata-location":%b,"metadata":%b%b}' % (location, loaded.document, _access_members(access_config))
    return _response(content, None if etag is None else _expiring_etag(etag, access_config.refresh_at))


def load_view_result(loaded: LoadedTabular, access_config: TableAccessConfig) -> HttpResponse:
    """LoadViewResult, which has no `storage-credentials`."""
    parts = (write_json(loaded.metadata_location), loaded.document, write_json(access_config.config))
    return _response(b'{"metadata-location":%b,"metadata":%b,"config":%b}' % parts, None)


def commit_table_response(table: LoadedTabular) -> HttpResponse:
    """CommitTableResponse: as a load, without config."""
    location = write_json(table.metadata_location)
    etag = table_etag(table.metadata_location)
    return _response(b'{"metadata-location":%b,"metadata":%b}' % (location, table.document), etag)


def load_generic_table_response(table: LoadedGenericTable, access_config: TableAccessConfig) -> HttpResponse:
    """LoadGenericTableResponse, with schema and statistics as they are stored."""
    described = write_json(
        {
            "name": table.name,
            "format": table.format,
            "base-location": table.base_location,
            "protected": table.is_protected,
            "doc": table.doc,
            "properties": table.properties,
        }
    )
    schema, statistics = ((text or "null").encode() for text in (table.schema, table.statistics))
    parts = (described[:-1], schema, statistics, _access_members(access_config))
    return _response(b'{"table":%b,"schema":%b,"statistics":%b}%b}' % parts, None)


def not_modified(etag: str) -> HttpResponse:
    response = HttpResponse(status=304, headers={"ETag": etag})
    del response.headers["Content-Type"]
    return response


def table_etag(
    metadata_location: str, snapshots: str = "all", *, access: Access | None = None, reader: Reader | None = None
) -> str:
    """Return the ETag of one version of a table with all its `snapshots` or only the referenced ones ("refs").

    It covers `access` to the files, and the `reader` whose permissions decide if that is not the caller.
    """
    text = f"{snapshots} {metadata_location}"
    if access is not None:
        delegation = access.delegation
        text += f" {access.storage_version} {access.rights.value} {delegation.vended} {delegation.signing}"
    if reader is not None and reader.is_delegate:
        text += f" {reader.actor.user_id} {format_referenced_by(reader.views)}"
    return f'"{blake2b(text.encode(), digest_size=12).hexdigest()}"'


def matching_etag(if_none_match: str, etag: str, *, expires: bool) -> str | None:
    """Return the tag of an If-None-Match header that matches `etag` weakly (RFC 9110 §13.1.2), or None.

    With `expires` the response had credentials: its tag has the time after which it matches nothing.
    """
    if if_none_match.strip() == "*":
        return None if expires else etag
    for given in if_none_match.split(","):
        tag = given.strip().removeprefix("W/")
        if tag == etag and not expires:
            return tag
        version, dot, until = tag.removesuffix('"').partition(".")
        if expires and dot and f'{version}"' == etag and _is_in_future(until):
            return tag
    return None


def _access_members(access_config: TableAccessConfig) -> bytes:
    """Return `config` and `storage-credentials`, each led by a comma."""
    config = b',"config":%b' % write_json(access_config.config)
    if not access_config.storage_credentials:
        return config
    return b'%b,"storage-credentials":%b' % (config, write_json(access_config.storage_credentials))


def _expiring_etag(etag: str, end: datetime | None) -> str:
    """Append the end of its validity, in milliseconds since the epoch and hexadecimal digits."""
    return etag if end is None else f'{etag[:-1]}.{int(end.timestamp() * 1000):x}"'


def _is_in_future(until: str) -> bool:
    """Read the time of a tag; false for a malformed one."""
    try:
        return now_ms() < int(until, 16)
    except ValueError:
        return False


def _response(content: bytes, etag: str | None) -> HttpResponse:
    headers = {} if etag is None else {"ETag": etag}
    return HttpResponse(content, content_type="application/json", headers=headers)
