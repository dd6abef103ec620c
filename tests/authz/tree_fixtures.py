"""A small tree of securables with grants, for tests of derived permissions."""

from __future__ import annotations

from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor, Grantee
from tenancy.authz.securables import add_securable
from tenancy.models import Role, RoleMember, Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.grants import Difference, GrantSpec, apply_grants

T = Securable.Type
SHAPE = (
    ("outer", T.NAMESPACE, "wh"), ("inner", T.NAMESPACE, "outer"), ("table", T.TABLE, "inner"),
    ("generic", T.GENERIC_TABLE, "inner"), ("other", T.NAMESPACE, "wh"), ("view", T.VIEW, "other"),
    ("role", T.ROLE, "project"), ("tag", T.TAG, "project"),
)  # fmt: skip


def create_tree(warehouse: Warehouse) -> dict[str, ObjectRef]:
    """Create server > project > wh > outer > inner > table, and next to it wh > other > view."""
    created: dict[str, ObjectRef] = {
        "server": ObjectRef(T.SERVER, Server.objects.get().server_id),
        "project": ObjectRef(T.PROJECT, get_project(None).pk),
        "wh": ObjectRef(T.WAREHOUSE, warehouse.pk),
    }
    for name, securable_type, parent in SHAPE:
        created[name] = ObjectRef(securable_type, new_id())
        add_securable(*created[name], parent=created[parent])
    return created


def give(privilege: str, ref: ObjectRef, who: Actor, *, through: Role | None = None, to: Role | None = None) -> None:
    """Grant it to a user, or to the role `to`, with the user as a member of `through`."""
    User.objects.get_or_create(id=who.user_id, defaults={"name": "n"})
    if through is not None:
        RoleMember.objects.get_or_create(role=through, user_id=who.user_id)
    grantee = Grantee(user_id=who.user_id) if to is None else Grantee(role_id=to.pk)
    difference = Difference(writes=[GrantSpec(privilege, grantee)])
    apply_grants(actor=INTERNAL, ref=ref, difference=difference, missing=NotFound("there is no such thing"))


def role(name: str, *, source: str | None = None) -> Role:
    """Create a role of the default project; with `source`, one of the provider `oidc` with that source id."""
    own_id, project = new_id(), get_project(None)
    created = Role.objects.create(
        id=own_id,
        project=project,
        name=name,
        name_key=name_key(name),
        provider_id="lakekeeper" if source is None else "oidc",
        source_id=source or str(own_id),
    )
    add_securable(T.ROLE, own_id, parent=ObjectRef(T.PROJECT, project.pk))
    return created
