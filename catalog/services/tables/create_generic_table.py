"""Creation of generic tables: names, locations and descriptions of tables in formats that the catalog does not read.

They are never updated and have no commits: writers of the data coordinate among themselves.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from catalog.errors import already_exists
from catalog.identifiers import Identifier, Levels
from catalog.models import GenericTable, Tabular
from catalog.selectors.access.files import TabularFiles
from catalog.selectors.tables.generic_tables import LoadedGenericTable
from catalog.selectors.tables.targets import Target, find_target
from catalog.services.approval.approve import require_approval
from catalog.services.approval.proposals import describe_generic_table, propose_creation
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import is_foreseeable, new_tabular_location
from catalog.services.locations.purge import run_pending_purges
from catalog.services.namespaces.properties import read_properties
from catalog.services.tables.create import insert_row, lock_name, translate_integrity_errors
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.names import require_name
from storage.profiles.location import location_inside
from tenancy.actor import Actor
from tenancy.changes.transaction import ChangeTransaction, change

KIND = Tabular.Kind.GENERIC_TABLE
MAX_JSON_BYTES = 1_048_576
"""Maximum size of each part of a description as JSON."""

_FORMAT = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class InvalidName(BadRequest):
    wire_type = "InvalidName"


class InvalidFormat(BadRequest):
    wire_type = "InvalidFormat"


class DescriptionTooLarge(BadRequest):
    wire_type = "PayloadTooLarge"


def create_generic_table(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    name: object,
    table_format: object,
    base_location: object,
    doc: object,
    properties: object,
    schema: Any,
    statistics: Any,
    idempotency_key: IdempotencyKey | None = None,
) -> LoadedGenericTable:
    """Create a generic table; the arguments are those of CreateGenericTableRequest. Nothing is written to the store.

    `schema` and `statistics` are any JSON values, stored unchanged. Raises `InvalidName`, `InvalidFormat`,
    `DescriptionTooLarge` (all 400), `NoSuchNamespace`, `AlreadyExists`, `InvalidLocation`, `LocationAlreadyTaken`,
    `ContractViolation` (409).
    """
    identifier = Identifier(levels, _name(name))
    described = GenericTable(
        format=_format(table_format),
        doc=_doc(doc),
        properties=_properties(properties),
        schema=_json_text(schema, "schema"),
        statistics=_json_text(statistics, "statistics"),
    )
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_to_create_in(actor, Tabular.Kind.GENERIC_TABLE)
    if target.current is not None:
        raise already_exists(target.current.kind, KIND, identifier)
    table_id = new_id()
    wanted = new_tabular_location(target, base_location, table_id)
    require_approval(
        target.rules_version,
        lambda: [propose_creation(actor, target, KIND, describe_generic_table(described))],
        warehouse_id=target.warehouse_id,
    )
    if base_location is None and is_foreseeable(wanted, table_id):
        run_pending_purges(actor, target, wanted)
    request = {
        "name": name, "format": table_format, "base-location": base_location, "doc": doc, "properties": properties,
        "schema": schema, "statistics": statistics,
    }  # fmt: skip
    with translate_integrity_errors(KIND, identifier), change(actor, idempotency_key) as tx:
        created = _insert_rows(tx, target, namespace_id, described, request, table_id=table_id, wanted=wanted)
        tx.result = created
    return created


def _insert_rows(
    tx: ChangeTransaction,
    target: Target,
    namespace_id: UUID,
    described: GenericTable,
    request: dict[str, Any],
    *,
    table_id: UUID,
    wanted: str,
) -> LoadedGenericTable:
    warehouse = lock_name(tx, target, namespace_id, KIND, table_id)
    location = location_inside(wanted, base=warehouse.location)
    insert_row(
        tx,
        warehouse,
        namespace_id,
        target.identifier,
        kind=KIND,
        tabular_id=table_id,
        client_uuid=table_id,
        location=location,
        metadata_location="",
        request=request,
    )
    described.tabular_id = table_id
    described.save(force_insert=True)
    return LoadedGenericTable(
        id=table_id,
        name=target.identifier.name,
        format=described.format,
        base_location=location,
        is_protected=False,
        doc=described.doc,
        properties=described.properties,
        schema=described.schema,
        statistics=described.statistics,
        files=TabularFiles(target.storage, (location,)),
    )


def _name(name: object) -> str:
    try:
        return require_name(name, "generic table name")
    except BadRequest as error:
        raise InvalidName(error.message) from None


def _format(table_format: object) -> str:
    if not isinstance(table_format, str) or not _FORMAT.fullmatch(table_format):
        raise InvalidFormat(
            "format: must be at most 64 lower-case letters, digits, _ and -, and begin with a letter, such as lance"
        )
    return table_format


def _doc(doc: object) -> str | None:
    if doc is None:
        return None
    if not isinstance(doc, str) or "\x00" in doc:
        raise BadRequest("doc: must be a string without the character U+0000")
    _json_text(doc, "doc")
    return doc


def _properties(properties: object) -> dict[str, str]:
    _json_text(properties, "properties")
    return read_properties(properties, "properties")


def _json_text(value: Any, what: str) -> str | None:
    """Return `value` as JSON text, None for none."""
    if value is None:
        return None
    text = write_json(value)
    if len(text) > MAX_JSON_BYTES:
        raise DescriptionTooLarge(f"{what}: larger than {MAX_JSON_BYTES} bytes")
    return text.decode()
