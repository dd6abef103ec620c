"""QuerySets with `visible_to`, and what they need of the database: order of paths, and ids out of text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Self, TypeVar

from django.db.models import Field, Func, Lookup, Model, Q, QuerySet, UUIDField

M = TypeVar("M", bound=Model)

VisibilityFilter = Callable[[QuerySet[Any], Any], QuerySet[Any]]
"""Returns those of the rows that an `Actor` may see; a constant number of statements, however many rows there are."""

_filters: Final[dict[str, VisibilityFilter]] = {}


def set_visibility_filter(model: type[Model], visible: VisibilityFilter) -> None:
    """Set what `visible_to` does on the rows of `model`; called once a model when its app is ready."""
    _filters[model._meta.label] = visible  # noqa: SLF001 - Django's own name


class VisibleQuerySet(QuerySet[M]):
    """Rows of which actors see some."""

    def visible_to(self, actor: Any) -> VisibleQuerySet[M]:
        """Return those of the rows that the `Actor` may see: of a whole table, or of a page (a slice), in their order.

        The permission is the one that the API checks for reading a single object. The number of statements does not
        depend on the number of rows. With OpenFGA, rows are checked in batches: filter a page, not a large table;
        so are grants, attachments of tags and securables with every backend.
        """
        visible = _filters[self.model._meta.label]  # noqa: SLF001 - as above
        if not self.query.is_sliced:
            return visible(self, actor)  # type: ignore[return-value]
        page = self.all()
        page.query.clear_limits()
        return visible(page.filter(pk__in=list(self.values_list("pk", flat=True))), actor)  # type: ignore[return-value]


class ExpiringQuerySet(VisibleQuerySet[M]):
    """Rows that expire at `expires_at`, or never if that is null."""

    def unexpired(self, at: datetime) -> Self:
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=at))


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
