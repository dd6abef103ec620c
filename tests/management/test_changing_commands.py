"""Each command that changes something leaves an audit record and an event; one that fails, and any other, leaves none.

A new command must be in one of the tables below.
"""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command, get_commands

from events.services.sinks import SinkSettings, create_sink
from storage.models import Warehouse
from tasks.models import Task
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord, OutboxEvent
from tests.harness.wsgi_client import ApiClient
from tests.management.register_tables_fixtures import entry, listed  # noqa: F401 - a fixture
from tests.management.warehouse_request_fixtures import use_settings
from tests.storage.test_key_rotation import NEW, OLD, put, use_keys

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

READS = "it only reads"
SERVES = "it runs a server or worker, whose requests and tasks are changes of their own"
GENERATES = "it writes files of the sources"

CHANGES_NOTHING = {
    "check_secrets": READS,
    "check_storage": "it writes and deletes a file to validate the storage",
    "demo": SERVES,
    "document_settings": GENERATES,
    "explain": READS,
    "export_audit": READS,
    "healthcheck": READS,
    "list_tokens": READS,
    "list_view_owners": READS,
    "migrate": "it changes the tables of the database, not what they contain",
    "openapi": GENERATES,
    "openfga_reconcile": "it writes the grants, which do not change, to OpenFGA",
    "prune_metrics": "it deletes data after its retention period, as a periodic job does",
    "quickstart": SERVES,
    "serve": SERVES,
    "show_config": READS,
    "verify_audit": READS,
    "version": READS,
    "wait_for_db": READS,
    "worker": SERVES,
}
OTHER_TESTS = {
    "copy_grants": "it needs OpenFGA: tests/openfga/test_commands.py",
    "move_secrets": "it needs Vault: tests/management/test_warehouses_in_vault.py",
}


def counts() -> tuple[int, int]:
    changes = {change.value.audit_event for change in Change}
    return AuditRecord.objects.filter(event__in=changes).count(), OutboxEvent.objects.count()


class Walk:
    """Runs commands and collects those that leave too few or too many records."""

    def __init__(self) -> None:
        self.walked: set[str] = set()
        self.faults: list[str] = []

    def run(self, *words: str, fails: bool = False) -> str:
        out, before = StringIO(), counts()
        if fails:
            with pytest.raises(CommandError):
                call_command(*words, stdout=out, stderr=StringIO())
        else:
            self.walked.add(words[0])
            call_command(*words, stdout=out, stderr=StringIO())
        records, events = (after - earlier for after, earlier in zip(counts(), before, strict=True))
        if (fails and (records or events)) or (not fails and not (records and events)):
            self.faults.append(f"{' '.join(words)} left {records} audit records and {events} events")
        return out.getvalue()


@pytest.fixture(autouse=True)
def maintenance_is_off() -> Any:
    yield
    maintenance.switch.is_on = False


def test_each_changing_command_records_its_changes(
    request: pytest.FixtureRequest,
    warehouse: Warehouse,
    catalog: ApiClient,
    create_table: Callable[..., dict[str, Any]],
    listed: Callable[..., Path],  # noqa: F811
    storage_root: Path,
    soft_delete: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_settings(monkeypatch, audit=settings.ICEKEEPER.audit.model_copy(update={"data_changes": "all"}))
    walk = Walk()
    walk.run("reopen_bootstrap", "--yes")
    walk.run("reopen_bootstrap", fails=True)
    walk.run("bootstrap", "--admin", "oidc~ann")
    walk.run("maintenance", "on")
    walk.run("maintenance", "off")
    walk.run("create_warehouse", "second", "--local-path", str(storage_root / "second"))
    walk.run("create_warehouse", "second", "--local-path", str(storage_root / "second"), fails=True)
    lost = create_table("lost")["metadata-location"]
    assert catalog.delete("/namespaces/ns/tables/lost?force=true").status == 204
    entries = str(listed(entry("lost", lost)))
    walk.run("register_tables", "wh", "--list", entries)
    walk.run("register_tables", "missing", "--list", entries, fails=True)

    staged = {"name": "staged", "schema": {"type": "struct", "fields": []}, "stage-create": True}
    location = catalog.post("/namespaces/ns/tables", staged).json()["metadata"]["location"]
    walk.run("location_reservations", "wh", "--release", location)
    walk.run("location_reservations", "wh", "--release", location, fails=True)

    create_table("dropped")
    assert catalog.delete("/namespaces/ns/tables/dropped").status == 204
    expiration = str(Task.objects.get(queue="soft_deletion").pk)
    walk.run("tasks", "run-now", expiration)
    walk.run("tasks", "cancel", expiration)
    walk.run("tasks", "config", "tabular_purge", "--warehouse", "wh", "--set", '{"max-retries": 3}')
    walk.run("tasks", "config", "tabular_purge", "--warehouse", "wh", "--set", '{"max-retries": -3}', fails=True)

    control_deliveries(walk)

    put(OLD)
    use_keys(monkeypatch, NEW, OLD)
    walk.run("rotate_encryption_key")

    request.getfixturevalue("access_tokens")  # from here on the APIs require authentication
    walk.run("create_token", "--user", "local~bob", "--create-user")
    walk.run("create_token", "--user", "local~stranger", fails=True)
    walk.run("sign_in_address", "--user", "local~bob")
    walk.run("sign_in_address", "--user", "local~stranger", fails=True)
    monkeypatch.setattr("sys.stdin", StringIO("a long passphrase 41\n"))
    walk.run("set_password", "local~bob", "--stdin")
    monkeypatch.setattr("sys.stdin", StringIO("short\n"))
    walk.run("set_password", "local~bob", "--stdin", fails=True)
    walk.run("block_user", "local~bob")
    walk.run("unblock_user", "local~bob")
    walk.run("block_user", "local~stranger", fails=True)
    walk.run("revoke_token", "--user", "local~bob")
    walk.run("revoke_token", "00000000-0000-7000-8000-000000000000", fails=True)

    assert not walk.faults
    own = {name for name, app in get_commands().items() if app == "management"}
    assert own == walk.walked | CHANGES_NOTHING.keys() | OTHER_TESTS.keys()
    assert not walk.walked & (CHANGES_NOTHING.keys() | OTHER_TESTS.keys())


def control_deliveries(walk: Walk) -> None:
    create_sink(actor=INTERNAL, wanted=SinkSettings(name="log", configuration={"type": "log"}))
    walk.run("events", "pause", "log")
    walk.run("events", "resume", "log")
    walk.run("events", "replay", "log", "--earliest")
    walk.run("events", "replay", "log", "--position", "-1", fails=True)
    walk.run("events", "pause", "other", fails=True)
