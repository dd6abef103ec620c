"""What answers say about the way to a tabular's files: `config` and `storage-credentials`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Annotated, Any, Final, TypedDict
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest

from catalog.api.parameters import ACCESS_DELEGATION
from catalog.api.referenced_by import written
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

LONGEST_UNASKED: Final = timedelta(hours=1)
"""A client that has a credential comes back for another one after this at the latest."""


class StorageCredential(TypedDict):
    prefix: Annotated[str, "The credential is for locations that begin with it"]
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class TableAccessConfig:
    """The way to the files of one tabular: `storage_credentials` are entries of the answer, maybe none.

    `holds_until`, in UTC, is when a client should ask again, None where nothing ends.
    """

    config: dict[str, str] = field(default_factory=dict, repr=False)
    storage_credentials: list[StorageCredential] = field(default_factory=list, repr=False)
    holds_until: Any = None


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
    """The way of a caller with `access`; `tabular_id` is None for a table that is not there yet, which has a ticket.

    There is no way to files that are gone (None). `refreshed_as` names the table whose route gives newer credentials,
    for kinds that have one; a `reader` who reads through views gets them through the same. The audit trail tells who
    was lent something, if it is to. Raises as `vend`.
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
        whose = f"tabular-id/{tabular_id}" if staged_as is None else f"staged/{staged_as.written()}"
        signer = SignerEndpoint(
            uri=f"{_catalog(request)}/", endpoint=f"v1/signer/{warehouse_id}/{whose}/v1/aws/s3/sign"
        )
    if vended and refreshed_as is not None:
        refresh_endpoint = f"{_catalog(request)}/v1/{warehouse_id}/{_path(refreshed_as)}/credentials"
        if reader is not None and reader.is_delegate:
            refresh_endpoint += f"?{written(reader.views)}"
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
            "prefix": place,
            "config": credential_config(profile, each, refresh_endpoint=refresh_endpoint, user_agent=agent),
        }
        for place, each in vended
    ]
    return TableAccessConfig(config, credentials, _holds_until([each for _, each in vended]))


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
        logger.warning("nothing is lent for what was written: %s", error.message, extra={"tabular": str(tabular_id)})
    if access is not None:
        access = replace(access, delegation=replace(access.delegation, vended=False))
    return build_access_config(request, files, access, kind=kind, tabular_id=tabular_id, refreshed_as=refreshed_as)


def _catalog(request: HttpRequest) -> str:
    return f"{base_url(request.META, settings.ICEKEEPER)}/catalog"


def _path(table: Identifier) -> str:
    levels = "%1F".join(quote(level, safe="") for level in table.levels)
    return f"namespaces/{levels}/tables/{quote(table.name, safe='')}"


def _holds_until(vended: list[Vended]) -> Any:
    if not vended:
        return None
    at = now()
    return at + min((min(each.expires_at for each in vended) - at) / 2, LONGEST_UNASKED)
