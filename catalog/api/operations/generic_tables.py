"""Ids are the peer's; those of the other modules are the specification's."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from catalog.api.operations.parameters import OF_TABLE, REFERENCED_BY
from catalog.api.operations.refusals import NO_GENERIC_TABLE, TOO_MANY_VIEWS, answers_below_prefix
from catalog.api.operations.tabulars import Kind, creation, credentials, drop, listing, rename
from catalog.api.operations.tags import GENERIC
from catalog.api.shapes.generic_tables import (
    CreateGenericTableRequest,
    ListGenericTablesResponse,
    LoadGenericTableResponse,
)

GENERIC_TABLE = Kind(
    "generic table",
    GENERIC,
    OF_TABLE,
    missing=NO_GENERIC_TABLE,
    taken="`GenericTableAlreadyExists`; `AlreadyExistsException`: a table or view has the name",
)

list_generic_tables = listing("list_generic_tables", GENERIC_TABLE, ListGenericTablesResponse, extras=[])
create_generic_table = creation(
    "create_generic_table",
    GENERIC_TABLE,
    CreateGenericTableRequest,
    LoadGenericTableResponse,
    summary="Make a generic table",
    refusals={
        400: "`InvalidName`, `InvalidFormat`, `PayloadTooLarge`: a part of the description is larger than 1 MiB; "
        "`InvalidLocation`: not in the warehouse"
    },
)
load_generic_table = extend_schema(
    operation_id="load_generic_table",
    tags=GENERIC,
    summary="A generic table, as it was described",
    parameters=[*OF_TABLE, REFERENCED_BY],
    responses=answers_below_prefix({200: LoadGenericTableResponse}, {400: TOO_MANY_VIEWS, 404: NO_GENERIC_TABLE}),
)
drop_generic_table = drop(
    "drop_generic_table",
    GENERIC_TABLE,
    summary="Forget a generic table and, unless told otherwise, delete its files",
    purges_unless_told=True,
)
load_generic_table_credentials = credentials("load_generic_table_credentials", GENERIC_TABLE)
rename_generic_table = rename("rename_generic_table", GENERIC_TABLE)
