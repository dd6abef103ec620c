"""Lists of warehouses: pages, hidden warehouses, and the rows that a page reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import psycopg
import pytest
from django.db import connection

from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.ids import new_id
from storage.credentials import SYSTEM_IDENTITY_TYPES
from storage.models import Warehouse
from storage.profiles.location import ancestor_keys, build_location_key, descendant_key_range
from storage.selectors import list_warehouses_for
from storage.services import warehouses
from tenancy.actor import INTERNAL
from tenancy.models import Project
from tests.conftest import RUN
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import (
    NO_ONE,
    S3,
    choose,
)

pytestmark = pytest.mark.django_db
api = ApiClient("/management/v1")


MANY, LIMIT = 3_000, 11
needs_plans = pytest.mark.skipif(
    RUN.database != "postgres", reason="the PostgreSQL run has this: plans of SQLite have no row counts"
)


@pytest.fixture
def many(bootstrapped: None) -> Project:
    """Warehouses of the default project, every hundredth inactive, and some of a later project."""
    project, other = Project.objects.get(), Project.objects.create(id="other", name="other", name_key="other")
    Warehouse.objects.bulk_create(
        Warehouse(
            id=new_id(), project=owner, name=f"w{number}", name_key=f"w{number}", location=f"s3://b/{number}",
            storage_profile={"type": "s3"}, delete_profile={"type": "hard"}, allowed_format_versions=[2],
            location_key=build_location_key(S3 | {"endpoint": None}, f"s3://my-bucket/a/w{number}"),
            status="inactive" if number % 100 == 0 else "active",
        )
        for owner, count in ((project, MANY), (other, 50))
        for number in range(count)
    )  # fmt: skip
    return project


def listed(query: str) -> list[str]:
    """Return the names on all pages, in order."""
    names: list[str] = []
    token: str | None = ""
    while token is not None:
        page = api.get(f"/warehouse?{query}&pageToken={token}").json()
        assert len(page["warehouses"]) <= 1000
        names += [each["name"] for each in page["warehouses"]]
        token = page.get("next-page-token")
    return names


def test_thousands_of_warehouses_by_pages_and_at_once(many: Project) -> None:
    active = [f"w{number}" for number in range(MANY) if number % 100]
    assert listed("pageSize=1000") == active
    assert [each["name"] for each in api.get("/warehouse").json()["warehouses"]] == active
    both = "warehouseStatus=active&warehouseStatus=inactive"
    assert len(listed(f"{both}&pageSize=900")) == MANY
    assert listed("warehouseStatus=inactive&pageSize=7") == [f"w{number}" for number in range(0, MANY, 100)]
    assert len(api.get("/warehouse?pageToken=").json()["warehouses"]) == 100
    assert len(api.get("/warehouse?pageSize=5").json()["warehouses"]) == 5


def test_pages_are_full_although_hidden_warehouses_are_skipped(many: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    unseen = Warehouse.objects.exclude(name__endswith="7").values_list("pk", flat=True)
    choose(monkeypatch, {str(each) for each in unseen})
    expected = [f"w{number}" for number in range(7, MANY, 10)]
    assert listed("pageSize=30") == expected
    assert [each["name"] for each in api.get("/warehouse").json()["warehouses"]] == expected


@pytest.mark.parametrize(
    "query", ["pageToken=x", "pageToken=%FF", "pageSize=0", "pageSize=-1", "pageSize=a", "pageSize="]
)
def test_pages_that_are_refused(warehouse: Warehouse, query: str) -> None:
    wire_type = "InvalidPaginationToken" if "Token" in query else "BadRequestException"
    assert api.get(f"/warehouse?{query}").refused(400, wire_type)


def test_a_token_of_another_listing_is_refused(warehouse: Warehouse, catalog: ApiClient) -> None:
    for name in ("a", "b"):
        catalog.post("/namespaces", {"namespace": [name]})
    token = catalog.get("/namespaces?pageToken=&pageSize=1").json()["next-page-token"]
    assert api.get(f"/warehouse?pageToken={token}").refused(400, "InvalidPaginationToken")


def steps_of(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for each in step.get("Plans", ()):
        yield from steps_of(each)


@needs_plans
def test_a_page_reads_its_own_rows(many: Project) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE storage_warehouse")
    for project_id, statuses in product((many.pk, "other"), (["active"], ["inactive"], ["active", "inactive"])):
        warehouses = Warehouse.objects.filter(project_id=project_id).order_by("id")
        if len(statuses) == 1:
            warehouses = warehouses.filter(status__in=statuses)
        statement, params = warehouses.filter(pk__gt=NO_ONE[:-1] + "1")[:LIMIT].query.sql_with_params()
        with psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params)
            plan = cursor.fetchone()[0][0]["Plan"]  # type: ignore[index]
        steps = list(steps_of(plan))
        # The few warehouses of the other project are sorted, not read in order; one in a hundred may be skipped.
        most = 50 if project_id == "other" else 2 * LIMIT
        read = max(step["Actual Rows"] + step.get("Rows Removed by Filter", 0) for step in steps)
        assert read <= most, (project_id, statuses, plan)
        assert any("Index" in step["Node Type"] for step in steps), (project_id, statuses, plan)


@needs_plans
def test_the_index_decides_whether_a_location_is_free(many: Project) -> None:
    free = build_location_key(S3 | {"endpoint": None}, "s3://my-bucket/a/b/c")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE storage_warehouse")
    with psycopg.Cursor(connection.connection) as cursor:
        asked = [ancestor_keys(free), *descendant_key_range(free), many.pk, False, SYSTEM_IDENTITY_TYPES, new_id()]
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {warehouses._OTHERS}", asked)
        plan = cursor.fetchone()[0][0]["Plan"]  # type: ignore[index]
    steps = list(steps_of(plan))
    assert max(step["Actual Rows"] + step.get("Rows Removed by Filter", 0) for step in steps) <= 5, plan
    assert any(step.get("Index Name") == "warehouse_by_location_key" for step in steps), plan


def test_the_selector_reads_a_page_in_one_statement(
    many: Project, django_assert_num_queries: Callable[[int], Any]
) -> None:
    with django_assert_num_queries(1):
        found, token = list_warehouses_for(
            actor=INTERNAL, project=many, statuses=["active"], page=Page("warehouses", None, 100)
        )
    assert len(found) == 100
    assert token is not None
