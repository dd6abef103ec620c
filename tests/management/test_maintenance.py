"""Maintenance mode, by setting and by switch: changes are rejected, reads continue, background writers pause."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.urls import resolve

from catalog.models import IdempotencyRecord
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from management import health
from management.openapi.documents import APIS
from storage.io.local import LocalStore
from tasks.models import Task
from tasks.workers.worker import Worker
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.models import Server
from tenancy.services.server import switch_maintenance
from tests.harness.fingerprint import Fingerprint
from tests.harness.openapi_documents import built_document
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient, call
from tests.token_fixtures import TokenClient

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(300), pytest.mark.both_databases]

CHANGES = ("post", "put", "patch", "delete")


@pytest.fixture(autouse=True)
def switched_back() -> Iterator[None]:
    yield
    maintenance.switch.is_on = False


@pytest.fixture
def read_only_setting(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def set_it() -> None:
        own = settings.ICEKEEPER.model_copy(update={"maintenance_mode": "read-only"})
        monkeypatch.setattr(settings, "ICEKEEPER", own)

    return set_it


@pytest.fixture(params=["setting", "switch"])
def close(request: pytest.FixtureRequest, read_only_setting: Callable[[], None]) -> Callable[[], None]:
    """Enable maintenance mode, by setting or by switch."""

    def switch() -> None:
        switch_maintenance(actor=INTERNAL, is_on=True)

    return read_only_setting if request.param == "setting" else switch


def changing_operations() -> list[tuple[str, str]]:
    """Return every operation whose method is not a read, by method and path."""
    return sorted(
        (method.upper(), re.sub(r"\{[^}]+\}", "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44", path))
        for name in APIS
        for path, item in built_document(name).content["paths"].items()
        for method in item
        if method in CHANGES
    )


def changes_nothing(path: str) -> bool:
    """Return whether the view declares that its POST only reads."""
    view: Any = resolve(path).func
    action = getattr(view, "actions", {}).get("post")
    return getattr(view.cls, "posts_read", False) or action in getattr(view.cls, "reading_actions", ())


def test_every_change_is_refused_and_every_read_served(
    catalog: ApiClient,
    create_table: Callable[..., Any],
    everything: Callable[[], Fingerprint],
    close: Callable[[], None],
) -> None:
    create_table()
    close()
    before = everything()
    reading = set()
    for method, path in changing_operations():
        response = call(method, path, body=b"{}", headers={"idempotency-key": str(new_id())})
        if method == "POST" and changes_nothing(path):
            reading.add(path)
            assert response.status != 503, response.body
        else:
            assert response.refused(503, "MaintenanceModeError"), (method, path)
            assert response.headers["Retry-After"] == "60"
    assert "/management/v1/endpoint-statistics" in reading
    assert catalog.get("/namespaces/ns/tables/t").status == 200
    assert catalog.head("/namespaces/ns/tables/t").status == 204
    assert call("GET", "/management/v1/info").status == 200
    counted = call("POST", "/management/v1/endpoint-statistics", body=b'{"warehouse": {"type": "all"}}')
    assert counted.status == 200, counted.body
    assert everything() == before
    assert not IdempotencyRecord.objects.exists()


def test_the_switch_is_switched(catalog: ApiClient) -> None:
    assert switch_maintenance(actor=INTERNAL, is_on=True) is True
    assert switch_maintenance(actor=INTERNAL, is_on=True) is False
    assert Server.objects.get().is_read_only is True
    assert catalog.post("/namespaces", {"namespace": ["a"]}).refused(503, "MaintenanceModeError")
    assert switch_maintenance(actor=INTERNAL, is_on=False) is True
    assert catalog.post("/namespaces", {"namespace": ["a"]}).status == 200


def test_client_errors_do_not_fill_the_log_with_errors(
    close: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    close()
    with caplog.at_level("INFO"):
        assert call("POST", "/management/v1/bootstrap", body=b"{}").refused(503, "MaintenanceModeError")
    [line] = [record for record in caplog.records if record.name != "icekeeper.maintenance"]
    assert (line.name, line.levelname) == ("icekeeper.access", "INFO")
    assert line.__dict__["error_type"] == "MaintenanceModeError"


def test_health_reports_it(close: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_database_checks", lambda: (health.DatabaseCheck("default", 10.0),))
    assert call("GET", "/health").json()["maintenance_mode"] == "off"
    close()
    response = call("GET", "/health")
    assert (response.status, response.json()["maintenance_mode"]) == (200, "read-only")
    assert call("GET", "/health/ready").status == 200, "the server still accepts reads"


def test_another_process_sees_it_when_it_looks() -> None:
    Server.objects.update(is_read_only=True)
    assert maintenance.mode() == "off"
    assert maintenance.switch.refresh() is True
    assert maintenance.switch.refresh() is False
    assert maintenance.mode() == "read-only"
    Server.objects.update(is_read_only=False)
    assert maintenance.switch.refresh() is True
    assert maintenance.mode() == "off"


def test_while_unreadable_the_epoch_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("away")

    maintenance.switch.is_on = True
    monkeypatch.setattr(maintenance, "fetch_one", away)
    monkeypatch.setattr(maintenance.switch, "_read_at", float("-inf"))
    assert maintenance.is_read_only_now()
    assert maintenance.is_read_only()


def test_a_worker_reads_the_switch_when_it_is_not_fresh(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(maintenance.switch, "_read_at", float("-inf"))
    assert not maintenance.is_read_only_now()
    Server.objects.update(is_read_only=True)
    with counting() as seen:
        assert not maintenance.is_read_only_now(), "read a moment ago"
    assert seen["statements"] == 0
    monkeypatch.setattr(maintenance.switch, "_read_at", maintenance.switch._read_at - maintenance.MAX_AGE_SECONDS)
    with counting() as seen:
        assert maintenance.is_read_only_now()
    assert seen["statements"] == 1
    assert [record.getMessage() for record in caplog.records] == ["maintenance mode was switched on"]


def drop_with_purge(catalog: ApiClient, table: dict[str, Any]) -> Path:
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    return Path(table["metadata"]["location"].removeprefix("file://"))


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_worker_rests(
    catalog: ApiClient,
    create_table: Callable[..., Any],
    everything: Callable[[], Fingerprint],
    close: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = drop_with_purge(catalog, create_table())
    close()
    before = everything()
    worker = Worker(poll_interval=60)
    naps: list[float] = []

    def nap(seconds: float, _: object) -> bool:
        naps.append(seconds)
        if len(naps) == 3:
            worker.stop()
        return True

    monkeypatch.setattr(worker, "_wait", nap)
    worker.run()
    assert len(naps) == 3
    Worker(poll_interval=60).run_once()
    assert folder.exists()
    assert everything() == before


def test_a_task_at_hand_is_given_back_and_finished_afterwards(
    catalog: ApiClient, create_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = drop_with_purge(catalog, create_table())
    delete_below = LocalStore.delete_below

    def begin(store: LocalStore, location: str, checkpoint: Callable[[], object], *counted: Any) -> None:
        switch_maintenance(actor=INTERNAL, is_on=True)
        delete_below(store, location, checkpoint, *counted)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_below", begin)
        Worker(poll_interval=60).work()
    assert folder.exists()
    assert [task.status for task in Task.objects.live()] == ["scheduled"]
    switch_maintenance(actor=INTERNAL, is_on=False)
    Task.objects.live().update(scheduled_for=now())
    assert Worker(poll_interval=60).work()
    assert not folder.exists()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_the_command(monkeypatch: pytest.MonkeyPatch, read_only_setting: Callable[[], None]) -> None:
    soon = "every server and worker applies it within 3 s"
    assert run("maintenance", "status") == "Maintenance mode is off.\n"
    assert run("maintenance", "off") == "Maintenance mode is already off.\n"
    assert run("maintenance", "on") == f"Maintenance mode is on; {soon}.\n"
    maintenance.switch.is_on = False  # as in a new process
    assert run("maintenance", "status") == "Maintenance mode is on.\n"
    assert run("maintenance", "on") == "Maintenance mode is already on.\n"
    assert json.loads(run("maintenance", "status", "--json")) == {
        "maintenance-mode": "read-only", "switch": True, "setting": False, "changed": False
    }  # fmt: skip
    read_only_setting()
    assert run("maintenance", "off").splitlines() == [
        f"Maintenance mode is off; {soon}.",
        "LAKEKEEPER__MAINTENANCE_MODE=read-only is set: processes with this setting stay read-only.",
    ]
    assert json.loads(run("maintenance", "status", "--json"))["maintenance-mode"] == "read-only"
    for wrong in ((), ("maybe",)):
        with pytest.raises(CommandError):
            run("maintenance", *wrong)


def test_commands_that_clean_up_do_not(close: Callable[[], None]) -> None:
    IdempotencyRecord.objects.create(
        warehouse_id=new_id(), key=new_id(), fingerprint=b"", status=200, response="{}", created_at=now()
    )
    close()
    with pytest.raises(CommandError, match="Maintenance mode is read-only: the worker does not run"):
        run("worker", "--once")
    with pytest.raises(CommandError, match="Maintenance mode is read-only: nothing is deleted"):
        run("prune_metrics")
    assert IdempotencyRecord.objects.exists()


def test_a_leaked_token_is_revoked_by_command(alice: TokenClient, close: Callable[[], None]) -> None:
    """The API does not revoke it: restoring a backup in progress would restore it as valid."""
    leaked = read_token(alice.token)
    assert leaked is not None
    close()
    assert alice.delete(f"/token/{leaked.token_id}").refused(503, "MaintenanceModeError")
    assert alice.get("/token").status == 200
    call_command("revoke_token", str(leaked.token_id), stdout=StringIO())
    assert alice.get("/token").refused(401, "AuthenticationFailed")
