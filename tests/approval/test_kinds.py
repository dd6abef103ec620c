"""What each kind of rule accepts and rejects, through the REST catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.iceberg.schema_compatibility import Compatibility
from catalog.identifiers import Identifier
from catalog.selectors.tables.targets import find_target
from catalog.services.approval.configuration import InvalidRule
from catalog.services.approval.proposals import propose_replacement
from icekeeper.kernel.clock import now_ms
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tests.approval.conftest import CreateRule
from tests.catalog_fixtures import snapshot
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient, Response
from tests.tag_fixtures import define, put

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Field = dict[str, Any]
T = "/namespaces/ns/tables/t"
ID: Field = {"id": 1, "name": "id", "type": "long", "required": True}
NAME: Field = {"id": 2, "name": "name", "type": "string", "required": False}


def commit(catalog: ApiClient, *updates: dict[str, Any], table: str = "t") -> Response:
    return catalog.post(f"/namespaces/ns/tables/{table}", {"requirements": [], "updates": list(updates)})


def with_columns(catalog: ApiClient, *fields: Field) -> Response:
    schema = {"type": "struct", "fields": list(fields)}
    return commit(
        catalog, {"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}
    )


def set_properties(**updates: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": updates}


def rejected(response: Response, *reasons: str) -> bool:
    """Return whether the reasons are those of the error."""
    assert response.refused(409, "ContractViolation")
    found = [part.split(": ", 1)[1] for part in response.error["message"].split("; ")]
    assert found == list(reasons)
    return True


# --- schema-compatibility --------------------------------------------------------------------------------------------


def test_schemas_stay_compatible(catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule) -> None:
    create_table("t")
    create_rule("schema-compatibility", {"mode": "full"})
    assert rejected(with_columns(catalog, ID), "column name is dropped")
    assert rejected(with_columns(catalog, ID, NAME | {"required": True}), "column name becomes required")
    assert with_columns(catalog, NAME, ID, {"id": 3, "name": "more", "type": "int", "required": False}).status == 200
    assert commit(catalog, set_properties(a="b")).status == 200
    assert catalog.delete(T).status == 204


@pytest.mark.parametrize("mode", Compatibility)
def test_each_mode(mode: Compatibility, catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule) -> None:
    create_table("t")
    create_rule("schema-compatibility", {"mode": mode.value})
    dropped, required = with_columns(catalog, ID), with_columns(catalog, ID, NAME | {"required": True})
    assert (dropped.status == 200) == (mode is Compatibility.BACKWARD)
    assert (required.status == 200) == (mode is Compatibility.FORWARD)


def test_the_current_schema_counts_and_not_the_last_one(
    catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule
) -> None:
    create_table("t")
    create_rule("schema-compatibility", {"mode": "forward"})
    only_id = {"type": "struct", "fields": [ID]}
    assert commit(catalog, {"action": "add-schema", "schema": only_id}).status == 200
    assert rejected(commit(catalog, {"action": "set-current-schema", "schema-id": 1}), "column name is dropped")


# --- protected -------------------------------------------------------------------------------------------------------


@pytest.fixture
def tagged(catalog: ApiClient, create_table: CreateTable, manage: ApiClient) -> str:
    """A table `t` with the tag `critical` and the column `name` with the tag `pii`; the path of the table."""
    define("critical", "marker")
    define("pii", "enumerated", **{"allowed-values": ["low", "high"]})
    path = f"/table/{create_table('t')['metadata']['table-uuid']}"
    put(manage, path, None, "critical")
    put(manage, f"{path}/column/name", "high", "pii")
    return path


def test_tagged_objects_are_not_dropped_or_renamed(catalog: ApiClient, tagged: str, create_rule: CreateRule) -> None:
    create_rule("protected", {"object-tag": "CRITICAL"})
    to_u = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    reason = "it has the tag 'CRITICAL' and must not be "
    assert rejected(catalog.delete(T), f"{reason}dropped")
    assert rejected(catalog.delete(f"{T}?force=true"), f"{reason}dropped")
    assert rejected(catalog.post("/tables/rename", to_u), f"{reason}renamed")
    assert rejected(catalog.delete("/namespaces/ns?recursive=true"), f"{reason}dropped")
    loaded = catalog.get(T).json()
    again = {"name": "t", "metadata-location": loaded["metadata-location"], "overwrite": True}
    assert rejected(catalog.post("/namespaces/ns/register", again), f"{reason}replaced")
    assert commit(catalog, set_properties(a="b")).status == 200
    assert with_columns(catalog, ID).status == 200


def test_inherited_tags_protect(
    catalog: ApiClient, create_table: CreateTable, manage: ApiClient, create_rule: CreateRule
) -> None:
    create_table("t")
    define("critical", "free-text")
    put(manage, "", "yes", "critical")
    create_rule("protected", {"object-tag": "critical", "object-tag-values": ["yes"]})
    assert rejected(catalog.delete(T), "it has the tag 'critical' and must not be dropped")
    put(manage, f"/table/{catalog.get(T).json()['metadata']['table-uuid']}", "no", "critical")
    assert catalog.delete(T).status == 204, "the nearest value counts"


def test_tagged_columns_stay(catalog: ApiClient, tagged: str, create_rule: CreateRule) -> None:
    create_rule("protected", {"column-tag": "pii", "column-tag-values": ["high"]})
    reason = "column name has the tag 'pii' and must not "
    assert rejected(with_columns(catalog, ID), f"{reason}be dropped")
    assert rejected(with_columns(catalog, ID, NAME | {"name": "n"}), f"{reason}be renamed to n")
    assert rejected(
        with_columns(catalog, ID, NAME | {"type": "binary"}), f"{reason}change its type from string to binary"
    )
    assert with_columns(catalog, NAME, ID | {"name": "key"}).status == 200
    assert catalog.delete(T).status == 204


def test_columns_with_other_values_are_free(catalog: ApiClient, tagged: str, create_rule: CreateRule) -> None:
    create_rule("protected", {"column-tag": "pii", "column-tag-values": ["low"]})
    assert with_columns(catalog, ID).status == 200


# --- required-properties ---------------------------------------------------------------------------------------------


def test_new_tables_have_the_required_properties(
    catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule
) -> None:
    create_table("old")
    create_rule(
        "required-properties", {"properties": {"owner": ["team-[a-z]+"], "cost-center": None}, "objects": ["table"]}
    )
    new = {"name": "t", "schema": {"type": "struct", "fields": [ID]}}
    missing = "the property 'owner' is required", "the property 'cost-center' is required"
    tables = "/namespaces/ns/tables"
    assert rejected(catalog.post(tables, new), *missing)
    bad = new | {"properties": {"owner": "alice", "cost-center": "7"}}
    assert rejected(catalog.post(tables, bad), "the value of the property 'owner' must match team-[a-z]+")
    assert catalog.post(tables, new | {"properties": {"owner": "team-sales", "cost-center": "7"}}).status == 200
    remove = {"action": "remove-properties", "removals": ["owner"]}
    assert rejected(commit(catalog, remove), "the property 'owner' is required")
    assert rejected(
        commit(catalog, set_properties(owner="bob")), "the value of the property 'owner' must match team-[a-z]+"
    )
    assert commit(catalog, set_properties(owner="team-risk")).status == 200
    assert commit(catalog, set_properties(a="b"), table="old").status == 200, "an old table can still be written"
    assert catalog.post("/namespaces", {"namespace": ["free"]}).status == 200


def test_namespaces_and_generic_tables_can_need_properties(
    catalog: ApiClient, generic: ApiClient, namespace: str, create_rule: CreateRule
) -> None:
    create_rule("required-properties", {"properties": {"owner": None}, "objects": ["namespace", "generic-table"]})
    reason = "the property 'owner' is required"
    assert rejected(catalog.post("/namespaces", {"namespace": ["n"]}), reason)
    assert catalog.post("/namespaces", {"namespace": ["n"], "properties": {"owner": "a"}}).status == 200
    assert rejected(catalog.post("/namespaces/n/properties", {"removals": ["owner"]}), reason)
    assert catalog.post("/namespaces/n/properties", {"updates": {"x": "y"}}).status == 200
    assert catalog.post("/namespaces/ns/properties", {"updates": {"x": "y"}}).status == 200
    new = {"name": "g", "format": "lance"}
    assert rejected(generic.post("/namespaces/ns/generic-tables", new), reason)
    assert generic.post("/namespaces/ns/generic-tables", new | {"properties": {"owner": "a"}}).status == 200


# --- naming ----------------------------------------------------------------------------------------------------------


def test_new_names_have_the_required_form(
    catalog: ApiClient, create_table: CreateTable, manage: ApiClient, create_rule: CreateRule, soft_delete: int
) -> None:
    create_table("Old")
    create_rule("naming", {"table": ["[a-z_]+"], "namespace": ["[a-z]+"], "column": ["[a-z]+"]})
    new = {"name": "T1", "schema": {"type": "struct", "fields": [ID, NAME | {"name": "Name"}]}}
    table, column = "the name 'T1' must match [a-z_]+", "the name of column 'Name' must match [a-z]+"
    assert rejected(catalog.post("/namespaces/ns/tables", new), table, column)
    assert rejected(catalog.post("/namespaces/ns/tables", new | {"stage-create": True}), table, column)
    assert rejected(catalog.post("/namespaces", {"namespace": ["ns", "X1"]}), "the name 'X1' must match [a-z]+")
    source = {"namespace": ["ns"], "name": "Old"}
    assert rejected(
        catalog.post("/tables/rename", {"source": source, "destination": source | {"name": "Older"}}),
        "the name 'Older' must match [a-z_]+",
    )
    assert commit(catalog, set_properties(a="b"), table="Old").status == 200
    uuid = catalog.get("/namespaces/ns/tables/Old").json()["metadata"]["table-uuid"]
    assert catalog.delete("/namespaces/ns/tables/Old").status == 204
    undrop = {"targets": [{"type": "table", "id": uuid}]}
    assert rejected(manage.post("/deleted-tabulars/undrop", undrop), "the name 'Old' must match [a-z_]+")


def test_only_new_column_names_matter(catalog: ApiClient, create_table: CreateTable, create_rule: CreateRule) -> None:
    create_table("t", schema={"type": "struct", "fields": [ID, NAME | {"name": "Name"}]})
    create_rule("naming", {"column": ["[a-z]+"]})
    old = NAME | {"name": "Name"}
    assert with_columns(catalog, ID, old, {"id": 3, "name": "more", "type": "int", "required": False}).status == 200
    nested = {"id": 4, "name": "s", "required": False, "type": {"type": "struct", "fields": [
        {"id": 5, "name": "Inner", "type": "int", "required": False}]}}  # fmt: skip
    assert rejected(with_columns(catalog, ID, old, nested), "the name of column 'Inner' must match [a-z]+")


# --- retention-floor -------------------------------------------------------------------------------------------------

DAY = 86_400_000


@pytest.fixture
def with_snapshots(catalog: ApiClient, create_table: CreateTable) -> int:
    """A table `t` with the snapshots 1 (10 days old) to 4 (new), and the tag `kept` on 1; the present time."""
    at = now_ms()
    create_table("t")
    for number, age in ((1, 10), (2, 8), (3, 2), (4, 0)):
        added = snapshot(number, parent=number - 1 or None, sequence_number=number, at=at - age * DAY)
        main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
        response = commit(catalog, {"action": "add-snapshot", "snapshot": added}, main)
        assert response.status == 200, response.body
    tag = {"action": "set-snapshot-ref", "ref-name": "kept", "type": "tag", "snapshot-id": 1}
    assert commit(catalog, tag).status == 200
    return at


def expire(catalog: ApiClient, *ids: int) -> Response:
    return commit(catalog, {"action": "remove-snapshots", "snapshot-ids": list(ids)})


def test_young_snapshots_are_kept(catalog: ApiClient, with_snapshots: int, create_rule: CreateRule) -> None:
    create_rule("retention-floor", {"min-age-days": 7})
    assert rejected(expire(catalog, 2, 3), "snapshots younger than 7 days must be kept: 3")
    assert expire(catalog, 2).status == 200
    name = "history.expire.max-snapshot-age-ms"
    assert rejected(
        commit(catalog, set_properties(**{name: str(6 * DAY)})), f"the property {name} must be at least {7 * DAY}"
    )
    assert commit(catalog, set_properties(**{name: str(7 * DAY)})).status == 200


def test_the_last_snapshots_are_kept(catalog: ApiClient, with_snapshots: int, create_rule: CreateRule) -> None:
    create_rule("retention-floor", {"min-snapshots": 2})
    assert rejected(expire(catalog, 2, 3), "the last 2 snapshots must be kept: 3")
    assert expire(catalog, 2).status == 200
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 4}
    assert rejected(
        commit(catalog, ref | {"min-snapshots-to-keep": 1}),
        "min-snapshots-to-keep of the branch 'main' must be at least 2",
    )
    assert commit(catalog, ref | {"min-snapshots-to-keep": 2}).status == 200


def test_a_replacement_reads_what_it_replaces_when_a_rule_needs_it(
    catalog: ApiClient, with_snapshots: int, warehouse: Warehouse
) -> None:
    target = find_target(warehouse_id=warehouse.pk, identifier=Identifier(("ns",), "t"))
    assert target.current is not None
    with counting() as seen:
        change = propose_replacement(INTERNAL, target, target.current, {"snapshots": []})
    assert not seen
    with counting() as seen:
        removed = change.removed_snapshot_ids
        assert change.current is not None
    assert seen["statements"] == 1
    assert removed == [each["snapshot-id"] for each in change.current["snapshots"]] != []


def test_references_are_kept(catalog: ApiClient, with_snapshots: int, create_rule: CreateRule) -> None:
    create_rule("retention-floor", {"keep-refs": True})
    remove = {"action": "remove-snapshot-ref", "ref-name": "kept"}
    assert rejected(commit(catalog, remove), "the tag 'kept' must be kept")
    both = commit(catalog, remove, {"action": "remove-snapshots", "snapshot-ids": [1]})
    assert rejected(both, "snapshots that branches and tags refer to must be kept: 1", "the tag 'kept' must be kept")
    assert expire(catalog, 2, 3).status == 200


# --- configurations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "configuration", "message"),
    [
        ("nothing", {}, "kind: must be one of http-hook, naming, "),
        ("schema-compatibility", {}, "configuration.mode: field required"),
        ("schema-compatibility", {"mode": "sideways"}, "mode: input should be 'backward', 'forward' or 'full'"),
        ("schema-compatibility", {"mode": "full", "more": 1}, "configuration.more: extra inputs are not permitted"),
        ("protected", {}, "configuration: object-tag or column-tag is required"),
        ("required-properties", {"properties": {}}, "configuration.properties: dictionary should have at least 1 item"),
        ("required-properties", {"properties": {"a": ["("]}}, "configuration.properties.a.0: is not a pattern"),
        ("naming", {}, "configuration: at least one of table"),
        ("naming", {"table": []}, "configuration.table: list should have at least 1 item"),
        ("retention-floor", {}, "configuration: one of min-age-days"),
        ("retention-floor", {"min-age-days": "7"}, "configuration.min-age-days: input should be a valid integer"),
        ("http-hook", {}, "configuration.url: field required"),
        ("http-hook", {"url": "ftp://a.example.com"}, "configuration.url: must be an http or https address"),
        ("http-hook", {"url": "https://a.example.com", "timeout-seconds": 11}, "configuration.timeout-seconds"),
        ("naming", dict.fromkeys(["table", "view", "column", "namespace"], ["a" * 250] * 20), "larger than"),
    ],
)  # fmt: skip
def test_invalid_configurations(
    kind: str, configuration: dict[str, Any], message: str, create_rule: CreateRule
) -> None:
    with pytest.raises(InvalidRule, match=message):
        create_rule(kind, configuration)
