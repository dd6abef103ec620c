"""Changes of which the other stories have no event, by the real services."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from pydantic import SecretStr

from catalog.services.tables.staging import release_staged_location
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.ids import new_id
from management.models import ConsoleSession
from management.sign_in.addresses import create_sign_in_address
from management.sign_in.local_accounts import set_password
from management.sign_in.sessions import end_session
from storage.io.local import LocalStore
from storage.models import Warehouse
from storage.secrets.database import DatabaseSecrets
from storage.secrets.port import SecretMissing
from storage.services import secret_maintenance
from tasks.models import Task
from tasks.queue.leases import lease_task
from tasks.workers.worker import Worker
from tenancy.actor import INTERNAL, Grantee
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.server import appoint_administrator, reopen_bootstrap, switch_maintenance
from tenancy.services.users import block_user, create_local_user, unblock_user
from tests.catalog_fixtures import SCHEMA
from tests.management.warehouse_request_fixtures import use_settings
from tests.openapi_examples.story import Story

BOB = "local~bob"


def play(story: Story) -> None:
    """Continue after the creation of a warehouse."""
    with pytest.MonkeyPatch.context() as changed:
        users()
        catalog = f"/catalog/v1/{Warehouse.objects.get().pk}"
        story.call("POST", f"{catalog}/namespaces", {"namespace": ["sales"]})
        staged_locations(story, catalog)
        drops(story, catalog)
        tasks(story, catalog)
        secrets(changed)
        server()


def users() -> None:
    create_local_user(actor=INTERNAL, user_id=BOB)
    appoint_administrator(actor=INTERNAL, user_id=BOB, is_operator=False)
    set_password(actor=INTERNAL, user_id=BOB, password="correct horse battery staple")
    create_sign_in_address(actor=INTERNAL, user_id=BOB, base_url="https://icekeeper.example.com")
    session = ConsoleSession(user_id=BOB, method=ConsoleSession.Method.PASSWORD, session_key="0" * 64)
    session.created_at = session.last_seen_at = session.expire_date = Warehouse.objects.get().created_at
    session.save(force_insert=True)
    end_session(actor=INTERNAL, session_id=session.pk)
    block_user(actor=INTERNAL, user_id=BOB)
    unblock_user(actor=INTERNAL, user_id=BOB)
    warehouse = ObjectRef(Securable.Type.WAREHOUSE, Warehouse.objects.get().pk)
    grants = [GrantSpec("select", Grantee(user_id=BOB))]
    for difference in (Difference(writes=grants), Difference(deletes=grants)):
        apply_grants(actor=INTERNAL, ref=warehouse, difference=difference, missing=NotFound("no warehouse"))


def staged_locations(story: Story, catalog: str) -> None:
    body = {"name": "staged", "schema": SCHEMA, "stage-create": True}
    staged = story.call("POST", f"{catalog}/namespaces/sales/tables", body)
    warehouse = Warehouse.objects.get()
    location = staged["metadata"]["location"]
    assert release_staged_location(actor=INTERNAL, warehouse_id=warehouse.pk, location=location)


def drops(story: Story, catalog: str) -> None:
    """Drop a table, a view and a generic table in a warehouse with soft deletion, and let them expire."""
    Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 3600})
    in_namespace = f"{catalog}/namespaces/sales"
    story.call("POST", f"{in_namespace}/tables", {"name": "orders", "schema": SCHEMA})
    version = {
        "version-id": 1, "timestamp-ms": 0, "schema-id": 0, "summary": {}, "default-namespace": ["sales"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }  # fmt: skip
    view = {"name": "totals", "schema": SCHEMA, "view-version": version, "properties": {}}
    story.call("POST", f"{in_namespace}/views", view)
    generic = in_namespace.replace("/catalog/", "/lakekeeper/")
    story.call("POST", f"{generic}/generic-tables", {"name": "vectors", "format": "lance"})
    story.call("DELETE", f"{in_namespace}/tables/orders")
    story.call("DELETE", f"{in_namespace}/views/totals")
    story.call("DELETE", f"{generic}/generic-tables/vectors")
    work()


def tasks(story: Story, catalog: str) -> None:
    """Let a task fail for good, and retry it; stop another one that runs."""
    Warehouse.objects.update(delete_profile={"type": "hard"})
    control = f"/management/v1/warehouse/{Warehouse.objects.get().pk}"
    story.call("POST", f"{control}/task-queue/tabular_purge/config", {"queue-config": {"max-retries": 0}})
    with patch.object(LocalStore, "delete_below", side_effect=OSError("no space left")):
        purge = purge_table(story, catalog, "returns")
        work()
    assert Task.objects.get(pk=purge).status == "failed"
    story.call("POST", f"{control}/task/control", {"task-ids": [str(purge)], "action": {"action-type": "retry"}})
    work()
    purge = purge_table(story, catalog, "visits")
    assert lease_task(purge) is not None
    story.call("POST", f"{control}/task/control", {"task-ids": [str(purge)], "action": {"action-type": "stop"}})


def purge_table(story: Story, catalog: str, name: str) -> UUID:
    """Create and purge a table; return the id of the task."""
    story.call("POST", f"{catalog}/namespaces/sales/tables", {"name": name, "schema": SCHEMA})
    story.call("DELETE", f"{catalog}/namespaces/sales/tables/{name}?purgeRequested=true")
    return Task.objects.get(queue="tabular_purge", finished_at=None).pk


def work() -> None:
    """Run every task that waits, due or not."""
    worker = Worker(poll_interval=60)
    for _ in range(10):
        Task.objects.live().update(scheduled_for=now())
        worker.work()


def secrets(changed: pytest.MonkeyPatch) -> None:
    use_settings(changed, pg_encryption_key=SecretStr("new text"), pg_encryption_old_keys=[SecretStr("old text")])
    DatabaseSecrets(["old text"]).put(new_id(), {"secret": "x"})
    secret_maintenance.rotate_encryption_key(actor=INTERNAL, progress=lambda _: None)
    secret_id = new_id()
    Warehouse.objects.update(secret_id=secret_id)
    former, chosen = MemorySecrets(), MemorySecrets()
    former.put(secret_id, {"secret": "x"})
    changed.setattr(secret_maintenance, "secret_stores", lambda: [chosen, former])
    secret_maintenance.move_secrets(actor=INTERNAL, progress=lambda _: None)
    Warehouse.objects.update(secret_id=None)


class MemorySecrets(dict[UUID, dict[str, Any]]):
    """A store of secrets in memory."""

    def put(self, secret_id: UUID, document: dict[str, Any]) -> None:
        self[secret_id] = document

    def get(self, secret_id: UUID) -> dict[str, Any]:  # type: ignore[override]
        if secret_id not in self:
            raise SecretMissing(f"no secret {secret_id}")
        return self[secret_id]

    def delete(self, secret_id: UUID) -> None:
        self.pop(secret_id, None)

    def ids(self) -> list[UUID]:
        return list(self)


def server() -> None:
    switch_maintenance(actor=INTERNAL, is_on=True)
    switch_maintenance(actor=INTERNAL, is_on=False)
    reopen_bootstrap(actor=INTERNAL)
