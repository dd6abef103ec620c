"""Securables (objects that privileges are granted on), references to them, grants, and their undelivered tuples."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import F, Field, Func, Lookup, Model, Q, UUIDField, Value
from django.db.models.functions import Concat, Length, Substr

from icekeeper.kernel.ids import new_id
from tenancy.models.querysets import VisibleQuerySet

M = TypeVar("M", bound=Model)


class AsUuid(Func):
    """A UUID in text, as the database keeps UUID columns."""

    output_field = UUIDField()

    template = "CAST(%(expressions)s AS uuid)"

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        return super().as_sql(compiler, connection, template="REPLACE(%(expressions)s, '-', '')")


class _PathOrder(Lookup):
    """Compares texts byte by byte, whatever the collation of the database, so that an index of paths serves it."""

    operator: str
    pattern_operator: str

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        operator = self.pattern_operator if connection.vendor == "postgresql" else self.operator
        return f"{left} {operator} {right}", [*left_params, *right_params]


@Field.register_lookup
class AfterPath(_PathOrder):
    lookup_name, operator, pattern_operator = "path_after", ">", "~>~"


@Field.register_lookup
class BeforePath(_PathOrder):
    lookup_name, operator, pattern_operator = "path_before", "<", "~<~"


class SecurableQuerySet(VisibleQuerySet["Securable"]):
    def of_type(self, securable_type: str) -> Self:
        return self.filter(type=securable_type)

    def with_path_end(self) -> Self:
        """Annotate `path_end`: paths below an object lie after its `path` and before its `path_end`."""
        return self.annotate(path_end=Concat(Substr("path", 1, Length(F("path")) - 1), Value("0")))


class Securable(models.Model):
    """An object that privileges can be granted on, identified by type and id.

    A service that creates, moves or deletes an object writes this row in the same transaction; tables, views and
    warehouses themselves are unknown here. Users have no row: they only occur in permission checks. `path` joins the
    ids of the ancestors from the root down and ends with the own id and a slash, so that a subtree is a prefix. With
    `managed_access`, of warehouses and namespaces, owners of objects below may not grant privileges on them.
    """

    class Type(models.TextChoices):
        SERVER = "server"
        PROJECT = "project"
        WAREHOUSE = "warehouse"
        NAMESPACE = "namespace"
        TABLE = "table"
        VIEW = "view"
        GENERIC_TABLE = "generic-table"
        ROLE = "role"
        TAG = "tag"
        USER = "user"

    id = models.CharField(primary_key=True, max_length=160, help_text="TYPE:OBJECT-ID.")
    type = models.CharField(max_length=16, choices=Type.choices)
    object_id = models.CharField(max_length=128, help_text="Id of the object in its own table.")
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children", db_index=False)
    path = models.TextField(help_text="Ids of the ancestors and the own id, each followed by a slash.")
    managed_access = models.BooleanField(
        default=False, db_default=False, help_text="Owners of objects below may not grant privileges on them."
    )

    objects = SecurableQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["type", "object_id"], name="securable_once")]
        indexes = [
            models.Index(fields=["path"], opclasses=["text_pattern_ops"], name="securable_by_path"),
            models.Index(fields=["parent", "type", "object_id"], name="securable_by_parent"),
        ]

    def __str__(self) -> str:
        return self.id


class ObjectRef(NamedTuple):
    """Two references are equal when they refer to the same object, however a caller named it.

    How the caller named the object is not a part of it: error messages take that from `CatalogError.about`.
    """

    type: Securable.Type
    id: object


def securable_id(securable_type: Securable.Type, object_id: object) -> str:
    """Return the primary key of the object's row in `Securable`: `TYPE:ID`."""
    return f"{securable_type.value}:{object_id}"


def parse_securable_id(own_id: str) -> ObjectRef:
    """Return the object of a primary key of `Securable`."""
    kind, _, object_id = own_id.partition(":")
    return ObjectRef(Securable.Type(kind), object_id)


def project_in(path: str) -> str | None:
    """Return the project id in a path of `Securable`, None for the server; project ids contain no slash."""
    return next((part.removeprefix("project:") for part in path.split("/") if part.startswith("project:")), None)


