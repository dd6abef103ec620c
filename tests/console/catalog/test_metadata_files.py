"""Earlier metadata files of a table on its page, and the overview of a table with large metadata."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from catalog.models import TableTotals, Tabular, TabularMetadata
from catalog.selectors.tables.load import LoadedTabular, load_tabular_for
from catalog.selectors.tables.metadata_cache import MetadataCache
from icekeeper.kernel.json.strict import write_json
from tests.authz.conftest import good
from tests.console.conftest import Open
from tests.console.sign_in.browser import Browser
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.named_callers import CallerClient

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def table(root: CallerClient, lake: dict[str, Any]) -> Tabular:
    """`open.a` after two commits: its log has two files."""
    for number in range(2):
        update = {"action": "set-properties", "updates": {"number": str(number)}}
        good(root.post("/namespaces/open/tables/a", {"requirements": [], "updates": [update]}))
    return Tabular.objects.get(pk=lake["open.a"].id)


def write_log(monkeypatch: pytest.MonkeyPatch, table: Tabular, *locations: str) -> None:
    """Replace the log of the stored metadata, as that of a registered file could be."""
    row = TabularMetadata.objects.get(pk=table.pk)
    assert row.document is not None
    document = json.loads(bytes(row.document))
    document["metadata-log"] = [{"metadata-file": each, "timestamp-ms": 1} for each in locations]
    TabularMetadata.objects.filter(pk=table.pk).update(document=write_json(document))
    for module in ("load", "metadata_cache"):
        monkeypatch.setattr(f"catalog.selectors.tables.{module}.metadata_cache", MetadataCache(max_bytes=0))


def keys(browser: Browser, address: str) -> list[str]:
    return re.findall(r"format=json&amp;file=(\w+)", browser.get(address).text)


def test_earlier_metadata_files_are_downloaded(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    table: Tabular,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = f"/ui/warehouse/{ids.warehouse}/table/{table.uuid}/metadata/"
    engineer, guest = open_as("engineer"), open_as("guest")
    newest, first = keys(engineer, address)
    found = engineer.get(f"{address}?format=json&file={newest}")
    assert json.loads(found.text)["properties"]["number"] == "0"
    assert re.fullmatch(r'attachment; filename="00001-[\w-]+\.metadata\.json"', found.header("content-disposition"))
    assert "number" not in json.loads(engineer.get(f"{address}?format=json&file={first}").text)["properties"]
    assert guest.get(f"{address}?format=json&file={first}").status == 404
    other = f"/ui/warehouse/{ids.warehouse}/table/{ids.tables['closed']}/metadata/?format=json&file={first}"
    assert engineer.get(other).status == 404
    assert open_as("lead").get(other).status == 404, "only files of the own log"
    assert engineer.get(f"{address}?format=json&file=").status == 404
    assert engineer.get(address).statements <= 15

    # A deleted file is a sentence.
    (location,) = (each["metadata-file"] for each in json.loads(found.text)["metadata-log"])
    Path(location.removeprefix("file://")).unlink()
    deleted = engineer.get(f"{address}?format=json&file={first}")
    assert deleted.status == 404
    assert "no longer in the object store" in deleted.text

    # A log may name anything: only metadata files of this table below its own folders are read.
    own, hidden = table.location, Tabular.objects.get(uuid=ids.tables["closed"])
    disguised = f"{own}/metadata/00009-x.metadata.json"
    data = f"{own}/metadata/00008-y.metadata.json"
    hidden_file = Path(hidden.metadata_location.removeprefix("file://"))
    Path(disguised.removeprefix("file://")).write_bytes(hidden_file.read_bytes())
    Path(data.removeprefix("file://")).write_bytes(b"PAR1")
    step = f"{own}/metadata/../../{hidden.location.rsplit('/', 1)[-1]}/metadata/{hidden_file.name}"
    others = [hidden.metadata_location, step, f"{own}x/v1.metadata.json", f"{own}/data/1.parquet"]
    write_log(monkeypatch, table, *others, disguised, data)
    page = engineer.get(address).text
    assert page.count("not a file of this object") == 4
    for key in keys(engineer, address):
        denied = engineer.get(f"{address}?format=json&file={key}")
        assert denied.status == 404
        assert str(hidden.uuid) not in denied.text
    assert len(keys(engineer, address)) == 2


def test_the_overview_of_a_table_with_large_metadata_does_not_read_it(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    table: Tabular,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    TabularMetadata.objects.filter(pk=table.pk).update(document=None)
    TableTotals.objects.filter(pk=table.pk).update(records=321, data_files=56, snapshot_count=78, ref_count=9)
    read: list[object] = []

    def load(**request: Any) -> LoadedTabular:
        read.append(request)
        return load_tabular_for(**request)

    monkeypatch.setattr("management.admin.catalog.tabulars.load_tabular_for", load)
    address = f"/ui/warehouse/{ids.warehouse}/table/{table.uuid}/"
    page = open_as("engineer").get(address)
    assert read == []
    assert page.status == 200
    assert page.statements <= 15
    shown = (
        "larger than 4",
        "columns, partitioning",
        ">321<",
        ">78<",
        ">9<",
        "Read this table",
        ">Query<",
        f"{address}files/",
    )
    assert [text for text in shown if text not in page.text] == []
    assert f"{address}files/" not in open_as("instance").get(address).text
    assert open_as("guest").get(address).status == 404
    assert "larger than 4" not in open_as("engineer").get(f"{address}schema/").text
    assert len(read) == 1
    TableTotals.objects.filter(pk=table.pk).delete()
    assert open_as("engineer").get(address).status == 200
