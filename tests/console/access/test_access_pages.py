"""The pages of the group "Access": grants of a principal, access review, and its CSV."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from html import unescape

import pytest

from icekeeper.kernel.clock import now
from management.access_review_csv import PRINCIPAL_HEADER, REACHED_HEADER
from management.csv_files import cell
from tenancy.actor import INTERNAL
from tenancy.models import Grant
from tenancy.services.projects import create_project
from tests.console.access.conftest import SignIn
from tests.console.access.lake import HOSTILE, Lake

pytestmark = pytest.mark.django_db
GRANTS, REVIEW = "/ui/access/", "/ui/access/review/"


@pytest.mark.parametrize("url", [GRANTS, REVIEW])
@pytest.mark.parametrize(
    ("user", "who", "status"),
    [
        ("steward", "user:local~engineer", 200), ("steward", "", 200), ("engineer", "", 200),
        ("engineer", "user:local~engineer", 200), ("engineer", "user:local~jun", 403), ("guest", "", 200),
        ("guest", "user:local~jun", 200), ("admin", "user:local~jun", 200),
    ],
)  # fmt: skip
def test_statuses_are_those_of_the_api(lake: Lake, sign_in: SignIn, url: str, user: str, who: str, status: int) -> None:
    response = sign_in(user).get(url, {"who": who})
    assert response.status_code == status
    if user == "guest":  # who sees no project
        assert "You see no project." in response.content.decode()


@pytest.mark.parametrize("url", [GRANTS, REVIEW])
def test_other_projects_do_not_exist_for_the_viewer(lake: Lake, sign_in: SignIn, url: str) -> None:
    other = create_project(actor=INTERNAL, name="other", project_id="other")
    query = {"project": other.pk, "who": "user:local~engineer"}
    assert sign_in("engineer").get(url, query).status_code == 404
    assert sign_in("engineer").get(url, {**query, "project": "missing"}).status_code == 404


def test_grants_of_a_principal_are_linked_and_escaped(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "plans", "local~engineer", expires_at=now() + timedelta(days=1))
    text = sign_in("steward").get(GRANTS, {"who": "user:local~engineer"}).content.decode()
    assert lake.url("orders") in text
    assert lake.url("plans") in text
    assert HOSTILE not in text
    assert HOSTILE.replace("{{ 7|add:7 }}", "14") not in unescape(text)
    Grant.objects.filter(user_id="local~engineer", privilege="select").update(expires_at=now() - timedelta(seconds=1))
    assert lake.url("plans") not in sign_in("steward").get(GRANTS, {"who": "user:local~engineer"}).content.decode()


def test_grants_on_hidden_objects_have_no_name(lake: Lake, sign_in: SignIn) -> None:
    lake.give("admin", "server", "local~guest")
    lake.give("select", "plans", "local~engineer")
    text = sign_in("guest").get(GRANTS, {"who": "user:local~engineer"}).content.decode()
    assert f"table {lake.plans.uuid}" in text
    assert "plans" not in text
    assert "sales" not in text
    assert lake.url("plans") not in text


def test_grants_of_a_role_are_listed(lake: Lake, sign_in: SignIn) -> None:
    text = sign_in("steward").get(GRANTS, {"who": f"role:{lake.analysts.pk}"}).content.decode()
    assert lake.url("sales") in text


@pytest.mark.parametrize("url", [GRANTS, REVIEW])
@pytest.mark.parametrize("who", ["x", "role:1", "user:", "user:no-provider"])
def test_texts_that_are_no_principal_are_errors_of_the_form(lake: Lake, sign_in: SignIn, url: str, who: str) -> None:
    response = sign_in("steward").get(url, {"who": who})
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()


@pytest.mark.parametrize("url", [GRANTS, REVIEW])
def test_pages_of_lists_have_every_entry_once(
    lake: Lake, sign_in: SignIn, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sales", "lines", "plans", "warehouse"):
        lake.give("describe", name, "local~engineer")
    monkeypatch.setattr("management.admin.access.principal_grants.ROWS_A_PAGE", 2)
    client, seen, address = sign_in("steward"), 0, f"{url}?who=user:local~engineer"
    for _ in range(10):
        text = client.get(address).content.decode()
        seen += text.count("<tr><td>" if url == GRANTS else '<tr><td class="ik-mono">')
        if "after=" not in text:
            break
        foot = text.split('<div class="ik-card-foot"><a class="ik-button ik-button--small" href="')[1]
        address = unescape(foot.partition('"')[0])
    assert seen == 5


def test_a_review_shows_roles_and_effects(lake: Lake, sign_in: SignIn) -> None:
    text = unescape(sign_in("steward").get(REVIEW, {"who": "user:local~jun"}).content.decode())
    assert f"bi-emea \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} analysts {HOSTILE}" in text
    assert "table: describe, select" in text


def test_a_review_of_a_warehouse_shows_its_objects_and_why(lake: Lake, sign_in: SignIn) -> None:
    query = {"who": "user:local~jun", "warehouse": str(lake.warehouse.pk)}
    text = sign_in("steward").get(REVIEW, query).content.decode()
    assert lake.url("lines") in text
    assert lake.url("plans") not in text
    assert "a visible object below" in text
    assert sign_in("steward").get(REVIEW, {**query, "warehouse": "x"}).status_code == 400
    assert sign_in("engineer").get(REVIEW, {**query, "who": ""}).status_code == 200


@pytest.mark.parametrize("is_of_warehouse", [False, True])
def test_the_csv_is_that_of_the_api(lake: Lake, sign_in: SignIn, is_of_warehouse: bool) -> None:
    query = {"who": "user:local~jun", "format": "csv"}
    if is_of_warehouse:
        query["warehouse"] = str(lake.warehouse.pk)
    response = sign_in("steward").get(REVIEW, query)
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/csv")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    rows = list(csv.reader(io.StringIO(response.getvalue().decode())))
    assert tuple(rows[0]) == (REACHED_HEADER if is_of_warehouse else PRINCIPAL_HEADER)
    assert len(rows) > 2
    denied = sign_in("engineer").get(REVIEW, query)
    assert denied.status_code == 403


def test_the_navigation_has_the_pages(lake: Lake, sign_in: SignIn) -> None:
    text = sign_in("engineer").get(REVIEW).content.decode()
    assert f'href="{GRANTS}"' in text
    assert f'href="{REVIEW}" aria-current="page"' in text


def test_inherited_grants_are_listed_with_their_object(lake: Lake, sign_in: SignIn) -> None:
    text = sign_in("steward").get(lake.url("lines")).content.decode()
    table = text[text.index('id="grants"') :]
    assert f'<a href="{lake.url("sales")}">' in table
    assert f'<a href="{lake.url("orders")}">' in table
    assert f'<a href="{lake.url("project")}">' in table


def test_inherited_grants_on_hidden_objects_are_not_named(lake: Lake, sign_in: SignIn) -> None:
    lake.give("manage_grants", "lines", "local~guest")
    text = sign_in("guest").get(lake.form("lines")).content.decode()
    assert "namespace, not visible to you" in text
    assert "sales" not in text
    assert lake.url("sales") not in text


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("x;=1+1", "x;'=1+1"),
        ("x; \t@A1", "x; \t'@A1"),
        ('x;"=1', "x;\"'=1"),
        ("a|-1\n+2", "a|'-1\n'+2"),
        ("x;y=1", "x;y=1"),
    ],
)
def test_formulas_after_separators_get_an_apostrophe(given: str, written: str) -> None:
    assert cell(given) == written
