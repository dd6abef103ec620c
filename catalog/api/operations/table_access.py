from __future__ import annotations

from drf_spectacular.utils import extend_schema

from catalog.api.operations.parameters import OF_TABLE
from catalog.api.operations.refusals import NO_TABLE, TOO_LARGE, answers_below_prefix
from catalog.api.operations.tables import TABLE
from catalog.api.operations.tabulars import credentials
from catalog.api.operations.tags import CATALOG
from catalog.api.shapes.table_access import RemoteSignRequest

load_credentials = credentials("loadCredentials", TABLE)
sign_request = extend_schema(
    operation_id="signRequest",
    tags=CATALOG,
    summary="Sign a request to the object store",
    description="No storage type of this version has it, so it is always refused and `/v1/config` leaves it out.",
    parameters=OF_TABLE,
    request=RemoteSignRequest,
    responses=answers_below_prefix({}, {400: "`UnsupportedStorageType`", 404: NO_TABLE, 413: TOO_LARGE}),
)
