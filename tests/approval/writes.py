"""Every write about which rules are asked, by the route that it is sent to, and a warehouse for these writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from storage.models import Warehouse
from tasks.models import Task
from tests.authz.view_owner_fixtures import VIEW
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.wsgi_client import ApiClient, Response, call

T, NS_T = "/namespaces/ns/tables/t", {"namespace": ["ns"], "name": "t"}
NS_U = NS_T | {"name": "u"}
SET = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}

CATALOG: Final = "/catalog/v1/{prefix}"
GENERIC: Final = "/lakekeeper/v1/{prefix}"
WAREHOUSE: Final = "/management/v1/warehouse/{warehouse_id}"
_NAMESPACE: Final = f"{CATALOG}/namespaces/{{namespace}}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"
_VIEW: Final = f"{_NAMESPACE}/views/{{view}}"
_GENERIC_TABLES: Final = f"{GENERIC}/namespaces/{{namespace}}/generic-tables"


class Lake:
    """A table `t`, a view `v`, a generic table `g`, a staged table and a dropped table that can be restored, in `ns`.

    `expiration` is the id of the task that deletes the dropped table for good.
    `unregistered` are locations of metadata files, of a table and of a view, that belong to no object of the catalog.
    `names` are the values of the parameters in routes.
    """

    def __init__(
        self, warehouse: Warehouse, generic: ApiClient, manage: ApiClient, create_table: Callable[..., dict[str, Any]]
    ) -> None:
        self.catalog, self.generic, self.manage = ApiClient(f"/catalog/v1/{warehouse.pk}"), generic, manage
        catalog = self.catalog
        self.table = create_table("t")["metadata"]
        self.dropped = create_table("dropped")["metadata"]["table-uuid"]
        assert catalog.delete("/namespaces/ns/tables/dropped").status == 204
        self.expiration = str(Task.objects.live().get(queue=Task.Queue.SOFT_DELETION).pk)
        view = catalog.post("/namespaces/ns/views", VIEW | {"name": "v"})
        assert view.status == 200
        assert generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).status == 200
        assert catalog.post("/namespaces", {"namespace": ["ns", "empty"]}).status == 200
        staged = catalog.post("/namespaces/ns/tables", {"name": "staged", "schema": SCHEMA, "stage-create": True})
        self.staged = staged.json()["metadata"]
        self.unregistered = {
            "table": _write_as_other_catalog(warehouse, "table-uuid", self.table),
            "view": _write_as_other_catalog(warehouse, "view-uuid", view.json()["metadata"]),
        }
        empty = catalog.get("/namespaces/ns%1Fempty").json()["properties"]
        self.names = {
            "prefix": str(warehouse.pk), "warehouse_id": str(warehouse.pk), "namespace": "ns", "table": "t",
            "view": "v", "namespace_id": empty["namespace_id"],
        }  # fmt: skip

    def send(self, write: Write) -> Response:
        method, template = write.route.split(" ")
        target = template.format(**{**self.names, **write.names}) + write.query
        return call(method, target, body=json.dumps(write.body(self)).encode())


def _write_as_other_catalog(warehouse: Warehouse, uuid_member: str, metadata: dict[str, Any]) -> str:
    """Write a metadata file with a UUID and a location of its own, and return where it is."""
    uuid = str(uuid4())
    location = f"{warehouse.location}/other-catalog/{uuid}"
    file = f"{location}/metadata/00000-{uuid}.metadata.json"
    path = Path(file.removeprefix("file://"))
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(metadata | {uuid_member: uuid, "location": location}))
    return file


@dataclass(frozen=True)
class Write:
    """A request, and the change about which rules are asked first.

    `route` is method and path as in the OpenAPI documents. The request is sent to this path, with `names` or else the
    names of the `Lake` as its parameters: so a write cannot state another route than the one that it tests.
    """

    action: str
    object_type: str
    route: str
    body: Callable[[Lake], Any] = lambda _: None
    query: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


WRITES: Final[dict[str, Write]] = {
    "create a table": Write(
        "create", "table", f"POST {_NAMESPACE}/tables", lambda _: {"name": "n", "schema": SCHEMA}
    ),
    "stage a table": Write(
        "stage", "table", f"POST {_NAMESPACE}/tables",
        lambda _: {"name": "n", "schema": SCHEMA, "stage-create": True},
    ),
    "finish a staged table": Write(
        "create", "table", f"POST {_TABLE}",
        lambda lake: {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(lake.staged)},
        names={"table": "staged"},
    ),
    "register a table": Write(
        "register", "table", f"POST {_NAMESPACE}/register",
        lambda lake: {"name": "n", "metadata-location": lake.unregistered["table"]},
    ),
    "replace a table by registration": Write(
        "register", "table", f"POST {_NAMESPACE}/register",
        lambda lake: {"name": "t", "metadata-location": lake.unregistered["table"], "overwrite": True},
    ),
    "commit": Write("commit", "table", f"POST {_TABLE}", lambda _: SET),
    "commit a transaction": Write(
        "commit", "table", f"POST {CATALOG}/transactions/commit",
        lambda _: {"table-changes": [{"identifier": NS_T, **SET}]},
    ),
    "drop a table": Write("drop", "table", f"DELETE {_TABLE}"),
    "drop a table for good": Write("drop", "table", f"DELETE {_TABLE}", query="?force=true&purgeRequested=true"),
    "unregister a table": Write("drop", "table", f"POST {_TABLE}/unregister"),
    "rename a table": Write(
        "rename", "table", f"POST {CATALOG}/tables/rename", lambda _: {"source": NS_T, "destination": NS_U}
    ),
    "create a view": Write("create", "view", f"POST {_NAMESPACE}/views", lambda _: VIEW | {"name": "n"}),
    "register a view": Write(
        "register", "view", f"POST {_NAMESPACE}/register-view",
        lambda lake: {"name": "w", "metadata-location": lake.unregistered["view"]},
    ),
    "replace a view": Write("commit", "view", f"POST {_VIEW}", lambda _: SET),
    "drop a view": Write("drop", "view", f"DELETE {_VIEW}"),
    "rename a view": Write(
        "rename", "view", f"POST {CATALOG}/views/rename",
        lambda _: {"source": NS_T | {"name": "v"}, "destination": NS_T | {"name": "w"}},
    ),
    "create a generic table": Write(
        "create", "generic-table", f"POST {_GENERIC_TABLES}", lambda _: {"name": "n", "format": "lance"}
    ),
    "drop a generic table": Write(
        "drop", "generic-table", f"DELETE {_GENERIC_TABLES}/{{table}}", names={"table": "g"}
    ),
    "rename a generic table": Write(
        "rename", "generic-table", f"POST {GENERIC}/generic-tables/rename",
        lambda _: {"source": NS_T | {"name": "g"}, "destination": NS_T | {"name": "h"}},
    ),
    "create a namespace": Write("create", "namespace", f"POST {CATALOG}/namespaces", lambda _: {"namespace": ["n"]}),
    "update a namespace": Write(
        "update-properties", "namespace", f"POST {_NAMESPACE}/properties", lambda _: {"updates": {"a": "b"}}
    ),
    "drop a namespace": Write("drop", "namespace", f"DELETE {_NAMESPACE}", names={"namespace": "ns%1Fempty"}),
    "drop a namespace with everything": Write(
        "drop", "namespace", f"DELETE {_NAMESPACE}", query="?recursive=true&force=true"
    ),
    "move a namespace": Write(
        "rename", "namespace", f"POST {WAREHOUSE}/namespace/{{namespace_id}}/move",
        lambda _: {"destination": ["moved"]},
    ),
    "undrop": Write(
        "undrop", "table", f"POST {WAREHOUSE}/deleted-tabulars/undrop",
        lambda lake: {"targets": [{"type": "table", "id": lake.dropped}]},
    ),
    "cancel an expiration": Write(
        "undrop", "table", f"POST {WAREHOUSE}/task/control",
        lambda lake: {"action": {"action-type": "cancel"}, "task-ids": [lake.expiration]},
    ),
}  # fmt: skip
"""Writes by what they do. Routes that are in none of them: `test_every_write_route.py`."""
