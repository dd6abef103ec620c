"""How a client gets access to the files of a table or view: `config` and `storage-credentials` of responses."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, Final, TypedDict
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest

from catalog.api.parameters import ACCESS_DELEGATION
from catalog.api.referenced_by import format_referenced_by
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.access.files import Access, Reader, TabularFiles, vended_credentials
from catalog.services.tables.staging import StagingTicket
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.base_url import base_url
from storage.vending.client_config import SignerEndpoint, client_config, credential_config
from storage.vending.delegation import RequestedAccess, parse_requested_access
from storage.vending.rights import FileAccess
from storage.vending.vended import Vended
from tenancy.actor import ANONYMOUS
from tenancy.audit.log import Event
from tenancy.audit.occurrences import record_read
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
    """Members of a response. `refresh_at`, in UTC, is when a client should load it again; None if nothing expires."""

    config: dict[str, str] = field(default_factory=dict, repr=False)
    storage_credentials: list[StorageCredential] = field(default_factory=list, repr=False)
    refresh_at: datetime | None = None


def requested_delegation(request: HttpRequest) -> RequestedAccess:
    return parse_requested_access(ACCESS_DELEGATION.read(request))


def build_access_config(
    request: HttpRequest,
    files: TabularFiles | None,
    access: Access | None,
    *,
    kind: Tabular.Kind,
    tabular_id: UUID | None,
    refreshed_as: Identifier | None,
    staged_as: StagingTicket | None = None,
    reader: Reader | None = None,
) -> TableAccessConfig:
    """Build the config for a caller with `access`, and vend credentials; empty if there are no files (None).

    `tabular_id` is None for a staged table, which has a ticket. `refreshed_as` names the table that has a route for
    new credentials; a `reader` of a view chain refreshes them with the same chain. Vended credentials are audited if
    that is enabled. Raises as `vend`.
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
    if access.delegation.signing and (tabular_id or staged_as):
        table = f"tabular-id/{tabular_id}" if staged_as is None else f"staged/{staged_as.written()}"
        signer = SignerEndpoint(
            uri=f"{_catalog(request)}/", endpoint=f"v1/signer/{warehouse_id}/{table}/v1/aws/s3/sign"
        )
    if vended and refreshed_as is not None:
        refresh_endpoint = f"{_catalog(request)}/v1/{warehouse_id}/{_path(refreshed_as)}/credentials"
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
    return TableAccessConfig(config, credentials, _refresh_time([each for _, each in vended]))


def build_access_config_after_write(
    request: HttpRequest,
    files: TabularFiles | None,
    access: Access | None,
    *,
    kind: Tabular.Kind,
    tabular_id: UUID,
    refreshed_as: Identifier | None,
) -> TableAccessConfig:
    """Build the config for the response to a committed write; credentials that cannot be vended now are left out."""
    try:
        return build_access_config(request, files, access, kind=kind, tabular_id=tabular_id, refreshed_as=refreshed_as)
    except CatalogError as error:
        logger.warning("no credentials vended after the write: %s", error.message, extra={"tabular": str(tabular_id)})
    if access is not None:
        access = replace(access, delegation=replace(access.delegation, vended=False))
    return build_access_config(request, files, access, kind=kind, tabular_id=tabular_id, refreshed_as=refreshed_as)


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
