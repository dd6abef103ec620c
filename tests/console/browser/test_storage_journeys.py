"""Journeys about data on MinIO: create a warehouse with a wrong key, restore a dropped table, retry a failed purge."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from playwright.sync_api import expect
from pyiceberg.catalog import Catalog, load_catalog

from tests.console.browser.conftest import Visit
from tests.console.browser.console_server import HOSTILE_NAME, ConsoleServer, User
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply

pytestmark = [pytest.mark.part("minio"), pytest.mark.part("keycloak")]

DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"
ROWS = pa.table({"id": [1, 2, 3]})
DROPPED = f"dropped {HOSTILE_NAME}"


@pytest.fixture
def store(minio: Minio) -> Iterator[Recorder]:
    """A proxy in front of MinIO, which can deny requests."""
    with Recorder(minio.port) as recorder:
        yield recorder


def open_catalog(console: ConsoleServer, warehouse: str) -> Catalog:
    return load_catalog(
        "lake", type="rest", uri=console.uri, warehouse=warehouse, token=console.token(User.PROJECT_ADMIN)
    )


def test_a_warehouse_with_a_wrong_key(visit: Visit, console: ConsoleServer, minio: Minio) -> None:
    minio.create_bucket("wrong-key")
    visitor = visit(User.PROJECT_ADMIN)
    page = visitor.page
    visitor.open("/ui/")
    visitor.go_to("Warehouses")
    page.get_by_role("link", name="New warehouse").first.click()
    page.get_by_label("Name").first.fill("events")
    page.get_by_label("Bucket").fill("wrong-key")
    page.get_by_label("Region").fill("us-east-1")
    page.get_by_label("Endpoint", exact=True).fill(minio.endpoint)
    page.get_by_label("Kind of store").select_option("s3-compat")
    page.get_by_label("Path-style URLs").select_option("Yes")
    page.get_by_label("Vend temporary credentials to clients").check()
    page.get_by_label("Access key id").fill(minio.user)
    page.get_by_label("Secret access key").fill("not the secret of this key")
    page.get_by_role("button", name="Create warehouse").click()

    checks = page.get_by_role("region", name="Checks")
    failed = checks.get_by_role("listitem").filter(has_text="Server can write, read, list and delete")
    expect(failed).to_contain_text("SignatureDoesNotMatch")
    expect(failed).to_contain_text("Cure: The secret does not belong to this access key")
    expect(page.get_by_text("The secret does not belong to this access key: enter it again.").first).to_be_visible()
    assert "not the secret" not in page.content()

    page.get_by_label("Secret access key").fill(minio.password)
    page.get_by_role("button", name="Validate").click()
    expect(checks.get_by_text("passed").first).to_be_visible()
    page.get_by_role("button", name="Create warehouse").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("events")
    expect(page.get_by_text("Warehouse events was created.")).to_be_visible()
    expect(page.get_by_role("heading", name="Create the first table")).to_be_visible()
    catalog = open_catalog(console, "events")
    catalog.create_namespace("raw")
    assert minio.keys("wrong-key") == []


def test_a_dropped_table_is_restored(visit: Visit, console: ConsoleServer, minio: Minio) -> None:
    minio.create_bucket("restored")
    profile = {"delete-profile": {"type": "soft", "expiration-seconds": 3600}}
    console.add_warehouse("archive", minio.storage("restored") | profile)
    catalog = open_catalog(console, "archive")
    catalog.create_namespace("raw")
    table = catalog.create_table(("raw", DROPPED), ROWS.schema)
    table.append(ROWS)
    catalog.drop_table(("raw", DROPPED))

    visitor = visit(User.PROJECT_ADMIN)
    page = visitor.page
    visitor.open("/ui/")
    visitor.go_to("Deleted objects")
    page.get_by_label("Warehouse").select_option(label="archive")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("checkbox", name=DROPPED).check()
    page.get_by_role("button", name="Restore…").click()
    expect(page.get_by_text("Nothing is changed yet.")).to_be_visible()
    page.get_by_role("button", name="Restore 1 object").click()
    expect(page.get_by_role("status").first).to_contain_text("was restored")
    assert catalog.load_table(("raw", DROPPED)).scan().to_arrow().num_rows == 3


def test_a_failed_purge_is_retried(visit: Visit, console: ConsoleServer, minio: Minio, store: Recorder) -> None:
    minio.create_bucket("purged")
    storage = minio.storage("purged", endpoint=store.endpoint)
    warehouse = console.add_warehouse("purged", storage | {"delete-profile": {"type": "hard"}})
    queue = f"/management/v1/warehouse/{warehouse}/task-queue/tabular_purge/config"
    console.call("POST", queue, User.PROJECT_ADMIN, **{"queue-config": {"max-retries": 0}}).raise_for_status()
    catalog = open_catalog(console, "purged")
    catalog.create_namespace("raw")
    catalog.create_table(("raw", DROPPED), ROWS.schema)

    def deny_deletes(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        is_delete = request.method == "DELETE" or request.target.endswith("?delete")
        return Reply(403, {"Content-Type": "application/xml"}, DENIED) if is_delete else ask()

    store.answerer = deny_deletes
    catalog.purge_table(("raw", DROPPED))
    visitor = visit(User.PROJECT_ADMIN)
    page = visitor.page
    visitor.open("/ui/")
    row = page.get_by_role("listitem").filter(has_text=DROPPED)
    visitor.reload_until(row)
    expect(row).to_contain_text("failed")
    row.get_by_role("link", name="Open task").click()
    expect(page.get_by_text("The store denies access.")).to_be_visible()
    expect(page.get_by_text("Cure:")).to_be_visible()
    assert minio.keys("purged") != []

    store.answerer = lambda _, ask: ask()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".ik-head-title").get_by_text("Succeeded")).to_be_visible()
    assert minio.keys("purged") == []