class ExpiringQuerySet(VisibleQuerySet[M]):
    """Rows that expire at `expires_at`, or never if that is null."""

    def unexpired(self, at: datetime) -> Self:
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=at))


class GrantQuerySet(ExpiringQuerySet["Grant"]):
    def create_on(self, *, securable_id: str, **fields: Any) -> Grant:
        """Create a grant on a securable, with the path of that."""
        path = Securable.objects.values_list("path", flat=True).get(pk=securable_id)
        return self.create(securable_id=securable_id, path=path, **fields)

    def on(self, securable_id: str) -> Self:
        return self.filter(securable_id=securable_id)

    def granted_to(self, *, user_id: str | None, role_id: UUID | None) -> Self:
        """Return the grants of a user or of a role: exactly one of the two is given."""
        return self.filter(user_id=user_id) if role_id is None else self.filter(role_id=role_id)


class Grant(models.Model):
    """A privilege of a user or role on a securable, until `expires_at` if that is set.

    Exactly one of user and role is set. `owned_role` is the securable when that is a role and the privilege ownership:
    owners of a role are members of it, which is looked up like a membership. `path` is a copy of the securable's, so
    that the grants below an object are found by an index: services set it, and rewrite it when the object moves. A
    grant on an object that can be moved is written with the securable locked.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    securable = models.ForeignKey("tenancy.Securable", on_delete=models.CASCADE, related_name="grants", db_index=False)
    path = models.TextField(help_text="Path of the securable.")
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, null=True, related_name="grants", db_index=False)
    role = models.ForeignKey("tenancy.Role", on_delete=models.CASCADE, null=True, related_name="grants", db_index=False)
    privilege = models.CharField(max_length=64)
    owned_role = models.ForeignKey(
        "tenancy.Role",
        on_delete=models.CASCADE,
        null=True,
        related_name="owners",
        db_index=False,
        help_text="The securable, if this is the ownership of a role.",
    )
    expires_at = models.DateTimeField(null=True, help_text="When the grant ends; empty for a permanent grant.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = GrantQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["securable", "user", "privilege"], name="grant_to_user_once"),
            models.UniqueConstraint(fields=["securable", "role", "privilege"], name="grant_to_role_once"),
            models.CheckConstraint(
                condition=models.Q(user__isnull=True, role__isnull=False)
                | models.Q(user__isnull=False, role__isnull=True),
                name="grant_is_to_user_or_role",
            ),
            models.CheckConstraint(condition=~models.Q(path=""), name="grant_has_a_place"),
        ]
        indexes = [
            models.Index(
                fields=["user", "path"], opclasses=["varchar_pattern_ops", "text_pattern_ops"], name="grant_of_user"
            ),
            models.Index(fields=["role", "path"], opclasses=["uuid_ops", "text_pattern_ops"], name="grant_of_role"),
            models.Index(fields=["owned_role"], condition=models.Q(owned_role__isnull=False), name="grant_of_roles"),
            models.Index(fields=["user"], condition=models.Q(owned_role__isnull=False), name="grant_of_roles_to_user"),
            models.Index(fields=["role"], condition=models.Q(owned_role__isnull=False), name="grant_of_roles_to_role"),
        ]

    def __str__(self) -> str:
        return f"{self.privilege} on {self.securable_id} to {self.user_id or self.role_id}"


class UndeliveredTuple(models.Model):
    """A tuple that may differ in OpenFGA from our relation rows since the transaction that changed them.

    Whether the tuple should exist is read from the rows when it is delivered. Until `held_until` only the delivery
    `holder` may write it to OpenFGA, so that no older request takes effect after a newer one.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    object = models.CharField(max_length=256)
    relation = models.CharField(max_length=64)
    subject = models.CharField(max_length=512)
    changed_by = models.UUIDField(help_text="Delivery of the transaction that last changed the rows.")
    holder = models.UUIDField(help_text="Delivery that has the lease.")
    held_until = models.DateTimeField(help_text="End of the lease.")

    class Meta:
        verbose_name = "undelivered tuple"
        constraints = [models.UniqueConstraint(fields=["object", "relation", "subject"], name="undelivered_tuple_once")]
        indexes = [
            models.Index(fields=["holder", "id"], name="undelivered_by_holder"),
            models.Index(fields=["held_until"], name="undelivered_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.object}#{self.relation}@{self.subject}"
