"""Access reviews agree with the evaluator for every user and every object."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor
from tenancy.authz import permissions
from tenancy.authz.access_review import ACTIONS_OF_ALL_USERS
from tenancy.authz.actions import ACTIONS_ON, Can
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.model import rights_model
from tenancy.authz.port import Subject
from tenancy.models import Grant, Role, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.object_reviews import ObjectReview, Principal
from tenancy.selectors.principal_reviews import PrincipalReview
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give, role
from tests.conftest import IS_LONG

pytestmark = pytest.mark.django_db

Reported = dict[str, dict[str, list[Can]]]
"""By securable and principal, `user:<id>` or `role:<id>`."""


def of_principal(who: Principal) -> str:
    return f"user:{who.user_id}" if who.role_id is None else f"role:{who.role_id}"


def asked(users: Sequence[str], roles: Sequence[UUID], tree: dict[str, ObjectRef]) -> Reported:
    """Return what the port allows, without principals that are denied everything."""
    actors = {f"user:{each}": Actor(user_id=each, is_check_subject=True) for each in users}
    actors |= {f"role:{each}": Actor(assumed_role=each, is_check_subject=True) for each in roles}
    found: Reported = {}
    for ref in tree.values():
        actions = [each for each in ACTIONS_ON[ref[0]] if (ref[0], each) not in ACTIONS_OF_ALL_USERS]
        # `assume` is in no list of actions: it is the permission that the privilege `assignee` gives.
        for name, actor in actors.items():
            responses = permissions.check_permissions(actor, [(each, ref) for each in actions])
            allowed = [each for each, response in zip(actions, responses, strict=True) if response]
            if allowed or (ref[0] is T.ROLE and permissions.is_allowed(actor, Can.ASSUME, *ref)):
                found.setdefault(securable_id(*ref), {})[name] = allowed
    return found


def reviewed(tree: dict[str, ObjectRef], *, size: int) -> Reported:
    """Return the contents of the objects' reviews, read page by page."""
    found: Reported = {}
    for ref in tree.values():
        review, after = ObjectReview(ref), ""
        while True:
            entries, end = review.page(after=after, limit=size)
            for who, rights in entries:
                here = found.setdefault(securable_id(*ref), {})
                assert of_principal(who) not in here
                has_actions = bool(rights.effective.actions) or "assignee" in rights.effective.privileges
                if has_actions:
                    here[of_principal(who)] = list(rights.effective.actions)
            if end is None:
                break
            after = end
        if not found.get(securable_id(*ref), True):
            del found[securable_id(*ref)]
    return found


def reached(users: Sequence[str], roles: Sequence[UUID], tree: dict[str, ObjectRef], *, size: int) -> Reported:
    """Return what the reviews of the principals show of the warehouse and its contents."""
    askers = {f"user:{each}": Subject(each, None, "", ()) for each in users}
    askers |= {f"role:{each}": Subject(None, each, "", ()) for each in roles}
    found: Reported = {}
    for name, asker in askers.items():
        review, after, seen = PrincipalReview(asker), "", list[str]()
        while True:
            entries, end = review.objects(tree["wh"], after=after, limit=size)
            for own_id, rights in entries:
                seen.append(own_id)
                if rights.effective.actions:
                    found.setdefault(own_id, {})[name] = list(rights.effective.actions)
            if end is None:
                break
            assert end > after
            after = end
        assert len(seen) == len(set(seen))
    return found


def agree(users: Sequence[str], roles: Sequence[UUID], tree: dict[str, ObjectRef], *, size: int) -> None:
    expected = asked(users, roles, tree)
    assert reviewed(tree, size=size) == expected
    below = {securable_id(*ref) for ref in tree.values() if ref[0] not in {T.SERVER, T.PROJECT, T.ROLE, T.TAG}}
    assert reached(users, roles, tree, size=size) == {
        own_id: {name: actions for name, actions in reported.items() if actions}
        for own_id, reported in expected.items()
        if own_id in below
    }


def own_id_of(created: Role) -> UUID:
    return UUID(str(created.pk))


