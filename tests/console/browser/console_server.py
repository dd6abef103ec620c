"""A server with grants, four kinds of users, and a catalog with hostile names for tests in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import requests
from playwright.sync_api import Browser, StorageState
from pyiceberg.catalog import load_catalog

from management.admin.accounts.user_ids import encode_user_id
from tests.parts.server import CatalogServer
from tests.workers.wait_fixtures import until

MARKUP = "<img src=x onerror=alert(1)>\"'</script>{{7*7}}"
HOSTILE_NAME = "a<b onclick=alert(1)>'\"&amp;"
SQL = f"-- {MARKUP}\nSELECT id FROM sales.orders.lines"
LEVEL_SEPARATOR = "\x1f"


class User(StrEnum):
    """Kinds of users, by their ids."""

    INSTANCE_ADMIN = "local~root"
    PROJECT_ADMIN = "local~lead"
    DATA_ENGINEER = "local~engineer"
    WITHOUT_GRANTS = "local~guest"


class ConsoleServer(CatalogServer):
    """`fill` creates the catalog; `ids` are those of its objects. `further` are more settings."""

    def __init__(self, home: Path, *, database_url: str | None, further: Mapping[str, str]) -> None:
        settings = {
            "LAKEKEEPER__AUTHZ_BACKEND": "builtin",
            "ICEKEEPER__ACCESS_TOKENS": "true",
            "ICEKEEPER__CONSOLE__LOCAL_ACCOUNTS": "true",
            "ICEKEEPER__CONSOLE__ENVIRONMENT": "staging",
            "LAKEKEEPER__INSTANCE_ADMINS": f"[{User.INSTANCE_ADMIN}]",
            **further,
        }
        super().__init__(home, database_url=database_url, settings=settings)
        self.ids: dict[str, str] = {}
        self._tokens: dict[User, str] = {}
        self._states: dict[User, StorageState] = {}

    def fill(self) -> None:
        self.create_warehouse("lake", token=self._token_of_operator())
        self._set_soft_delete()
        self._create_objects()
        self._create_accounts()
        self._create_event_sink()
        self._create_change_rule()
        self._grant("project", {"user": User.PROJECT_ADMIN.value, "type": "project_admin"})
        self._grant(f"namespace/{self.ids['sales']}", {"user": User.DATA_ENGINEER.value, "type": "select"})

    def token(self, user: User) -> str:
        if user not in self._tokens:
            self._tokens[user] = self.manage("create_token", "--user", user.value, "--create-user").strip()
        return self._tokens[user]

    def call(self, method: str, path: str, user: User, **body: Any) -> requests.Response:
        """Call an API as a user."""
        return requests.request(
            method, self.base_url + path, json=body or None, timeout=30,
            headers={"Authorization": f"Bearer {self.token(user)}"},
        )  # fmt: skip

    def add_warehouse(self, name: str, body: Mapping[str, Any]) -> str:
        """Create another warehouse of the project, which all tests but one ignore, and return its id."""
        created = self._create(f"{self.base_url}/management/v1/warehouse", {"warehouse-name": name, **body})
        warehouse_id: str = created["warehouse-id"]
        return warehouse_id

    def add_namespaces(self, parent: str, names: Iterable[str]) -> None:
        """Create a namespace with others in it. The operator does, so that no list of changes has other users more."""
        address = f"{self.base_url}/catalog/v1/{self.warehouse_id}/namespaces"
        for levels in ([parent], *([parent, name] for name in names)):
            self._create(address, {"namespace": levels})

    def drop_namespace(self, name: str) -> None:
        address = f"{self.base_url}/catalog/v1/{self.warehouse_id}/namespaces/{quote(name, safe='')}"
        dropped = requests.delete(f"{address}?recursive=true&force=true", headers=self._operator, timeout=30)
        assert dropped.ok, dropped.text

    def register(self, token: str) -> None:
        """Create the user of a token of the identity provider."""
        headers = {"Authorization": f"Bearer {token}"}
        requests.post(f"{self.base_url}/management/v1/user", json={}, headers=headers, timeout=30).raise_for_status()

    def grant_to_caller(self, token: str, path: str, privilege: str) -> None:
        """Grant a privilege on an object to the user of a token."""
        headers = {"Authorization": f"Bearer {token}"}
        caller = requests.get(f"{self.base_url}/management/v1/whoami", headers=headers, timeout=30).json()["id"]
        self._grant(path, {"user": caller, "type": privilege})

    def one_time_address(self, user: User) -> str:
        self.token(user)  # creates the user
        written = self.manage("sign_in_address", "--user", user.value)
        found = re.search(r"https?://\S+", written)
        assert found is not None, written
        return self.base_url + "/ui/" + found[0].partition("/ui/")[2]

    def signed_in(self, user: User, browser: Browser) -> StorageState:
        """Return the cookies of a session of the user, which all tests share."""
        if user not in self._states:
            context = browser.new_context()
            page = context.new_page()
            page.goto(self.one_time_address(user))
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/ui/**")
            self._states[user] = context.storage_state()
            context.close()
        return self._states[user]

    def _token_of_operator(self) -> str:
        """Return a token of a user with all permissions on the server."""
        token = self.manage("create_token", "--user", "local~operator", "--create-user").strip()
        self.manage("bootstrap", "--admin", "local~operator", "--operator")
        self._operator = {"Authorization": f"Bearer {token}"}
        return token

    def _create_objects(self) -> None:
        catalog = load_catalog(
            "lake", type="rest", uri=self.uri, warehouse="lake",
            token=self._operator["Authorization"].removeprefix("Bearer "),
        )  # fmt: skip
        catalog.create_namespace("sales", {"owner": MARKUP})
        catalog.create_namespace(("sales", "orders"))
        catalog.create_namespace(HOSTILE_NAME)
        rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), HOSTILE_NAME: ["Rome", "Oslo", "Lima"]})
        table = catalog.create_table(("sales", "orders", "lines"), rows.schema, properties={"comment": MARKUP})
        table.append(rows)
        table.append(rows)
        with table.update_schema() as change:
            change.rename_column(HOSTILE_NAME, "city")
        snapshots = table.snapshots()
        table.manage_snapshots().create_branch(snapshots[0].snapshot_id, "fix").create_tag(
            snapshots[0].snapshot_id, "start"
        ).commit()
        catalog.create_table((HOSTILE_NAME, HOSTILE_NAME), rows.schema)
        catalog.create_table(("sales", "old"), rows.schema)
        catalog.drop_table(("sales", "old"))
        self._create_view_and_generic_table()
        self._read_ids()

    def _create_view_and_generic_table(self) -> None:
        prefix = f"{self.base_url}/catalog/v1/{self.warehouse_id}/namespaces/sales"
        schema = {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
        }
        version = {
            "version-id": 1,
            "timestamp-ms": 1_700_000_000_000,
            "schema-id": 0,
            "summary": {"engine-name": MARKUP},
            "default-namespace": ["sales"],
            "representations": [{"type": "sql", "sql": SQL, "dialect": "spark"}],
        }
        body = {"name": "recent", "schema": schema, "view-version": version, "properties": {"comment": MARKUP}}
        self._create(f"{prefix}/views", body)
        sql = f"SELECT id\n  FROM lines JOIN finance.ledger\n  JOIN `{MARKUP}`"  # noqa: S608 - executed nowhere
        representations = [{"type": "sql", "sql": sql, "dialect": "spark"}]
        changed = version | {"version-id": 2, "schema-id": -1, "representations": representations}
        updates = [
            {"action": "add-schema", "schema": schema | {"fields": []}},
            {"action": "add-view-version", "view-version": changed},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        self._create(f"{prefix}/views/recent", {"requirements": [], "updates": updates})
        prefix = f"{self.base_url}/lakekeeper/v1/{self.warehouse_id}/namespaces/sales"
        self._create(f"{prefix}/generic-tables", {"name": "invoices", "format": "lance", "doc": MARKUP})

    def _create_accounts(self) -> None:
        """Create a role with members, a user, a service account with a token, and a tag, all with hostile names."""
        base = f"{self.base_url}/management/v1"
        text = {"name": MARKUP, "description": f"{MARKUP}\nsecond line"}
        user = {"id": f"oidc~{HOSTILE_NAME}/../x", "name": MARKUP, "email": MARKUP, "user-type": "human"}
        self._create(f"{base}/user", user)
        role, inner = (self._create(f"{base}/role", text | {"name": name})["id"] for name in (MARKUP, HOSTILE_NAME))
        members = [{"type": "user", "id": user["id"]}, {"type": "role", "id": inner}]
        self._create(f"{base}/role/{role}/members", {"members": members})
        account = self._create(f"{base}/service-account", text)["id"]
        token = self._create(f"{base}/token", {"name": MARKUP, "user-id": account})["id"]
        values = {"value-kind": "enumerated", "allowed-values": [MARKUP], "scope": ["table"]}
        tag = self._create(f"{base}/tag-definition", text | values | {"name": HOSTILE_NAME})["id"]
        table = f"{base}/warehouse/{self.warehouse_id}/table/{self.ids['table']}"
        attached = requests.put(
            f"{table}/tags/{quote(HOSTILE_NAME, safe='')}", json={"value": MARKUP}, headers=self._operator, timeout=30
        )
        assert attached.ok, attached.text
        account_id = account.partition("~")[2]
        segment = encode_user_id(user["id"])
        self.ids |= {"role": role, "user": segment, "service account": account_id, "token": token, "tag": tag}

    def _create_event_sink(self) -> None:
        """Create a sink with hostile texts, which is paused, and skip an event of the warehouse."""
        base = f"{self.base_url}/management/v1/event-sinks"
        configuration = {"type": "webhook", "url": "http://127.0.0.1:9/hook", "headers": {"Authorization": MARKUP}}
        sink = {
            "name": MARKUP, "configuration": configuration, "is-paused": True, "start": {"from": "earliest"},
            "filter": {"warehouses": [self.warehouse_id], "namespaces": [[HOSTILE_NAME]]},
        }  # fmt: skip
        self.ids["sink"] = self._create(base, sink)["id"]
        address = f"{base}/{self.ids['sink']}/skip"
        skipped = until(lambda: self._skipped(address))
        self.ids |= {"letter": str(skipped["position"]), "event": str(skipped["position"])}

    def _create_change_rule(self) -> None:
        """Create a rule with hostile texts, and a finding about a table that is not created."""
        rule = {
            "scope": {"type": "namespace", "id": self.ids["sales"], "warehouse-id": self.warehouse_id},
            "name": MARKUP, "kind": "required-properties", "configuration": {"properties": {MARKUP: None}},
            "mode": "dry-run",
        }  # fmt: skip
        self.ids["rule"] = self._create(f"{self.base_url}/management/v1/change-rules", rule)["id"]
        orders = quote(LEVEL_SEPARATOR.join(("sales", "orders")), safe="")
        staged = {"name": HOSTILE_NAME, "schema": {"type": "struct", "fields": []}, "stage-create": True}
        self._create(f"{self.base_url}/catalog/v1/{self.warehouse_id}/namespaces/{orders}/tables", staged)

    def _skipped(self, address: str) -> dict[str, Any] | None:
        """Return the dead letter of the next event; None while no event is published."""
        response = requests.post(address, headers=self._operator, timeout=30)
        if response.status_code == HTTPStatus.CONFLICT:
            return None
        assert response.ok, response.text
        skipped: dict[str, Any] = response.json()
        return skipped

    def _create(self, address: str, body: dict[str, Any]) -> Any:
        created = requests.post(address, json=body, headers=self._operator, timeout=30)
        assert created.ok, created.text
        return created.json() if created.content else None

    def _read_ids(self) -> None:
        base = f"/catalog/v1/{self.warehouse_id}/namespaces"
        self.ids["warehouse"] = self.warehouse_id
        self.ids["project"] = self._get("/management/v1/project-list")["projects"][0]["project-id"]
        for parent, names in ((None, ("sales", HOSTILE_NAME)), ("sales", ("orders",))):
            query = "?returnUuids=true&pageToken=" + ("" if parent is None else f"&parent={parent}")
            found = self._get(f"{base}{query}")
            for levels, uuid in zip(found["namespaces"], found["namespace-uuids"], strict=True):
                if levels[-1] in names:
                    self.ids[levels[-1]] = uuid
        orders = quote(LEVEL_SEPARATOR.join(("sales", "orders")), safe="")
        self.ids["table"] = self._get(f"{base}/{orders}/tables?returnUuids=true&pageToken=")["table-uuids"][0]
        hostile = quote(HOSTILE_NAME, safe="")
        self.ids["hostile table"] = self._get(f"{base}/{hostile}/tables?returnUuids=true&pageToken=")["table-uuids"][0]
        self.ids["view"] = self._get(f"{base}/sales/views?returnUuids=true&pageToken=")["table-uuids"][0]
        generic = self._get(f"/lakekeeper/v1/{self.warehouse_id}/namespaces/sales/generic-tables")
        self.ids["generic table"] = generic["identifiers"][0]["id"]
        self.ids["task"] = self._list_tasks()[0]["task-id"]

    def _list_tasks(self) -> list[dict[str, Any]]:
        address = f"{self.base_url}/management/v1/warehouse/{self.warehouse_id}/task/list"
        found = requests.post(address, json={}, headers=self._operator, timeout=30)
        assert found.ok, found.text
        tasks: list[dict[str, Any]] = found.json()["tasks"]
        return tasks

    def _get(self, path: str) -> dict[str, Any]:
        found = requests.get(self.base_url + path, headers=self._operator, timeout=30)
        assert found.ok, found.text
        content: dict[str, Any] = found.json()
        return content

    def _set_soft_delete(self) -> None:
        profile = {"delete-profile": {"type": "soft", "expiration-seconds": 3600}}
        address = f"{self.base_url}/management/v1/warehouse/{self.warehouse_id}/delete-profile"
        changed = requests.post(address, json=profile, headers=self._operator, timeout=30)
        assert changed.ok, changed.text

    def _grant(self, path: str, write: dict[str, str]) -> None:
        for user in User:
            self.token(user)  # creates the users
        address = f"{self.base_url}/management/v1/permissions/{path}/assignments"
        granted = requests.post(address, json={"writes": [write], "deletes": []}, headers=self._operator, timeout=30)
        assert granted.ok, granted.text
