from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from tenancy.actor import Actor


class CatalogConfig(AppConfig):
    name = "catalog"

    def ready(self) -> None:
        from catalog.models import Namespace, Tabular
        from tenancy.models import Securable
        from tenancy.models.querysets import set_visibility_filter
        from tenancy.selectors.visible_rows import restrict_to_visible

        def visible_tabulars(rows: QuerySet[Any], actor: Actor) -> QuerySet[Any]:
            visible = rows.none()
            for kind in Tabular.Kind:
                visible |= restrict_to_visible(rows.filter(kind=kind), actor, Securable.Type(kind.value))
            return visible

        set_visibility_filter(Namespace, lambda rows, actor: restrict_to_visible(rows, actor, Securable.Type.NAMESPACE))
        set_visibility_filter(Tabular, visible_tabulars)
