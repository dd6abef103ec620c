"""The built-in evaluator and OpenFGA agree on every privilege, on every object type, along every derivation path."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import product

import pytest
from django.db import transaction

from icekeeper.kernel.clock import now
from tenancy.actor import ANONYMOUS, Actor, Identity
from tenancy.authz.actions import Can
from tenancy.authz.model import rights_model
from tenancy.authz.securables import move_securable_tree
from tenancy.models import Role, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tests.authz.conftest import user
from tests.authz.parity.pair_fixtures import Pair, T, another_user, grant, member
from tests.authz.tree_fixtures import SHAPE, role
from tests.conftest import IS_LONG

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

FLAGGED = ("wh", "outer", "inner")
ONE_OF_A_TYPE = ("server", "project", "wh", "inner", "table", "view", "generic", "role", "tag")
TREE = {"server": T.SERVER, "project": T.PROJECT, "wh": T.WAREHOUSE} | {name: each for name, each, _ in SHAPE}


def by_themselves(number: int, ref: ObjectRef, privilege: str) -> Actor:
    actor = user(f"direct{number}")
    grant(ref, privilege, user_id=another_user(actor.user_id))
    return actor


def through_a_role(number: int, ref: ObjectRef, privilege: str) -> Actor:
    actor, group = user(f"member{number}"), role(f"role{number}")
    member(group.pk, user_id=another_user(actor.user_id))
    grant(ref, privilege, role_id=group.pk)
    return actor


def through_roles_in_roles(number: int, ref: ObjectRef, privilege: str) -> Actor:
    """Roles nested three levels deep, with a cycle."""
    actor = user(f"nested{number}")
    inner, middle, outer = (role(f"{name}{number}") for name in ("inner", "middle", "outer"))
    member(inner.pk, user_id=another_user(actor.user_id))
    member(middle.pk, role=inner.pk)
    member(outer.pk, role=middle.pk)
    member(inner.pk, role=outer.pk)
    grant(ref, privilege, role_id=outer.pk)
    return actor


def through_an_owned_role(number: int, ref: ObjectRef, privilege: str) -> Actor:
    """The user owns a role that owns the role with the grant."""
    actor, owned, had = user(f"owner{number}"), role(f"owned{number}"), role(f"had{number}")
    grant(ObjectRef(T.ROLE, owned.pk), "ownership", user_id=another_user(actor.user_id))
    grant(ObjectRef(T.ROLE, had.pk), "ownership", role_id=owned.pk)
    grant(ref, privilege, role_id=had.pk)
    return actor


def through_an_assumed_role(number: int, ref: ObjectRef, privilege: str) -> Actor:
    """The assumed role is a member of the role with the grant; the user's own grants do not count."""
    assumed, had = role(f"assumed{number}"), role(f"above{number}")
    user_id = another_user(f"oidc~assumes{number}")
    grant(ref, privilege, role_id=had.pk)
    member(had.pk, role=assumed.pk)
    return Actor(user_id=user_id, assumed_role=assumed.pk)


def through_a_role_of_the_token(number: int, ref: ObjectRef, privilege: str) -> Actor:
    """A role of the token is a member of the role with the grant."""
    named, had = role(f"named{number}", source=f"source{number}"), role(f"behind{number}")
    member(had.pk, role=named.pk)
    grant(ref, privilege, role_id=had.pk)
    return user(f"token{number}", f"source{number}", "unknown", "hostile#*:\x00 source")


def for_a_while(number: int, ref: ObjectRef, privilege: str) -> Actor:
    actor, group = user(f"while{number}"), role(f"while{number}")
    later = now() + timedelta(hours=1)
    member(group.pk, user_id=another_user(actor.user_id), expires_at=later)
    grant(ref, privilege, role_id=group.pk, expires_at=later)
    return actor


def no_longer(number: int, ref: ObjectRef, privilege: str) -> Actor:
    """Grants that have expired: of the user, of a role of the user, and of the membership."""
    actor, left, ended = user(f"ended{number}"), role(f"left{number}"), role(f"ended{number}")
    before = now() - timedelta(seconds=1)
    grant(ref, privilege, user_id=another_user(actor.user_id), expires_at=before)
    member(left.pk, user_id=actor.user_id, expires_at=before)
    grant(ref, privilege, role_id=left.pk)
    member(ended.pk, user_id=actor.user_id)
    grant(ref, privilege, role_id=ended.pk, expires_at=before)
    return actor


WAYS = [
    by_themselves,
    through_a_role,
    through_roles_in_roles,
    through_an_owned_role,
    through_an_assumed_role,
    through_a_role_of_the_token,
    for_a_while,
    no_longer,
]


SHARES = 1 if IS_LONG else 6
"""A way through roles is asked about one object in `SHARES`, others for each way and privilege: OpenFGA spends nearly
all time of this module on checks.
"""


def asked_about(way: Callable[[int, ObjectRef, str], Actor], granted: str, number: int) -> list[str]:
    """Return the objects of the tree that the grantee of the `number`-th privilege on `granted` is asked about.

    Who holds it directly is asked about all, others about one object in `SHARES` and that of the grant.
    """
    first = WAYS.index(way) + number
    return [
        name
        for position, name in enumerate(TREE)
        if way is by_themselves or name == granted or (first + position) % SHARES == 0
    ]


