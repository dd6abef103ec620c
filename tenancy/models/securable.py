"""Securables, the objects that privileges are granted on, and references to them."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from django.db import models
from django.db.models import F, Field, Func, Lookup, UUIDField, Value
from django.db.models.functions import Concat, Length, Substr

from tenancy.models.querysets import VisibleQuerySet


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
