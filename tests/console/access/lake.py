"""A small catalog with hostile names, roles in roles and grants, for tests of the access pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catalog.models import Namespace, Tabular
from catalog.services.namespaces.create import create_namespace
from catalog.services.tables.create import create_table
from icekeeper.kernel.errors.types import NotFound
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Grantee
from tenancy.models import Role, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project, server_ref
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.roles import create_role
from tenancy.services.users import create_local_user

T = Securable.Type
HOSTILE = """<b>"x"&'y'</b>{{ 7|add:7 }}"""
"""A name that changes a page which does not escape it."""
ANALYSTS = f"analysts {HOSTILE}"
NAMES = ("sales", "orders", "lines")
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": True}]}


@dataclass(frozen=True)
class Lake:
    """`sales` > `orders` > the table `lines`, and `secret` > the table `plans`; `analysts` contains `bi`."""

    warehouse: Warehouse
    sales: Namespace
    orders: Namespace
    lines: Tabular
    secret: Namespace
    plans: Tabular
    analysts: Role
    bi: Role

    @property
    def ref(self) -> dict[str, ObjectRef]:
        return {
            "server": server_ref(),
            "project": ObjectRef(T.PROJECT, self.warehouse.project_id),
            "warehouse": ObjectRef(T.WAREHOUSE, self.warehouse.pk),
            "sales": ObjectRef(T.NAMESPACE, self.sales.pk),
            "orders": ObjectRef(T.NAMESPACE, self.orders.pk),
            "lines": ObjectRef(T.TABLE, self.lines.pk),
            "secret": ObjectRef(T.NAMESPACE, self.secret.pk),
            "plans": ObjectRef(T.TABLE, self.plans.pk),
            "analysts": ObjectRef(T.ROLE, self.analysts.pk),
        }

    def url(self, name: str) -> str:
        """Return the address of the access tab of an object."""
        at = f"/ui/warehouse/{self.warehouse.pk}"
        match name:
            case "warehouse":
                return f"{at}/access/"
            case "sales" | "orders" | "secret":
                return f"{at}/namespace/{self.ref[name].id}/access/"
            case "lines" | "plans":
                return f"{at}/table/{getattr(self, name).uuid}/access/"
            case "project":
                return f"/ui/project/{self.warehouse.project_id}/access/"
            case "analysts":
                return f"/ui/role/{self.analysts.pk}/access/"
        return "/ui/server/access/"

    def form(self, name: str, action: str = "") -> str:
        """Return the address of a form that changes the grants on an object, or of its page without a tab."""
        ref, warehouse = self.ref[name], self.warehouse.pk
        key = {
            "server": "server",
            "lines": f"table:{warehouse}:{self.lines.uuid}",
            "plans": f"table:{warehouse}:{self.plans.uuid}",
        }.get(name) or (f"namespace:{warehouse}:{ref.id}" if ref.type is T.NAMESPACE else f"{ref.type.value}:{ref.id}")
        return f"/ui/access/object/{key}/{f'{action}/' if action else ''}"

    def give(
        self, privilege: str, name: str, to: str | UUID, *, expires_at: datetime | None = None, revoke: bool = False
    ) -> None:
        """Grant or revoke a privilege on an object, to a user or role by its id."""
        grantee = Grantee(role_id=to) if isinstance(to, UUID) else Grantee(user_id=to)
        specs = [GrantSpec(privilege, grantee, expires_at)]
        difference = Difference(deletes=specs) if revoke else Difference(writes=specs)
        apply_grants(actor=INTERNAL, ref=self.ref[name], difference=difference, missing=NotFound("missing"))


def _create_table(warehouse: Warehouse, levels: tuple[str, ...], name: str) -> None:
    create_table(
        actor=INTERNAL, warehouse_id=warehouse.pk, levels=levels, name=name, schema=SCHEMA, partition_spec=None,
        write_order=None, location=None, properties=None, stage=False,
    )  # fmt: skip


def find_lake(warehouse: Warehouse, *, names: tuple[str, ...] = NAMES) -> Lake:
    """Return what `create_lake` has created."""
    sales_name, orders_name, lines_name = names
    namespaces = {each.levels[-1]: each for each in Namespace.objects.all()}
    tables = {each.name: each for each in Tabular.objects.select_related("namespace__warehouse__project")}
    roles = {each.name: each for each in Role.objects.all()}
    return Lake(
        warehouse, namespaces[sales_name], namespaces[orders_name], tables[lines_name], namespaces["secret"],
        tables["plans"], roles[ANALYSTS], roles["bi-emea"],
    )  # fmt: skip


def create_lake(warehouse: Warehouse, *, names: tuple[str, ...] = NAMES) -> Lake:
    """Create the objects, roles and users; `names` are those of `sales`, `orders` and `lines`."""
    sales_name, orders_name, lines_name = names
    project = get_project(None)

    def namespace(*levels: str) -> None:
        create_namespace(actor=INTERNAL, warehouse_id=warehouse.pk, levels=list(levels), properties={})

    namespace(sales_name)
    namespace(sales_name, orders_name)
    namespace("secret")
    _create_table(warehouse, (sales_name, orders_name), lines_name)
    _create_table(warehouse, ("secret",), "plans")
    analysts = create_role(actor=INTERNAL, project=project, name=ANALYSTS)
    bi = create_role(actor=INTERNAL, project=project, name="bi-emea")
    for name in ("admin", "steward", "engineer", "guest", "jun"):
        create_local_user(actor=INTERNAL, user_id=f"local~{name}")
    User.objects.filter(pk="local~jun").update(name=f"Jun {HOSTILE}", name_key=f"jun {HOSTILE}".lower())
    add_role_members(actor=INTERNAL, project=project, role_id=analysts.pk, members=Members(role_ids=[bi.pk]))
    add_role_members(actor=INTERNAL, project=project, role_id=bi.pk, members=Members(user_ids=["local~jun"]))
    lake = find_lake(warehouse, names=names)
    lake.give("project_admin", "project", "local~steward")
    lake.give("select", "sales", analysts.pk)
    lake.give("modify", "orders", "local~engineer")
    return lake
