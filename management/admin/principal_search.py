"""Search of users and roles that can become members of a role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from icekeeper.kernel.errors.types import BadRequest, Forbidden
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Actor, require_user_id
from tenancy.models import Project, Role
from tenancy.selectors.roles import RoleFilter, list_roles_for, search_roles_for
from tenancy.selectors.users import search_users

MAX_CANDIDATES: Final = 10
"""Of each kind."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A user or a role; `kind` is `user` or `role`, `note` distinguishes those of one name."""

    kind: str
    id: str
    name: str
    note: str
    icon: str


def list_candidates_for(*, actor: Actor, project: Project, typed: str) -> list[Candidate]:
    """Return roles of the project and users that match a text, as far as the actor may search for them.

    The id of a user who never called is a candidate, too: the service decides whether it accepts the id.
    """
    page = Page("console candidates", None, MAX_CANDIDATES)
    role_id = parse_id(typed)
    roles: list[Role] = []
    try:
        if role_id is not None:
            roles, _ = list_roles_for(actor=actor, project=project, wanted=RoleFilter(ids=[role_id]), page=page)
        else:
            roles, _ = search_roles_for(actor=actor, project=project, typed=typed, provider_ids=None, page=page)
    except Forbidden:
        pass  # only users are found
    found = [Candidate("role", str(each.pk), each.name, (each.description or "")[:80], "roles") for each in roles]
    users, _ = search_users(actor=actor, typed=typed, user_type=None, page=page)
    for user in users:
        icon = "service" if user.user_type == "application" else "user"
        found.append(Candidate("user", user.pk, user.name or user.pk, user.email or user.pk, icon))
    if _is_user_id(typed) and not any(each.id == typed for each in found):
        found.append(Candidate("user", typed, typed, "", "user"))
    return found


def _is_user_id(text: str) -> bool:
    try:
        require_user_id(text)
    except BadRequest:
        return False
    return True
