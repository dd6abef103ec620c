"""The built-in evaluator and OpenFGA agree on random trees, roles, grants and actors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from tenancy.actor import Actor, Identity
from tenancy.authz.actions import Can
from tenancy.authz.model import DOWN, rights_model
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Role, Securable, Server
from tenancy.models.securable import ObjectRef, securable_id
from tests.authz.parity.pair_fixtures import Pair, T, another_user, grant, member
from tests.conftest import IS_LONG

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3_600 if IS_LONG else 900)]

USERS = ("oidc~alice", "oidc~bob", "kubernetes~a/b#c d")
ENDS = (None, None, None, timedelta(hours=1), timedelta(seconds=-1))


@dataclass
class World:
    """The generated rows: objects in the order of their creation, roles, and actors."""

    objects: list[ObjectRef] = field(default_factory=list)
    roles: list[UUID] = field(default_factory=list)
    askers: list[Actor] = field(default_factory=list)


@st.composite
def plans(draw: st.DrawFn) -> dict[str, list[tuple[int, ...]]]:
    """Numbers that are used modulo the number of choices."""
    many = st.integers(0, 1_000)

    def rows(width: int, most: int) -> list[tuple[int, ...]]:
        return draw(st.lists(st.tuples(*[many] * width), max_size=most))

    return {
        "objects": rows(2, 14),
        "roles": rows(1, 5),
        "members": rows(4, 10),
        "grants": rows(5, 14),
        "managed": rows(1, 3),
        "askers": rows(3, 4),
    }


def create_world(plan: dict[str, list[tuple[int, ...]]]) -> World:
    world = World()
    server = ObjectRef(T.SERVER, Server.objects.get().server_id)
    project_id = str(new_id())
    Project.objects.create(id=project_id, name=project_id, name_key=project_id)
    add_securable(T.PROJECT, project_id, parent=server)
    world.objects += [server, ObjectRef(T.PROJECT, project_id)]
    for parent_number, type_number in plan["objects"]:
        parents = [each for each in world.objects if rights_model().links(each[0].value, DOWN) or each[0] is T.PROJECT]
        parents = [each for each in parents if each[0] is not T.SERVER]
        parent = parents[parent_number % len(parents)]
        below = [*rights_model().links(parent[0].value, DOWN), *(["tag"] if parent[0] is T.PROJECT else [])]
        created = ObjectRef(T(below[type_number % len(below)]), new_id())
        add_securable(*created, parent=parent)
        world.objects.append(created)
    for (is_of_provider,) in plan["roles"]:
        own_id = new_id()
        Role.objects.create(
            id=own_id,
            project_id=project_id,
            name=str(own_id),
            name_key=name_key(str(own_id)),
            provider_id="oidc" if is_of_provider % 2 else "lakekeeper",
            source_id=f"source{len(world.roles)}",
        )
        add_securable(T.ROLE, own_id, parent=ObjectRef(T.PROJECT, project_id))
        world.roles.append(own_id)
        world.objects.append(ObjectRef(T.ROLE, own_id))
    _relate(world, plan)
    world.askers = [_asker(world, numbers) for numbers in plan["askers"]] + [Actor(user_id=USERS[0])]
    return world


def _relate(world: World, plan: dict[str, list[tuple[int, ...]]]) -> None:
    at = now()
    done: set[object] = set()
    for role_number, kind, which, end in plan["members"] if world.roles else []:
        role_id = world.roles[role_number % len(world.roles)]
        within = ENDS[end % len(ENDS)]
        expires_at = None if within is None else at + within
        if kind % 2:
            inside = world.roles[which % len(world.roles)]
            if inside != role_id and (role_id, inside) not in done:
                done.add((role_id, inside))
                member(role_id, role=inside, expires_at=expires_at)
        elif (role_id, USERS[which % len(USERS)]) not in done:
            done.add((role_id, USERS[which % len(USERS)]))
            member(role_id, user_id=another_user(USERS[which % len(USERS)]), expires_at=expires_at)
    for object_number, privilege_number, kind, which, end in plan["grants"]:
        ref = world.objects[object_number % len(world.objects)]
        privileges = [each for each in rights_model().privileges(ref[0].value) if each != "assignee"]
        privilege = privileges[privilege_number % len(privileges)]
        grantee = world.roles[which % len(world.roles)] if kind % 2 and world.roles else None
        user_id = None if grantee else USERS[which % len(USERS)]
        if (ref, privilege, grantee, user_id) in done or grantee == ref[1]:
            continue
        done.add((ref, privilege, grantee, user_id))
        within = ENDS[end % len(ENDS)]
        grant(
            ref,
            privilege,
            user_id=user_id and another_user(user_id),
            role_id=grantee,
            expires_at=None if within is None else at + within,
        )
    locations = [securable_id(*each) for each in world.objects if each[0] in {T.WAREHOUSE, T.NAMESPACE}]
    for (number,) in plan["managed"] if locations else []:
        Securable.objects.filter(pk=locations[number % len(locations)]).update(managed_access=True)


def _asker(world: World, numbers: Sequence[int]) -> Actor:
    kind, which, of_roles = numbers
    user_id = USERS[which % len(USERS)]
    if kind % 3 == 1 and world.roles:
        return Actor(user_id=user_id, assumed_role=world.roles[of_roles % len(world.roles)])
    if kind % 3 == 2:
        names = tuple(f"source{number}" for number in range(len(world.roles)) if of_roles >> number & 1)
        return Actor(user_id=user_id, identity=Identity(user_id, "oidc", "human", roles=names))
    return Actor(user_id=user_id)


@given(plan=plans())
@settings(max_examples=500 if IS_LONG else 8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_say_the_same(pair: Pair, bootstrapped: None, plan: dict[str, list[tuple[int, ...]]]) -> None:
    with transaction.atomic():
        world = create_world(plan)
        pair.deliver()
        for asker in world.askers:
            pair.agreed(asker, world.objects)
            for parent in world.objects:
                if parent[0] not in {T.WAREHOUSE, T.NAMESPACE}:
                    continue
                if not pair.builtin.decide(asker, [(Can.LIST_EVERYTHING, parent)])[0]:
                    for below in rights_model().links(parent[0].value, DOWN):
                        pair.agreed_visible(asker, parent, T(below))
        transaction.set_rollback(True)