def test_every_object_is_asked_about() -> None:
    """Each grant is asked about on every object by some way; each way on every object after some grant."""
    grants = [
        (name, number) for name in ONE_OF_A_TYPE for number, _ in enumerate(rights_model().privileges(TREE[name]))
    ]
    for each in grants:
        assert set(TREE) == {name for way in WAYS[1:-1] for name in asked_about(way, *each)}
    for way in WAYS:
        assert set(TREE) == {name for each in grants for name in asked_about(way, *each) if name != each[0]}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_privilege_on_every_type(
    pair: Pair, tree: dict[str, ObjectRef], way: Callable[[int, ObjectRef, str], Actor]
) -> None:
    for name in ONE_OF_A_TYPE:
        with transaction.atomic():  # object after object: with all their roles at once OpenFGA would take minutes
            privileges = rights_model().privileges(tree[name][0].value)
            actors = {each: way(number, tree[name], each) for number, each in enumerate(privileges)}
            pair.deliver()
            for number, (privilege, actor) in enumerate(actors.items()):
                responses = pair.agreed(actor, [tree[each] for each in asked_about(way, name, number)])
                assert any(responses.values()) == (way is not no_longer and privilege != "pass_grants"), (
                    name,
                    privilege,
                )
            transaction.set_rollback(True)


@pytest.mark.parametrize("flagged", list(product([False, True], repeat=3)))
def test_managed_access_on_every_level(pair: Pair, tree: dict[str, ObjectRef], flagged: tuple[bool, ...]) -> None:
    for name, is_managed in zip(FLAGGED, flagged, strict=True):
        Securable.objects.filter(pk=securable_id(*tree[name])).update(managed_access=is_managed)
    actors = {}
    ways = (by_themselves, through_an_assumed_role)
    owned = list(product(("wh", "outer", "inner", "table"), ("ownership", "manage_grants")))
    for number, (name, privilege) in enumerate(owned):
        for way in ways:
            actors[name, privilege, way] = way(number, tree[name], privilege)
    pair.deliver()
    for number, (name, privilege) in enumerate(owned):
        # In a short run the ways alternate with the objects and the number of flags.
        for way in ways if IS_LONG else (ways[(sum(flagged) + number // 2) % 2],):
            pair.agreed(
                actors[name, privilege, way], [tree[each] for each in ("wh", "outer", "inner", "table", "view")]
            )
    is_restricted = {"wh": False, "outer": flagged[0], "inner": any(flagged[:2]), "table": any(flagged)}
    for name, is_kept_from in is_restricted.items():
        for way in ways:
            responses = pair.openfga.decide(actors[name, "ownership", way], [(Can.GRANT_SELECT, tree[name])])
            assert responses == [not is_kept_from], (name, way)


def test_objects_that_were_moved(pair: Pair, tree: dict[str, ObjectRef]) -> None:
    actors = [by_themselves(n, tree[name], "select") for n, name in enumerate(("outer", "other", "inner", "table"))]
    pair.deliver()
    before = [pair.agreed(actor, list(tree.values())) for actor in actors]
    move_securable_tree(*tree["inner"], parent=tree["other"])
    pair.deliver()
    after = [pair.agreed(actor, list(tree.values())) for actor in actors]
    asked = (Can.READ_DATA, tree["table"])
    assert [each[asked] for each in before] == [True, False, True, True]
    assert [each[asked] for each in after] == [False, True, True, True]
    shown = [[each[Can.GET_METADATA, tree[name]] for each in after] for name in ("outer", "other")]
    assert shown == [[True, False, False, False], [False, True, True, True]]


def test_principals_without_grants(pair: Pair, tree: dict[str, ObjectRef]) -> None:
    deleted = role("deleted")
    through_a_role(1, tree["server"], "operator")
    pair.deliver()
    Role.objects.filter(pk=deleted.pk).delete()
    strangers = [
        ANONYMOUS,
        user("stranger"),
        Actor(user_id="oidc~stranger", assumed_role=deleted.pk),
        user("stranger", "nothing"),
        Actor(user_id="oidc~*", identity=Identity("oidc~*", "oidc", "human")),
        Actor(user_id="*", identity=Identity("*", "oidc", "human")),
        Actor(user_id="oidc~a b#c:d\u202e%20", identity=None),
    ]
    for actor in strangers:
        assert not any(pair.agreed(actor, list(tree.values())).values()), actor


def test_users_are_distinguished_by_case(pair: Pair, tree: dict[str, ObjectRef]) -> None:
    """Ids that are too long for OpenFGA in their encoded form are distinguished, too."""
    subjects = ["a", "A", "a%20", "a ", "\u00e4", "a\u0308", "a#b", "a:b", "*", "\u00df" * 63]
    ids = [f"oidc~{each}" for each in subjects] + [f"{'p' * 127}~{'#' * 126}{end}" for end in "#$"]
    objects = [name for name in tree if name in {"wh", "outer", "inner", "table", "view", "generic"}]
    given = list(product(objects, ("select", "modify")))
    for user_id, (name, privilege) in zip(ids, given, strict=True):
        grant(tree[name], privilege, user_id=another_user(user_id))
    pair.deliver()
    responses = {user_id: pair.agreed(Actor(user_id=user_id), list(tree.values())) for user_id in ids}
    for user_id, (name, privilege) in zip(ids, given, strict=True):
        allowed = Can.SELECT if name == "view" else Can.READ_DATA
        can = {each for each, response in responses[user_id].items() if response}
        assert ((Can.SET_PROTECTION, tree[name]) in can) == (privilege == "modify"), user_id
        assert name not in {"table", "view", "generic"} or (allowed, tree[name]) in can
