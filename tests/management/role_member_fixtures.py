"""Users, roles and memberships as the management API has them."""

from __future__ import annotations

from typing import Any

from tenancy.actor import INTERNAL
from tenancy.models import User
from tenancy.selectors.projects import get_project
from tenancy.services.roles import create_role
from tests.harness.wsgi_client import ApiClient, Response

api = ApiClient("/management/v1")


def user(name: str) -> dict[str, str]:
    """A new user as a member."""
    User.objects.create(id=f"oidc~{name}", name=name.title(), email=f"{name}@example.com")
    return {"type": "user", "id": f"oidc~{name}"}


def role(name: str) -> dict[str, str]:
    """A new role as a member."""
    return {"type": "role", "id": str(create_role(actor=INTERNAL, project=get_project(None), name=name).pk)}


def add(outer: dict[str, str], *members: Any) -> Response:
    return api.post(f"/role/{outer['id']}/members", {"members": members})


def members_of(outer: dict[str, str], rest: str = "") -> list[str]:
    response = api.get(f"/role/{outer['id']}/members{rest}")
    assert response.status == 200, response.body
    return [member["id"] for member in response.json()["members"]]
