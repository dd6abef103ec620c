"""Which roles of a project a user has."""

from __future__ import annotations

import pytest

from tenancy.actor import INTERNAL
from tenancy.models import Project, Role, RoleMember, User
from tenancy.selectors.projects import get_project
from tenancy.selectors.roles import roles_of
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.roles import create_role
from tests.management.test_roles import other_project  # noqa: F401 - a fixture
from tests.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped")]

api = ApiClient("/management/v1")


def test_the_roles_of_a_user_are_those_of_membership_and_token_and_what_they_are_in(
    other_project: Project,  # noqa: F811
) -> None:
    project = get_project(None)
    user, other = (User.objects.create(id=f"oidc~{name}", name=name) for name in ("u", "other"))
    roles = {name: create_role(actor=INTERNAL, project=project, name=name) for name in ("a", "b", "c", "d")}
    token = create_role(actor=INTERNAL, project=project, name="token", provider_id="oidc", source_id="staff")
    twin = create_role(actor=INTERNAL, project=project, name="twin", provider_id="entra", source_id="staff")
    elsewhere = create_role(actor=INTERNAL, project=other_project, name="x", provider_id="oidc", source_id="staff")
    for outer, members in (
        (roles["a"], Members([user.pk])),
        (roles["b"], Members([], [roles["a"].pk])),
        (roles["c"], Members([], [roles["b"].pk, token.pk])),
        (roles["d"], Members([other.pk], [twin.pk])),
    ):
        add_role_members(actor=INTERNAL, project=project, role_id=outer.pk, members=members)
    add_role_members(actor=INTERNAL, project=other_project, role_id=elsewhere.pk, members=Members([user.pk]))

    def held(user_id: str, *token_roles: tuple[str, str], project_id: str = project.pk) -> set[str]:
        found = roles_of(user_id=user_id, project_id=project_id, token_roles=token_roles)
        return {Role.objects.get(pk=role_id).name for role_id in found}

    assert held(user.pk) == {"a", "b", "c"}
    assert held("oidc~nobody") == set()
    assert held("oidc~nobody", ("oidc", "staff")) == {"token", "c"}
    assert held(other.pk, ("entra", "staff"), ("oidc", "missing"), ("oidc", "\x00")) == {"twin", "d"}
    assert held("oidc~nobody", ("entra", "x"), ("ldap", "staff")) == set()
    assert held(user.pk, ("oidc", "staff"), project_id="other") == {"x"}
    assert held(user.pk, project_id="missing") == set()


def test_a_cycle_that_came_about_otherwise_does_no_harm() -> None:
    project = get_project(None)
    user = User.objects.create(id="oidc~u", name="u")
    one, two = (create_role(actor=INTERNAL, project=project, name=name) for name in ("one", "two"))
    RoleMember.objects.create(role=one, member_role=two)
    RoleMember.objects.create(role=two, member_role=one)
    RoleMember.objects.create(role=two, user=user)
    assert roles_of(user_id=user.pk, project_id=project.pk) == {one.pk, two.pk}
    for role, others in ((one, [two]), (two, [one])):
        target = f"/role/{role.pk}"
        above = api.get(f"{target}/member-of/transitive").json()["roles"]
        assert [each["id"] for each in above] == [str(other.pk) for other in others]
        below = api.get(f"{target}/members/transitive").json()["members"]
        assert [each["id"] for each in below] == [*(str(other.pk) for other in others), user.pk]
    assert len(api.get("/user/oidc~u/roles/transitive").json()["roles"]) == 2
    third = create_role(actor=INTERNAL, project=project, name="three")
    body = {"members": [{"type": "role", "id": str(third.pk)}]}
    assert api.post(f"/role/{one.pk}/members", body).status == 200
