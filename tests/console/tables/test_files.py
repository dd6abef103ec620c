"""The tabs Files and Health: a worker reads the manifests of a snapshot, and hostile ones are an error on the tab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catalog.models import FileStatistics
from catalog.services import file_statistics
from catalog.services.file_statistics import delete_old_file_statistics
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tasks.models import Task
from tenancy.actor import INTERNAL
from tests.catalog_fixtures import snapshot
from tests.console.warehouses.conftest import Visit
from tests.harness.manifests import data_file, write_manifest, write_manifest_list
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MIB = 1 << 20
HOSTILE = "<b onclick=alert(1)>"


@dataclass
class FilledTable:
    """A table with snapshots whose manifests are real files in its folder."""

    page: str
    folder: Path
    catalog: CallerClient
    at: int
    snapshots: int = 0

    def write(self, name: str, data: bytes) -> str:
        (self.folder / "metadata" / name).write_bytes(data)
        return f"file://{self.folder}/metadata/{name}"

    def commit(self, manifest_list: str) -> int:
        """Add a snapshot with this manifest list, and return its id."""
        parent = self.snapshots or None
        self.snapshots += 1
        new = snapshot(self.snapshots, parent=parent, sequence_number=self.snapshots, at=self.at + self.snapshots)
        updates = [
            {"action": "add-snapshot", "snapshot": {**new, "manifest-list": manifest_list}},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": self.snapshots},
        ]
        response = self.catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
        assert response.status == 200, response.body
        return self.snapshots

    def add_files(self, *files: dict[str, Any]) -> int:
        manifest = write_manifest(files)
        path = self.write(f"m{self.snapshots}.avro", manifest)
        return self.commit(self.write(f"l{self.snapshots}.avro", write_manifest_list([(path, len(manifest))])))


@pytest.fixture
def table(catalog: CallerClient, warehouse: Warehouse, create_table: Callable[..., dict[str, Any]]) -> FilledTable:
    spec = {"fields": [{"source-id": 1, "name": "city", "transform": "identity"}]}
    metadata = create_table(**{"partition-spec": spec})["metadata"]
    page = f"/ui/warehouse/{warehouse.pk}/table/{metadata['table-uuid']}/"
    folder = Path(metadata["location"].removeprefix("file://"))
    return FilledTable(page, folder, catalog, metadata["last-updated-ms"])


def test_files_are_read_by_a_worker(table: FilledTable, visit: Visit, do_tasks: Callable[[], int]) -> None:
    admin = visit("anna", "project_admin")
    assert "No files yet" in admin.get(f"{table.page}files/").plain
    first = table.add_files(*[data_file(MIB, city=HOSTILE) for _ in range(30)], data_file(600 * MIB, city=None))
    before = admin.get(f"{table.page}files/")
    assert "were not read yet" in before.plain
    assert before.fields["snapshot"] == [str(first)]
    admin.post(f"{table.page}files/reading/", {"snapshot": str(first)})
    asked = admin.post(f"{table.page}files/reading/", {"snapshot": str(first)})
    assert (asked.status, asked.location) == (302, f"{table.page}files/?snapshot={first}")
    (task,) = Task.objects.filter(queue="file_statistics")
    assert (task.created_by, task.payload) == ("local~anna", {"snapshot-id": first})
    waiting = admin.get(asked.location)
    assert "Waiting for a worker" in waiting.plain
    state = f"{table.page}files/reading/?snapshot={first}"
    assert (f'data-live-src="{state}"' in waiting.text, "operations.js" in waiting.text) == (True, True)
    assert admin.get(state).status == 200
    assert do_tasks() == 1
    done = admin.get(state)
    assert (done.status, done.location) == (302, asked.location), "at which operations.js loads the tab again"
    page = admin.get(f"{table.page}files/")
    shown = page.plain.replace("\u202f", " ")
    for text in (
        "Read from 1 manifest of snapshot",
        "31 files, median 1 MiB",
        "target 512 MiB",
        f"city={HOSTILE}",
        "city=null",
    ):
        assert text in shown, text
    assert HOSTILE not in page.text
    assert admin.get(f"{table.page}files/?order=nonsense").status == 404
    health = admin.get(f"{table.page}health/").plain
    assert "30 of 31 data files are smaller than" in health
    assert "CALL icekeeper.system.rewrite_data_files(table => '`ns`.`t`'" in health

    newer = table.add_files(data_file(5))
    assert "This snapshot is newer than the files below" in admin.get(f"{table.page}files/").plain
    assert "The table has a newer snapshot" in admin.get(f"{table.page}health/").plain
    assert admin.get(f"{table.page}files/?snapshot={first}").plain.count("Read from 1 manifest of snapshot") == 1
    for snapshot_id in (newer, *(table.add_files(data_file(5)) for _ in range(2))):
        admin.post(f"{table.page}files/reading/", {"snapshot": str(snapshot_id)})
        assert do_tasks() == 1
    assert FileStatistics.objects.count() == 3, "of each table the last three snapshots are kept"
    FileStatistics.objects.filter(snapshot_id=newer).update(read_at=now() - file_statistics.RETENTION * 2)
    assert delete_old_file_statistics(actor=INTERNAL) == 1
    assert table.catalog.delete("/namespaces/ns/tables/t").status == 204
    assert not FileStatistics.objects.exists()


def test_users_without_the_permission_to_read_data(table: FilledTable, visit: Visit) -> None:
    snapshot_id = table.add_files(data_file(1))
    describer, stranger = visit("dora", "describe", on="warehouse"), visit("stranger")
    assert "/files/" not in describer.get(table.page).text
    assert describer.get(f"{table.page}health/").status == 200
    for visitor, status in ((describer, 403), (stranger, 404)):
        assert visitor.get(f"{table.page}files/").status == status
        assert visitor.get(f"{table.page}files/reading/?snapshot={snapshot_id}").status == status
        assert visitor.post(f"{table.page}files/reading/", {"snapshot": str(snapshot_id)}).status == status
    reader = visit("rita", "select", on="warehouse")
    assert reader.post(f"{table.page}files/reading/", {"snapshot": "x"}).status == 400
    assert reader.post(f"{table.page}files/reading/", {"snapshot": "77"}).status == 404
    assert not Task.objects.filter(queue="file_statistics").exists()
    assert reader.post(f"{table.page}files/reading/", {"snapshot": str(snapshot_id)}).status == 302


def test_unreadable_files_are_an_error_on_the_tab(
    table: FilledTable, visit: Visit, do_tasks: Callable[[], int]
) -> None:
    """The task has succeeded; the error is its result. `test_hostile_manifests.py` has more of them."""
    snapshot_id = table.commit(table.write("broken.avro", b"Obj\x01nonsense"))
    admin = visit("anna", "project_admin")
    admin.post(f"{table.page}files/reading/", {"snapshot": str(snapshot_id)})
    assert do_tasks() == 1
    assert Task.objects.get(queue="file_statistics").status == "success"
    page = admin.get(f"{table.page}files/")
    assert page.status == 200
    assert "cannot be read. The manifest list could not be read: it is no Avro file that can be read" in page.plain
    assert "Read them again" in page.plain
    assert admin.get(f"{table.page}health/").status == 200


def test_texts_that_postgresql_refuses_are_kept(table: FilledTable, visit: Visit, do_tasks: Callable[[], int]) -> None:
    """U+0000 in a partition value, a file format and the error is replaced; else the task would never end."""
    snapshots = [table.add_files(data_file(5, city="Ro\0me", file_format="PAR\0QUET"))]
    outside = write_manifest_list([("file:///out\0side.avro", 5)])
    snapshots.append(table.commit(table.write("outside.avro", outside)))
    admin = visit("anna", "project_admin")
    for snapshot_id in snapshots:
        admin.post(f"{table.page}files/reading/", {"snapshot": str(snapshot_id)})
        assert do_tasks() == 1
    kept, failed = FileStatistics.objects.order_by("snapshot_id")
    assert kept.document is not None
    assert (kept.document["formats"], kept.document["partitions"][0]["name"]) == (
        {"par\ufffdquet": 1},
        "city=Ro\ufffdme",
    )
    assert failed.error.endswith("is outside of the location of the table: file:///out\ufffdside.avro")
