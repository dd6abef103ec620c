"""Ids of existing objects for the management API, by the names of the parameters in paths, queries and bodies that
take them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.models import Warehouse
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response

Locations = dict[str, list[str]]
Connect = Callable[[str], ApiClient]
"""Returns a client of the caller below a path."""

CALLER = "ann"
"""Who sends everything: the token of `oidc~ann`, who is known."""

CREATED_BY = {
    "POST /management/v1/project": ("project-id", "project_id"),
    "POST /management/v1/warehouse": ("id", "warehouse_id"),
    "POST /management/v1/user": ("id", "user_id"),
    "POST /management/v1/role": ("id", "role_id"),
    "POST /management/v1/token": ("id", "token_id"),
    "POST /management/v1/tag-definition": ("id", "tag_definition_id"),
    "POST /management/v1/service-account": ("id", "account_id"),
}
"""The member of its response with the id of the created object, and the parameter that takes it."""


def find_locations(connect: Connect, warehouse: Warehouse, root: Path) -> Locations:
    """Create two objects of each kind, one in use and one not, a generic table, and a dropped table that awaits its
    expiry.
    """
    here = str(warehouse.pk)
    api, catalog, lakekeeper = (
        connect(base) for base in ("/management/v1", f"/catalog/v1/{here}", f"/lakekeeper/v1/{here}")
    )

    def done(target: str, body: Any) -> Any:
        response = api.post(target, body)
        assert response.status in {200, 201, 204}, response.body
        return response.json() if response.body else {}

    user = done("/user", {"id": "oidc~bob", "name": "Bob", "user-type": "human"})["id"]
    role, inner = (done("/role", {"name": name})["id"] for name in ("analysts", "interns"))
    members = [{"type": "user", "id": user}, {"type": "role", "id": inner}]
    done(f"/role/{role}/members", {"members": members})
    project = done("/project", {"project-name": "spare", "project-id": "spare"})["project-id"]
    profile = {"type": "local", "path": str(root / "spare")}
    spare = done("/warehouse", {"warehouse-name": "spare", "storage-profile": profile})["id"]
    account = done("/service-account", {"name": "nightly"})["id"]
    tokens = [done("/token", {"name": "laptop"}), done("/token", {"name": "secret", "user-id": account})]
    namespaces = [
        catalog.get(f"/namespaces/{name}?returnUuid=true").json()["namespace-uuid"] for name in ("ns", "empty")
    ]
    assert lakekeeper.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).status == 200
    generic_tables = lakekeeper.get("/namespaces/ns/generic-tables").json()["identifiers"]
    tables = catalog.get("/namespaces/ns/tables?returnUuids=true").json()["table-uuids"]
    views = catalog.get("/namespaces/ns/views?returnUuids=true").json()["table-uuids"]
    everything = ["warehouse", "namespace", "table", "view", "generic-table", "column"]
    free, values = {"value-kind": "free-text"}, {"value-kind": "enumerated", "allowed-values": ["low", "high"]}
    tags = [
        done("/tag-definition", {"name": name, "scope": everything, **kind})["id"]
        for name, kind in (("steward", free), ("sensitivity", values))
    ]
    assert api.put(f"/warehouse/{here}/table/{tables[0]}/tags/steward", {"value": "ann"}).status == 200
    return {
        "warehouse_id": [here, here, here, spare],  # the other ids are those of objects in it
        "project_id": [str(warehouse.project_id), project],
        "user_id": [f"oidc~{CALLER}", user],
        "role_id": [role, inner],
        "user": [f"oidc~{CALLER}", user],
        "role": [role, inner],
        "principal_user": [f"oidc~{CALLER}", user],
        "principal_role": [role, inner],
        "member_type": ["user", "role"],
        "member_id": [user, inner],
        "token_id": [each["id"] for each in tokens],
        "client_id": ["", f"oidc~{CALLER}", account],
        "client_secret": [each["token"] for each in tokens],
        "subject_token": [each["token"] for each in tokens],
        "account_id": [account],
        "namespace_id": namespaces,
        "table_id": tables,
        "view_id": views,
        "generic_table_id": [each["id"] for each in generic_tables],
        "tag_definition_id": tags,
        "tag_name": ["steward", "sensitivity"],
        "column_name": ["id", "name"],
        "value": ["low", "high", "ann"],
        "id": [user, role, inner, _dropped(api, catalog, here)],
        "search": ["t", "bob", "analysts", tables[0]],
        "new-name": ["new"],
        "project-name": ["other"],
        "bucket": ["a-bucket"],
        "filesystem": ["a-filesystem"],
        "source-id": ["analyst"],
        "warehouse-status": ["active", "inactive"],
    }


def _dropped(api: ApiClient, catalog: ApiClient, warehouse_id: str) -> str:
    """Return the id of a dropped table that can be restored."""
    change = f"/warehouse/{warehouse_id}/delete-profile"
    assert catalog.post("/namespaces/ns/tables", {"name": "dropped", "schema": SCHEMA}).status == 200
    for profile, drops in (({"type": "soft", "expiration-seconds": 3600}, True), ({"type": "hard"}, False)):
        assert api.post(change, {"delete-profile": profile}).status == 200
        if drops:
            assert catalog.delete("/namespaces/ns/tables/dropped").status == 204
    (found,) = api.get(f"/warehouse/{warehouse_id}/deleted-tabulars").json()["tabulars"]
    dropped: str = found["id"]
    return dropped


def locations_after(locations: Locations, operation: str, response: Response) -> Locations:
    """Return the ids together with that of the object that `operation` (method and path) created, if any."""
    member, location = CREATED_BY.get(operation, (None, ""))
    if member is None or response.status >= 300:
        return locations
    created = response.json()[member]
    return locations | {location: [*locations[location], created], "id": [*locations["id"], created]}
