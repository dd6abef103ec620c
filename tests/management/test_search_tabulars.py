"""Fuzzy search of tables, views and generic tables: best matches first, equal on every database."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from catalog.models import Namespace, Tabular
from catalog.selectors.tables import search as tabular_search
from catalog.selectors.tables.search import in_single_precision, trigrams_of
from catalog.selectors.visible_pages import seal_page_token
from icekeeper.kernel.clock import now
from icekeeper.kernel.http.paging import write_page_token
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.selectors.projects import get_project
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import NO_ONE, choose, reported

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

NAMES = ("orders", "Orders_2024", "order lines", "customers", "größe", "テーブル", "x", "a.b/c", "O-R-D-E-R")
LETTERS = "äжな"


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


def add(warehouse: Warehouse, path: str, *names: str, kind: str = "table", **fields: Any) -> list[Tabular]:
    namespace = Namespace.objects.get(warehouse=warehouse, path=path.replace("/", "\x1f"))
    return Tabular.objects.bulk_create(
        Tabular(
            warehouse=warehouse, namespace=namespace, kind=kind, uuid=new_id(), name=name, name_key=name_key(name),
            location=f"{namespace.location}/{new_id()}", **fields,
        )
        for name in names
    )  # fmt: skip


@pytest.fixture
def filled(catalog: ApiClient, warehouse: Warehouse) -> list[Tabular]:
    for path in ("sales", "sales/EU", "sales2", "hr"):
        assert catalog.post("/namespaces", {"namespace": path.split("/")}).status == 200
    return [
        *add(warehouse, "sales", *NAMES),
        *add(warehouse, "sales/EU", "orders", "returns"),
        *add(warehouse, "sales2", "orders_copy"),
        *add(warehouse, "hr", "people", "order_of_merit"),
        *add(warehouse, "hr", "people_view", kind="view"),
        *add(warehouse, "hr", "people_images", kind="generic-table"),
        *add(warehouse, "hr", "orders_dropped", deleted_at=now()),
    ]


def search(api: ApiClient, text: str, **more: Any) -> Any:
    response = api.post("/search-tabular", {"search": text, **more})
    assert response.status == 200, response.body
    return response.json()


def names(found: Any) -> list[str]:
    return [".".join([*each["namespace-name"], each["tabular-name"]]) for each in found["tabulars"]]


def similarity_of(one: str, other: str) -> float:
    """From 0, nothing in common, to 1, the same words."""
    ours, theirs = trigrams_of(one), trigrams_of(other)
    return in_single_precision(len(ours & theirs) / (len(ours | theirs) or 1))


def expected(rows: list[Tabular], text: str) -> list[tuple[str, float]]:
    """Return the matches by the definition, without optimisation."""
    alike = []
    for row in rows:
        if row.deleted_at is None:
            found = similarity_of(f"{row.namespace.path_key}\x1f{row.name_key}", name_key(text))
            if found > 0:
                alike.append((-found, row.pk.int, ".".join([*row.namespace.levels, row.name])))
    return [(name, round(1 + minus, 6)) for minus, _, name in sorted(alike)]


def test_a_response(api: ApiClient, filled: list[Tabular]) -> None:
    assert search(api, "SALES.eu.orders")["tabulars"][0] == {
        "namespace-name": ["sales", "EU"],
        "tabular-name": "orders",
        "tabular-id": {"type": "table", "id": str(filled[len(NAMES)].uuid)},
        "distance": 0.0,
    }
    kinds = {each["tabular-name"]: each["tabular-id"]["type"] for each in search(api, "people")["tabulars"]}
    assert kinds == {"people": "table", "people_view": "view", "people_images": "generic-table"}


@pytest.mark.parametrize(
    "text",
    ["orders", "ordrs", "ORDERS", "sales eu", "sales", "x", "o", "größe", "GRÖSSE", "grösse", "テーブル", "hr.people",
     "order of merit", "2024", "o r d e r", "\uff4frders", "a b c d e f g h i j k l m n o p q r s t u v w x y z"],
)  # fmt: skip
def test_all_that_has_something_in_common_is_found_in_the_order_of_the_definition(
    api: ApiClient, filled: list[Tabular], text: str
) -> None:
    wanted = expected(filled, text)
    found = search(api, text, **{"page-size": 100})
    assert list(zip(names(found), [each["distance"] for each in found["tabulars"]], strict=True)) == wanted
    assert "next-page-token" not in found
    assert names(search(api, text)) == [name for name, _ in wanted[:10]]


@pytest.mark.parametrize("text", ["", "   ", "...", "_", "%", "\U0001f600", "-- '; DROP TABLE catalog_tabular", "qqq"])
def test_nothing_in_common(api: ApiClient, filled: list[Tabular], text: str) -> None:
    assert search(api, text) == {"tabulars": []} if "DROP" not in text else search(api, text)
    assert Tabular.objects.count() == len(filled)


def test_64_characters_count(api: ApiClient, filled: list[Tabular]) -> None:
    assert search(api, "orders" + " " * 58 + "people") == search(api, "orders")
    assert search(api, "orders" + "." * 10_000)["tabulars"]
    assert search(api, "-" * 64 + "orders") == {"tabulars": []}


def test_by_the_id_of_a_tabular_or_of_its_namespace(api: ApiClient, filled: list[Tabular]) -> None:
    one = filled[0]
    for text in (str(one.uuid), str(one.uuid).upper()):
        assert search(api, text)["tabulars"] == [
            {
                "namespace-name": ["sales"],
                "tabular-name": "orders",
                "tabular-id": {"type": "table", "id": str(one.uuid)},
                "distance": None,
            }
        ]
    sales = str(one.namespace_id)
    assert names(search(api, sales)) == [f"sales.{name}" for name in NAMES], "directly in it, in order of creation"
    hr = str(filled[-1].namespace_id)
    assert names(search(api, hr, types=["view", "table"])) == ["hr.people", "hr.order_of_merit", "hr.people_view"]
    assert names(search(api, hr, **{"namespace-id": sales})) == []
    assert names(search(api, sales, **{"namespace-id": sales})) == [f"sales.{name}" for name in NAMES]
    assert search(api, str(filled[-1].uuid)) == {"tabulars": []}, "it was dropped"
    assert search(api, NO_ONE) == {"tabulars": []}


def test_only_some_kinds_and_only_below_a_namespace(api: ApiClient, filled: list[Tabular]) -> None:
    assert names(search(api, "people", types=["view"])) == ["hr.people_view"]
    assert names(search(api, "people", types=["generic-table", "view", "view"])) == [
        "hr.people_view",
        "hr.people_images",
    ]
    assert names(search(api, "people", types=[])) == []
    assert names(search(api, "people", types=None)) == names(search(api, "people"))
    sales = str(filled[0].namespace_id)
    inside = names(search(api, "orders", **{"namespace-id": sales.upper(), "page-size": 100}))
    assert "sales.EU.orders" in inside
    assert {name.split(".")[0] for name in inside} == {"sales"}, "sales2 is another one"
    assert names(search(api, "orders", **{"namespace-id": None}))


def test_pages(api: ApiClient, filled: list[Tabular], warehouse: Warehouse) -> None:
    equals = add(warehouse, "hr", *(f"orders_{letter}" for letter in "klmn"))
    wanted = [name for name, _ in expected([*filled, *equals], "orders")]
    for size in (1, 2, 5, len(wanted), 1000):
        found, token = [], None
        while True:
            page = search(api, "orders", **{"page-size": size, "page-token": token})
            assert len(page["tabulars"]) <= size
            found += names(page)
            token = page.get("next-page-token")
            if token is None:
                break
        assert found == wanted
    sales = str(filled[0].namespace_id)
    first = search(api, sales, **{"page-size": 4})
    rest = search(api, sales, **{"page-size": 100, "page-token": first["next-page-token"]})
    assert names(first) + names(rest) == [f"sales.{name}" for name in NAMES]


@pytest.mark.parametrize(
    ("body", "wire_type"),
    [
        (None, "BadRequestException"),
        ([], "BadRequestException"),
        ({}, "BadRequestException"),
        ({"search": None}, "BadRequestException"),
        ({"search": 1}, "BadRequestException"),
        ({"search": ["x"]}, "BadRequestException"),
        ({"search": "x\x00"}, "BadRequestException"),
        ({"search": "\ud800"}, "BadRequestException"),
        ({"search": "x", "types": "table"}, "BadRequestException"),
        ({"search": "x", "types": ["namespace"]}, "BadRequestException"),
        ({"search": "x", "types": [None]}, "BadRequestException"),
        ({"search": "x", "types": ["table"] * 101}, "BadRequestException"),
        ({"search": "x", "namespace-id": "hr"}, "BadRequestException"),
        ({"search": "x", "namespace-id": ""}, "BadRequestException"),
        ({"search": "x", "namespace-id": 1}, "BadRequestException"),
        ({"search": "x", "page-size": 0}, "BadRequestException"),
        ({"search": "x", "page-size": -1}, "BadRequestException"),
        ({"search": "x", "page-size": "x"}, "BadRequestException"),
        ({"search": "x", "page-size": 10**30}, "BadRequestException"),
        ({"search": "x", "page-token": 1}, "BadRequestException"),
        ({"search": "x", "page-token": "x"}, "InvalidPaginationToken"),
        ({"search": "x", "page-token": write_page_token("deleted-tabulars", NO_ONE)}, "InvalidPaginationToken"),
        ({"search": "x", "page-token": write_page_token("search-tabular", "0.5", NO_ONE)}, "InvalidPaginationToken"),
        ({"search": "x", "page-token": seal_page_token("search-tabular", "0.5", NO_ONE)}, "InvalidPaginationToken"),
    ],
)  # fmt: skip
def test_bodies_that_are_refused(api: ApiClient, filled: list[Tabular], body: Any, wire_type: str) -> None:
    assert api.post("/search-tabular", body).refused(400, wire_type)


def test_a_page_is_limited(api: ApiClient, filled: list[Tabular], settings: Any) -> None:
    settings.ICEKEEPER = settings.ICEKEEPER.model_copy(update={"pagination_size_max": 3})
    assert len(search(api, "orders", **{"page-size": 500})["tabulars"]) == 3
    assert len(search(api, "orders")["tabulars"]) == 3


def test_of_other_warehouses_nothing_is_found(
    api: ApiClient, filled: list[Tabular], storage_root: Any, everything: Callable[[], Any]
) -> None:
    other = create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="other",
        storage_profile={"type": "local", "path": str(storage_root / "other")},
    )
    assert ApiClient(f"/catalog/v1/{other.pk}").post("/namespaces", {"namespace": ["far"]}).status == 200
    [far] = add(other, "far", "orders_far")
    before = everything()
    assert "far.orders_far" not in names(search(api, "far.orders_far", **{"page-size": 100}))
    for text in (str(far.uuid), str(far.namespace_id)):
        assert search(api, text) == {"tabulars": []}
    for namespace_id in (NO_ONE, str(far.namespace_id), str(filled[0].uuid)):
        refused = api.post("/search-tabular", {"search": "x", "namespace-id": namespace_id})
        assert refused.refused(404, "NoSuchNamespaceException", namespace_id)
    for warehouse_id in (NO_ONE, "wh"):
        stranger = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        assert stranger.post("/search-tabular", {"search": "x"}).refused(404, "NoSuchWarehouseException")
    assert everything() == before
    assert names(search(ApiClient(f"/management/v1/warehouse/{other.pk}"), "orders")) == ["far.orders_far"]


def test_each_caller_finds_permitted_tabulars_only(
    api: ApiClient, warehouse: Warehouse, filled: list[Tabular], monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = {str(row.pk) for number, row in enumerate(filled) if number % 2}
    visible = [row for number, row in enumerate(filled) if not number % 2]
    choosing = choose(monkeypatch, hidden)
    monkeypatch.setattr(tabular_search, "BATCH_SIZE", 3)
    wanted = [name for name, _ in expected(visible, "orders")]
    found, token = [], None
    while True:
        page = search(api, "orders", **{"page-size": 2, "page-token": token})
        found += names(page)
        token = page.get("next-page-token")
        if token is None:
            break
        assert len(page["tabulars"]) == 2, "every page except the last is full"
    assert found == wanted
    assert max(choosing.batches) == 3, "checked in batches"
    choosing.refused.append(Can.USE)
    unseen = api.post("/search-tabular", {"search": "x"})
    missing = ApiClient(f"/management/v1/warehouse/{NO_ONE}").post("/search-tabular", {"search": "x"})
    assert unseen.refused(404, "NoSuchWarehouseException")
    assert reported(unseen, warehouse.pk) == reported(missing, NO_ONE)


def test_only_names_that_cannot_be_best_matches_are_skipped(
    api: ApiClient, filled: list[Tabular], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For many names, read in small batches, the optimised search returns the same matches as the definition."""
    chooses = random.Random(7)
    words = ["order", "orders", "ord", "line", "lines", "eu", "sales", "x", "2024", "aaaa", "aaaaaaa"]
    more = [
        row
        for path in ("sales", "sales/EU", "hr")
        for row in add(
            warehouse,
            path,
            *{"_".join(chooses.choices(words, k=chooses.randint(1, 4))) for _ in range(150)}
            - {*NAMES, "people", "returns"},
        )
    ]
    monkeypatch.setattr(tabular_search, "NAME_BATCH_SIZE", 10)
    for text in ("orders", "aaaa", "sales_ord", "lines 2024 eu", "z"):
        for size in (1, 7):
            wanted = [name for name, _ in expected([*filled, *more], text)]
            page = search(api, text, **{"page-size": size})
            assert names(page) == wanted[:size]
            if size < len(wanted):
                after = search(api, text, **{"page-size": size, "page-token": page["next-page-token"]})
                assert names(after) == wanted[size : 2 * size]


