"""The entries of the sidebar: only lists that the user may open, with few statements, and also on error pages."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from tenancy.actor import INTERNAL, Actor
from tenancy.authz.port import AuthorizationBackendError
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors import console_sections
from tenancy.selectors.console_sections import GUARDED, find_open_sections
from tenancy.services.projects import create_project
from tests.authz.tree_fixtures import give
from tests.console.accounts.conftest import Kind, SignIn

pytestmark = pytest.mark.django_db


def test_entries_by_kind_of_user(sign_in: SignIn) -> None:
    for kind in Kind:
        sign_in(kind)
    allowed = {kind: find_open_sections(actor=Actor(user_id=kind.value)).allowed for kind in Kind}
    assert allowed == {
        Kind.ROOT: GUARDED,
        Kind.LEAD: {"roles", "tags", "audit", "events", "change-rules", "statistics", "sql"},
        Kind.ENGINEER: {"roles", "tags", "statistics", "sql"},
        Kind.GUEST: set(),
    }


def test_projects_that_the_user_does_not_see_are_not_counted(sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of many projects is the only one of the user."""
    sign_in(Kind.GUEST)
    newest = create_project(actor=INTERNAL, name="newest")
    give("project_admin", ObjectRef(Securable.Type.PROJECT, newest.pk), Actor(user_id=Kind.GUEST.value))
    monkeypatch.setattr(console_sections, "MAX_PROJECTS", 1)
    assert {"roles", "sql"} <= find_open_sections(actor=Actor(user_id=Kind.GUEST.value)).allowed


def test_statements_do_not_depend_on_the_number_of_projects(sign_in: SignIn) -> None:
    sign_in(Kind.ENGINEER)
    counts = []
    for number in (0, 20):
        for each in range(number):
            create_project(actor=INTERNAL, name=f"project {each}")
        with CaptureQueriesContext(
            connection,
        ) as statements:
            find_open_sections(actor=Actor(user_id=Kind.ENGINEER.value))
        counts.append(len(statements))
    assert counts[0] == counts[1]
    assert counts[0] <= 4


def test_parts_of_pages_have_no_sidebar(sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    engineer = sign_in(Kind.ENGINEER)
    calls: list[object] = []
    monkeypatch.setattr("management.admin.navigation.find_open_sections", lambda **given: calls.append(given))
    assert engineer.get("/ui/catalog/tree/").status == 200
    assert calls == []


@pytest.mark.parametrize("error", [AuthorizationBackendError("down"), OperationalError("down")])
def test_error_pages_have_a_sidebar_also_when_nothing_can_be_checked(
    sign_in: SignIn, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    lead = sign_in(Kind.LEAD)

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr("management.admin.navigation.find_open_sections", fail)
    page = lead.get("/ui/nothing/")
    assert page.status == 404
    assert ('href="/ui/catalog/"' in page.text, 'href="/ui/role/"' in page.text) == (True, False)
