"""Lists that end before hidden objects disclose nothing about them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Tabular
from catalog.selectors import visible_pages
from catalog.selectors.tables import search
from icekeeper.kernel.http.paging import listing_key, write_page_token
from storage.models import Warehouse
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import good, user
from tests.authz.tree_fixtures import T, give
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db]

Ask = Callable[..., Response]
NAME = "layoffs_2027"


@pytest.fixture(params=["deleted", "search"])
def ask(
    request: pytest.FixtureRequest, manage: Callable[[str], CallerClient], root: CallerClient,
    lake: dict[str, ObjectRef], warehouse: Warehouse, soft_delete: int, monkeypatch: pytest.MonkeyPatch,
) -> Ask:  # fmt: skip
    """Return Bob's requests for a page. Each page reads two tables: Bob may see the third, but not the second."""
    for namespace, name in (("closed", NAME), ("closed", f"{NAME}_x"), ("open", f"{NAME}_of_bob")):
        good(root.post(f"/namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA}))
    his = Tabular.objects.get(name=f"{NAME}_of_bob")
    give("ownership", ObjectRef(T.TABLE, his.pk), user("bob"))
    monkeypatch.setattr(visible_pages, "MAX_SCANNED", 2)
    for module in (visible_pages, search):
        monkeypatch.setattr(module, "BATCH_SIZE", 1)
    # Else nothing hidden would be read.
    monkeypatch.setattr("tenancy.authz.builtin.visible_objects.MAX_GRANTS", 0)
    bob, base = manage("bob"), f"/warehouse/{warehouse.pk}"
    if request.param == "search":
        return lambda token="", *, at=base, text=f"closed {NAME}": bob.post(
            f"{at}/search-tabular", {"search": text, "page-size": 1, "page-token": token}
        )
    for namespace, name in (("closed", NAME), ("closed", f"{NAME}_x"), ("open", f"{NAME}_of_bob")):
        good(root.delete(f"/namespaces/{namespace}/tables/{name}"))
    return lambda token="", *, at=base, text="": bob.get(
        f"{at}/deleted-tabulars?pageSize=1&pageToken={token}{text and '&namespaceId='}{text}"
    )


def seen(response: Response) -> list[Any]:
    return [each.get("tabular-name") or each["name"] for each in good(response).json()["tabulars"]]


def test_a_page_that_ends_after_hidden_rows_reveals_nothing_of_them(ask: Ask) -> None:
    first = ask()
    assert seen(first) == []
    token = first.json()["next-page-token"]
    raw = base64.urlsafe_b64decode(token)
    for row in Tabular.objects.filter(name__startswith=NAME):
        for reported in (str(row.pk).encode(), row.pk.hex.encode(), row.pk.bytes, str(row.uuid).encode(), b"1.0"):
            assert reported not in raw, row.name
            assert reported not in token.encode(), row.name
    assert len(ask().json()["next-page-token"]) == len(token)
    assert seen(ask(token)) == [f"{NAME}_of_bob"]


def test_a_changed_token_is_refused(ask: Ask) -> None:
    token = ask().json()["next-page-token"]
    for at in (0, 15, 100, len(token) - 1):
        changed = token[:at] + ("B" if token[at] == "A" else "A") + token[at + 1 :]
        assert ask(changed).refused(400, "InvalidPaginationToken")


def test_no_client_chooses_where_a_page_begins(ask: Ask, warehouse: Warehouse) -> None:
    hidden = Tabular.objects.get(name=NAME)
    for kind in (
        "deleted-tabulars",
        listing_key("deleted-tabulars", warehouse.pk, None),
        listing_key("search-tabular", f"closed {NAME}", warehouse.pk, None, None),
    ):
        for after in ([str(hidden.pk)], ["1.0", str(hidden.pk)]):
            assert ask(write_page_token(kind, *after)).refused(400, "InvalidPaginationToken")


def test_a_token_begins_no_list_of_another_warehouse_or_search(ask: Ask, elsewhere: Warehouse, lake: Any) -> None:
    token = ask().json()["next-page-token"]
    give("ownership", ObjectRef(T.WAREHOUSE, elsewhere.pk), user("bob"))
    assert seen(ask(at=f"/warehouse/{elsewhere.pk}")) == []
    assert ask(token, at=f"/warehouse/{elsewhere.pk}").refused(400, "InvalidPaginationToken")
    assert ask(token, text=str(lake["open"][1])).refused(400, "InvalidPaginationToken")