def test_each_privilege_on_each_object(tree: dict[str, ObjectRef], builtin: BuiltinAuthorizer) -> None:
    """One user for each privilege."""
    users = []
    for name, ref in tree.items():
        if name == "role":
            continue  # has no row of a role of its own
        for privilege in rights_model().privileges(ref[0].value):
            who = user(f"{name}-{privilege}")
            give(privilege, ref, who)
            users.append(str(who.user_id))
    del tree["role"]
    agree(users, [], tree, size=7)


def test_nested_roles_owners_ends_and_managed_access(tree: dict[str, ObjectRef], builtin: BuiltinAuthorizer) -> None:
    outer, middle, inner, owned = role("outer"), role("middle"), role("inner"), role("owned", source="x")
    del tree["role"]
    tree["owned"] = ObjectRef(T.ROLE, owned.pk)
    RoleMember.objects.create(role=outer, member_role=middle)
    RoleMember.objects.create(role=middle, member_role=inner)
    RoleMember.objects.create(role=inner, member_role=outer)  # a cycle
    give("assignee", ObjectRef(T.ROLE, inner.pk), user("ann"))
    give("ownership", ObjectRef(T.ROLE, owned.pk), user("bob"))
    give("select", tree["inner"], user("cy"), to=outer)
    give("ownership", tree["table"], user("dan"))
    give("ownership", tree["other"], user("eve"), to=owned)
    give("modify", tree["project"], user("fay"))
    give("manage_grants", tree["outer"], user("gus"))
    give("describe", tree["view"], user("hal"))
    past = datetime.now(UTC) - timedelta(seconds=1)
    Grant.objects.filter(user_id="oidc~fay").update(expires_at=past)
    Securable.objects.filter(pk=securable_id(*tree["outer"])).update(managed_access=True)
    users = [f"oidc~{each}" for each in ("ann", "bob", "cy", "dan", "eve", "fay", "gus", "hal")]
    roles = [own_id_of(each) for each in (outer, middle, inner, owned)]
    for size in (1, 3, 100):
        agree(users, roles, tree, size=size)
    reported = reviewed(tree, size=100)
    table = reported[securable_id(*tree["table"])]
    assert Can.READ_DATA in table["user:oidc~ann"]
    assert Can.READ_GRANTS not in table["user:oidc~dan"]  # managed access
    assert "user:oidc~fay" not in table
    RoleMember.objects.filter(role=inner, user_id="oidc~ann").update(expires_at=past)
    agree(users, roles, tree, size=3)
    assert "user:oidc~ann" not in reviewed(tree, size=100)[securable_id(*tree["table"])]


@pytest.mark.parametrize("seed", range(12 if IS_LONG else 4))
def test_random_rights(tree: dict[str, ObjectRef], builtin: BuiltinAuthorizer, seed: int) -> None:
    random = Random(seed)
    del tree["role"]
    roles = [role(f"r{number}") for number in range(5)]
    for number, each in enumerate(roles):
        tree[f"role{number}"] = ObjectRef(T.ROLE, each.pk)
    ends = [None, None, None, datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)]
    users = [f"oidc~u{number}" for number in range(6)]
    User.objects.bulk_create(User(id=each, name=each) for each in users)
    for _ in range(random.randint(5, 25)):
        ref = tree[random.choice(sorted(tree))]
        privilege = random.choice(rights_model().privileges(ref[0].value))
        who, to = user(f"u{random.randrange(6)}"), random.choice([None, *roles])
        if to is not None and ref == ObjectRef(T.ROLE, to.pk):
            continue
        try:
            give(privilege, ref, who, to=to)
        except CatalogError:  # the role would be a member of itself
            continue
        if to is not None and random.random() < 0.7:
            RoleMember.objects.get_or_create(role=to, user_id=who.user_id)
    for row in [*Grant.objects.all(), *RoleMember.objects.all()]:
        row.expires_at = random.choice(ends)
        row.save()
    for own in ("outer", "inner", "wh"):
        Securable.objects.filter(pk=securable_id(*tree[own])).update(managed_access=random.random() < 0.4)
    builtin.clear_caches()
    agree(users, [own_id_of(each) for each in roles], tree, size=random.choice([1, 2, 5, 50]))
