"""Audit of operations that only the instance administrator privilege allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings

from storage.models import Warehouse
from tenancy.audit.collector import collector
from tenancy.authz.port import AuthorizationBackendError, authorizer
from tenancy.models import AuditRecord, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tests.authz.conftest import good, user
from tests.authz.tree_fixtures import give, role
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Client = Callable[[str], CallerClient]


@pytest.fixture
def ada(client: Client, lake: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch) -> CallerClient:
    created = client("ada")
    admins = settings.ICEKEEPER.model_copy(update={"instance_admins": ["oidc~ada"]})
    monkeypatch.setattr(settings, "ICEKEEPER", admins)
    return created


def overridden() -> set[tuple[str, str, str]]:
    """Return the rows since the last call: action, type and id."""
    collector.write_due(is_last=True)
    rows = AuditRecord.objects.filter(event="access.overridden")
    assert {(row.actor, row.outcome, row.privilege_source) for row in rows} <= {
        ("oidc~ada", "allowed", "instance_admin")
    }
    found = {(row.action, row.object_type, row.object_id) for row in rows}
    rows.delete()
    return found


def test_data_by_drop_and_register(ada: CallerClient, root: CallerClient, lake: dict[str, ObjectRef]) -> None:
    at = "/namespaces/closed/tables/a"
    location = good(root.get(at)).json()["metadata-location"]
    assert ada.get(f"{at}/credentials").refused(403, "TableActionForbidden")
    overridden()
    good(ada.delete(at))
    registered = {"name": "mine", "metadata-location": location}
    assert ada.post("/namespaces/closed/register", registered).status == 200
    table, namespace = (str(lake[name][1]) for name in ("closed.a", "closed"))
    assert overridden() == {("drop", "table", table), ("create_table", "namespace", namespace)}
    assert ada.get("/namespaces/closed/tables/mine/credentials").status == 200
    assert overridden() == set(), "by ownership"


def test_operations_allowed_by_grants_are_not_recorded(
    ada: CallerClient, root: CallerClient, lake: dict[str, ObjectRef]
) -> None:
    give("modify", lake["closed"], user("ada"))
    good(ada.delete("/namespaces/closed/tables/a"))
    good(root.delete("/namespaces/closed/tables/b"))
    assert overridden() == set()


def test_members_of_administrating_roles(
    ada: CallerClient, manage: Client, lake: dict[str, ObjectRef], warehouse: Warehouse
) -> None:
    project = get_project(None)
    high = role("high")
    User.objects.create(id="oidc~bob", name="Bob")
    give("project_admin", ObjectRef(Securable.Type.PROJECT, project.pk), user("bob"), to=high)
    body = {"members": [{"type": "user", "id": "oidc~bob"}]}
    assert manage("ada").post(f"/role/{high.pk}/members", body).status == 200
    assert overridden() == {
        ("manage_role_assignments", "role", str(high.pk)),
        ("grant_project_admin", "project", project.pk),
    }


def test_while_the_backend_cannot_be_asked(
    ada: CallerClient, lake: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> list[bool]:
        raise AuthorizationBackendError("no response")

    monkeypatch.setattr(type(authorizer()), "decide", away)
    good(ada.delete("/namespaces/closed/tables/a"))
    assert ("drop", "table", str(lake["closed.a"][1])) in overridden()
