"""QuerySets with `visible_to`, the rows that an actor may see, and of rows that expire."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Self, TypeVar

from django.db.models import Model, Q, QuerySet

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
