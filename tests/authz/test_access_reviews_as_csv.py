"""Access reviews as CSV: complete, and safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest
from django.test import RequestFactory

from catalog.models import Tabular
from icekeeper.kernel.errors.types import BadRequest
from management.access_review_csv import OBJECT_HEADER, PRINCIPAL_HEADER, REACHED_HEADER
from management.api.access_reviews.csv_export import wants_csv
from management.csv_files import cell
from tenancy.models import Role, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors import access_reviews
from tenancy.selectors.access_reviews import ReviewNotFinished, read_all
from tests.authz.conftest import user
from tests.authz.grant_change_fixtures import Refs
from tests.authz.object_path_fixtures import path_of
from tests.authz.tree_fixtures import T, give, role
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.both_databases

Manage = Callable[[str], CallerClient]


def rows(response: Response) -> list[dict[str, str]]:
    assert response.status == 200, response.body
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="')
    return list(csv.DictReader(io.StringIO(response.body.decode(), newline="")))


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@A1", "'@A1"), ("\tx", "'\tx"), ("\rx", "'\rx"),
        ("\n=1", "'\n'=1"), ("x;=1+1", "x;'=1+1"),
        (" =1", "' =1"), ("\u00a0@x", "'\u00a0@x"), ("\uff1d1", "'\uff1d1"), ("a=1", "a=1"),
        ("", ""), (None, ""), ("'=1", "'=1"), ("a,b\"c", "a,b\"c"),
    ],
)  # fmt: skip
def test_formulas_get_an_apostrophe(given: str | None, written: str) -> None:
    assert cell(given) == written


@pytest.mark.parametrize(
    ("query", "accept", "is_csv"),
    [
        ("", "", False), ("", "*/*", False), ("", "text/csv", True), ("", "TEXT/CSV; charset=utf-8", True),
        ("", "text/csv;q=0, */*", False), ("", "application/json, text/csv", False),
        ("", "text/csv, application/json", True), ("?format=csv", "application/json", True),
        ("?format=json", "text/csv", False), ("", "text/html, text/csv", True), ("", ";;,,;", False),
    ],
)  # fmt: skip
def test_what_asks_for_csv(query: str, accept: str, is_csv: bool) -> None:
    assert wants_csv(RequestFactory().get(f"/{query}", headers={"accept": accept})) is is_csv


def test_no_other_format() -> None:
    with pytest.raises(BadRequest):
        wants_csv(RequestFactory().get("/?format=CSV"))


@pytest.mark.django_db
def test_hostile_names_in_a_file(refs: Refs, manage: Manage, builtin: object) -> None:
    team = role("=cmd|'/c calc'!A1")
    Role.objects.filter(pk=team.pk).update(name='=HYPERLINK("http://x","y")')
    User.objects.filter(pk="oidc~ann").update(name='@SUM(1)\r\n=2,"x"')
    give("assignee", ObjectRef(T.ROLE, team.pk), user("ann"))
    give("select", refs[T.TABLE], user("ann"), to=team)
    give("select", refs[T.TABLE], user("bob"))
    User.objects.filter(pk="oidc~bob").update(name="-Böb \u202e")
    Tabular.objects.filter(pk=refs[T.TABLE][1]).update(name="+1,2\n3")
    found = rows(manage("root").get(f"{path_of(refs[T.TABLE])}/access-review", accept="text/csv"))
    assert list(found[0]) == list(OBJECT_HEADER)
    assert {each["principal_name"] for each in found} == {
        "'=HYPERLINK(\"http://x\",\"y\")", "'@SUM(1)\r\n'=2,\"x\"", "'-Böb \u202e", "n",
    }  # fmt: skip
    assert all(each["object_name"].endswith(" / open / +1,2\n3") for each in found)
    (ann,) = [each for each in found if each["principal_id"] == "oidc~ann"]
    assert ann["via_role_names"] == '\'=HYPERLINK("http://x","y")'
    assert (ann["privileges"], ann["basis"]) == ("describe select", "grant")
    assert ann["granted_privilege"] == "select"


@pytest.mark.django_db
def test_it_is_whole(refs: Refs, manage: Manage, builtin: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CSV has the same rows as the pages, in however many chunks it is read."""
    for number in range(9):
        give("select", refs[T.NAMESPACE], user(f"p{number}"))
        give("modify", refs[T.TABLE], user(f"p{number}"))
    use_settings(monkeypatch, instance_admins=("oidc~ada",))
    root, location = manage("root"), f"{path_of(refs[T.TABLE])}/access-review"
    at_once = rows(root.get(f"{location}?format=csv"))
    monkeypatch.setattr(access_reviews, "CHUNK", 2)
    assert rows(root.get(f"{location}?format=csv")) == at_once
    assert [each["basis"] for each in at_once].count("instance-admin") == 1
    principals = {each["principal"]["id"]: each for each in root.get(location).json()["principals"]}
    assert {each["principal_id"] for each in at_once} == {*principals, "oidc~ada"}
    assert len(at_once) == 1 + sum(len(each["grants"]) for each in principals.values())
    mine = "principalUser=oidc~p1&format=csv"
    held = rows(root.get(f"/access-review?{mine}"))
    assert list(held[0]) == list(PRINCIPAL_HEADER)
    assert [each["granted_privilege"] for each in held] == ["select", "modify"]
    assert "table: describe select" in held[0]["below"]
    objects = rows(root.get(f"/warehouse/{refs[T.WAREHOUSE][1]}/reached-objects?{mine}"))
    assert list(objects[0]) == list(REACHED_HEADER)
    assert [(each["object_type"], each["basis"]) for each in objects][:2] == [
        ("warehouse", "shown-from-below"), ("namespace", "grant"),
    ]  # fmt: skip
    assert len(objects) == 7  # the table twice: by its own grant and by the namespace's


def test_what_takes_too_long_does_not_look_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, max_request_time=0)
    parts = read_all(lambda after, limit: (after, "more"))
    assert next(parts) == ""
    with pytest.raises(ReviewNotFinished):
        next(parts)
