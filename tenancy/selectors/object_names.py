"""Names of objects, by which responses refer to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object as clients know it.

    `warehouse_id` and `warehouse_name` are set of warehouses and of what is in one; `levels` are those of a namespace,
    or of the one that a tabular is in; `name` is that of everything else but the server. `is_dropped`: it can be
    restored, and keeps its grants until then.
    """

    securable_type: Securable.Type
    object_id: str
    name: str | None = None
    warehouse_id: str | None = None
    warehouse_name: str | None = None
    levels: tuple[str, ...] = ()
    is_dropped: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """All its names, that of the warehouse first; of the server none."""
        names = (
            self.warehouse_name,
            *self.levels,
            None if self.securable_type is Securable.Type.WAREHOUSE else self.name,
        )
        return tuple(each for each in names if each is not None)

    def without_names(self) -> NamedObject:
        return replace(self, name=None, warehouse_name=None, levels=())


NameObjects = Callable[[Iterable[str]], Mapping[str, NamedObject]]
"""Names the objects of these securable ids, without those that do not exist: `catalog.objects.names.name_objects`."""
