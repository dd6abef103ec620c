"""Audit records of access to table files, if the setting enables them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.audit.collector import collector
from tenancy.authz.actions import Can
from tenancy.models import AuditRecord
from tests.harness.wsgi_client import ApiClient
from tests.iceberg_rest.lake_fixtures import create_table
from tests.management.warehouse_request_fixtures import refuse, use_settings
from tests.signing_fixtures import BASE, add_tabular, ask, by_id, by_location

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Reported = Callable[[], list[tuple[str, str, str, str, int]]]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Reported:
    """Return event, action, object and count of the reads since then."""
    use_settings(monkeypatch, audit=settings.ICEKEEPER.audit.model_copy(update={"reads": True}))

    def rows() -> list[tuple[str, str, str, str, int]]:
        collector.write_due(is_last=True)
        found = AuditRecord.objects.filter(event__startswith="data.").order_by("at", "id")
        read = [(row.event, row.action, row.object_type, row.object_id, row.count) for row in found]
        assert {row.actor for row in found} <= {"anonymous"}
        found.delete()
        return read

    return rows


def test_signatures(signing: Warehouse, reported: Reported) -> None:
    table = add_tabular(signing, "t")
    for method, times in (("GET", 3), ("PUT", 1)):
        for _ in range(times):
            assert ask(by_id(signing, table.pk), method, f"{BASE}/wh/t/a").status == 200
    event, about = "data.request-signed", ("table", str(table.pk))
    assert reported() == [(event, "read_data", *about, 3), (event, "write_data", *about, 1)]
    assert ask(by_location(signing), "GET", f"{BASE}/wh/other/a").status == 400
    assert reported() == []


def test_signatures_that_are_refused(signing: Warehouse, reported: Reported, monkeypatch: pytest.MonkeyPatch) -> None:
    table = add_tabular(signing, "t")
    for granted, reason in (((Can.USE,), "CannotSeeResource"), ((Can.USE, Can.GET_METADATA), "ActionForbidden")):
        refuse(monkeypatch, *granted)
        ask(by_id(signing, table.pk), "GET", f"{BASE}/wh/t/a")
        collector.write_due()
        row = AuditRecord.objects.get(event="access.denied", reason=reason)
        assert (row.action, row.object_type, row.object_id) == ("read_data", "table", str(table.pk))
    assert AuditRecord.objects.filter(event="access.denied").count() == 2
    assert reported() == []


@pytest.mark.part("minio")
def test_credentials_of_a_staged_table_reveal_no_location(
    lake: ApiClient, nothing_vended_before: None, reported: Reported
) -> None:
    create_table(lake, "s", **{"stage-create": True})
    assert Tabular.objects.count() == 0
    warehouse = Warehouse.objects.get()
    assert reported() == [("data.credentials-vended", "write_data", "warehouse", str(warehouse.pk), 1)]


@pytest.mark.part("minio")
def test_credentials(
    lake: ApiClient, nothing_vended_before: None, reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table(lake)
    about = ("table", str(Tabular.objects.get().pk))
    event = "data.credentials-vended"
    assert reported() == [(event, "write_data", *about, 1)]
    assert lake.get("/namespaces/ns/tables/t").status == 200
    assert lake.get("/namespaces/ns/tables/t/credentials").status == 200
    assert reported() == [(event, "write_data", *about, 2)]
    refuse(monkeypatch, Can.USE, Can.GET_METADATA, Can.READ_DATA)
    assert lake.get("/namespaces/ns/tables/t").status == 200
    assert reported() == [(event, "read_data", *about, 1)]
    refuse(monkeypatch, Can.USE, Can.GET_METADATA)
    assert lake.get("/namespaces/ns/tables/t").status == 200
    assert reported() == []
