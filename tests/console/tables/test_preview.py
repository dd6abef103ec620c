"""The tab Preview: rows of a table on local files and in MinIO, read by a bounded process with vended credentials."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings

from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.tables.load import load_tabular_for
from catalog.services import preview, sql_query
from catalog.services.preview import Preview, preview_rows
from catalog.services.row_access import ReadFailed, reading_slot
from catalog.services.sql_query import run_sql
from icekeeper.kernel.errors.types import Busy
from icekeeper.kernel.json.strict import read_stored_json
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.audit.collector import collector
from tenancy.models.audit_record import AuditRecord
from tests.catalog_fixtures import snapshot
from tests.console.warehouses.conftest import Visit
from tests.harness.named_callers import CallerClient
from tests.harness.pyiceberg_files import write_rows
from tests.harness.wsgi_client import ApiClient
from tests.iceberg_rest.lake_fixtures import create_table as create_in_lake
from tests.iceberg_rest.lake_fixtures import new_lake
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.certificates import create_authority
from tests.parts.minio import Minio
from tests.parts.recorder import Recorder
from tests.storage.open_store_fixtures import use_storage_settings

pytestmark = [pytest.mark.django_db]

MARKUP = "<img src=x onerror=alert(1)>"
ROWS = {"id": [*range(120)], "name": [MARKUP, None, *["x" * 500] * 118]}


def commit(client: Any, manifest_list: str, at: int) -> None:
    new = {**snapshot(1, at=at), "manifest-list": manifest_list}
    updates = [
        {"action": "add-snapshot", "snapshot": new},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
    ]
    response = client.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
    assert response.status == 200, response.body


def limit(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    console = settings.ICEKEEPER.console
    changed_preview = console.preview.model_copy(update=changed)
    use_settings(monkeypatch, console=console.model_copy(update={"preview": changed_preview}))


def read(warehouse_id: UUID) -> Preview:
    """Preview the table `t` as a caller with all permissions."""
    identifier = Identifier(("ns",), "t")
    loaded = load_tabular_for(actor=INTERNAL, warehouse_id=warehouse_id, identifier=identifier, kind=Tabular.Kind.TABLE)
    return preview_rows(
        actor=INTERNAL, warehouse_id=warehouse_id, identifier=identifier, loaded=loaded,
        metadata=read_stored_json(loaded.document), snapshot_id=1,
    )  # fmt: skip


def test_rows_of_local_files(
    warehouse: Warehouse,
    catalog: CallerClient,
    create_table: Callable[..., dict[str, Any]],
    visit: Visit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata = create_table()["metadata"]
    page = f"/ui/warehouse/{warehouse.pk}/table/{metadata['table-uuid']}/preview/"
    reader, describer, stranger = (
        visit("rita", "select", on="warehouse"), visit("dora", "describe", on="warehouse"), visit("stranger"),
    )  # fmt: skip
    assert "No rows yet" in reader.get(page).plain
    commit(catalog, write_rows({}, metadata, ROWS, name="rows"), metadata["last-updated-ms"] + 1)
    assert "Read 100 rows" in reader.get(page).plain
    use_settings(monkeypatch, audit=settings.ICEKEEPER.audit.model_copy(update={"reads": True}))
    collector.clear()
    shown = reader.post(page, {"snapshot": "1"})
    assert shown.status == 200
    for text in (
        MARKUP,
        "Rows 100",
        "of the 100 rows above",
        "Minimum Maximum",
        "name string 1 2",
        "id long 0 100 0 99",
    ):
        assert text in shown.plain, text
    assert MARKUP not in shown.text
    assert "x" * 201 not in shown.text
    collector.write_due(is_last=True)
    (audited,) = AuditRecord.objects.filter(event="data.credentials-vended")
    assert (audited.actor, audited.action, audited.object_type) == ("local~rita", "read_data", "table")
    for visitor, status in ((describer, 403), (stranger, 404)):
        assert (visitor.get(page).status, visitor.post(page, {"snapshot": "1"}).status) == (status, status)
    assert reader.post(page, {"snapshot": "2"}).status == 404
    assert reader.post(page.replace("preview", "schema"), {}).status == 404

    limit(monkeypatch, processes=1)
    with reading_slot("queries", 1), reading_slot("previews", 1), pytest.raises(Busy):
        read(warehouse.pk)
    limit(monkeypatch, timeout=0.2)
    late = reader.post(page, {"snapshot": "1"})
    assert (late.status, "it took longer than 0.2 seconds" in late.plain) == (400, True)
    limit(monkeypatch, timeout=20.0, memory_bytes=200 << 20)
    with pytest.raises(ReadFailed, match="The rows could not be read"):
        read(warehouse.pk)
    monkeypatch.setattr(preview, "PACKAGES", ("no_such_package",))
    shown = reader.post(page, {"snapshot": "1"})
    assert shown.plain.count(preview.INSTALL) == 2, "the note and the error"
    assert f"`{preview.INSTALL}`" in (settings.BASE_DIR / "docs" / "console.md").read_text()
    assert f"pyiceberg=={version('pyiceberg')}" in preview.INSTALL.replace("[pyarrow]", "")
    limit(monkeypatch, enabled=False)
    assert reader.get(page).status == 404


def test_files_outside_of_the_table_are_not_read(
    warehouse: Warehouse, catalog: CallerClient, create_table: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    metadata = create_table()["metadata"]
    folder = Path(metadata["location"].removeprefix("file://"))
    manifest_list = write_rows({}, metadata, ROWS, name="rows", path=f"file://{folder}/data/link.parquet")
    secret = tmp_path / "secret.parquet"
    secret.write_bytes((folder / "data" / "rows.parquet").read_bytes())
    (folder / "data" / "link.parquet").symlink_to(secret)
    commit(catalog, manifest_list, metadata["last-updated-ms"] + 1)
    with pytest.raises(ReadFailed, match=r"PermissionError: .* is outside of the location of the table"):
        read(warehouse.pk)


def test_rows_in_an_object_store(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Read by credentials of STS that MinIO limits to the table; without vending there is no preview.

    The certificate of a store may be of the authority in `ICEKEEPER__STORAGE__CA_BUNDLE`.
    """
    keep_secrets(monkeypatch)
    lake: ApiClient = new_lake(minio, bucket)
    created = create_in_lake(lake)
    manifest_list = write_rows(created["config"], created["metadata"], ROWS, name="rows")
    commit(lake, manifest_list, created["metadata"]["last-updated-ms"] + 1)
    warehouse = Warehouse.objects.get(name="lake")
    found = read(warehouse.pk)
    assert (len(found.rows), found.rows[0], found.columns[1].nulls) == (100, ["0", MARKUP], 1)
    sql = 'SELECT sum(id) FROM "ns".t WHERE name IS NOT NULL'
    queried = run_sql(actor=INTERNAL, warehouse_id=warehouse.pk, sql=sql, max_rows=10, max_text=10)
    assert (queried.rows, queried.has_more) == ([["7139"]], False)
    monkeypatch.setattr(sql_query, "MAX_FRAME", 100)
    with pytest.raises(ReadFailed, match="too large"):
        run_sql(actor=INTERNAL, warehouse_id=warehouse.pk, sql=sql, max_rows=10, max_text=10)

    authority, tls = create_authority(tmp_path)
    use_storage_settings(monkeypatch, ca_bundle=authority)
    with Recorder(minio.port, tls) as recorder:
        secure = {**warehouse.storage_profile, "endpoint": recorder.endpoint}
        Warehouse.objects.filter(pk=warehouse.pk).update(storage_profile=secure, version=warehouse.version + 1)
        assert len(read(warehouse.pk).rows) == 100
        assert any("rows.parquet" in each.target for each in recorder.requests)

    profile = {**warehouse.storage_profile, "sts-enabled": False}
    Warehouse.objects.filter(pk=warehouse.pk).update(storage_profile=profile, version=warehouse.version + 2)
    with pytest.raises(ReadFailed, match="vends no credentials"):
        read(warehouse.pk)