def test_statements_do_not_grow_with_the_warehouse(api: ApiClient, filled: list[Tabular], warehouse: Warehouse) -> None:
    counts = []
    for at in range(2):
        with CaptureQueriesContext(connection) as seen:
            search(api, "orders")
        counts.append(len([query for query in seen if not query["sql"].startswith(("DECLARE", "FETCH", "CLOSE"))]))
        add(warehouse, "hr", *(f"orders{at}_{number}" for number in range(3_000)))
    assert counts[0] == counts[1] <= 4


def test_the_definition_is_that_of_pg_trgm() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this")
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except DatabaseError as error:
        pytest.skip(f"this PostgreSQL has no pg_trgm: {error}")
    chooses = random.Random(5)
    letters = "abcdefgh_-. /0129\x1f"
    with connection.cursor() as cursor:
        cursor.execute("SELECT similarity(%s, %s)", [LETTERS, LETTERS])
        if cursor.fetchone() == (1.0,):  # otherwise LC_CTYPE is C, which does not know these letters
            letters += "äßжな"
        texts = [name_key("".join(chooses.choices(letters, k=chooses.randint(0, 40)))) for _ in range(1_500)]
        texts += ["", "a", "aaaaaa", "aa aa", "sales\x1forders", "sales\x1feu\x1forders_2024", "x" * 255, "a b" * 60]
        pairs = [(one, chooses.choice(texts)) for one in texts for _ in range(3)]
        cursor.execute(
            "SELECT a.one, b.two, similarity(a.one, b.two)::float8 FROM unnest(%s::text[]) WITH ORDINALITY AS a(one, n)"
            " JOIN unnest(%s::text[]) WITH ORDINALITY AS b(two, n) USING (n)",
            [[one for one, _ in pairs], [two for _, two in pairs]],
        )
        theirs = cursor.fetchall()
    assert len(theirs) == len(pairs)
    assert [(one, two, similarity_of(one, two)) for one, two, _ in theirs] == theirs
    assert sum(1 for _, _, alike in theirs if 0 < alike < 1) > 500


def test_searches_are_no_writes(api: ApiClient, filled: list[Tabular], everything: Callable[[], Any]) -> None:
    before = everything()
    search(api, "orders")
    assert everything() == before
    refused: Response = api.get("/search-tabular")
    assert refused.refused(405, "MethodNotAllowedException")
