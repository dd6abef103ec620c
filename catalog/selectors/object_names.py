"""What objects that rights hang on are called, by the ids of their securables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from catalog.identifiers import Levels
from catalog.models import Namespace, Tabular
from catalog.selectors.addressed import TABULARS
from icekeeper.kernel.names import LEVEL_SEPARATOR
from storage.models import Warehouse
from tenancy.models import Project, Securable

T = Securable.Type


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object as clients know it.

    `levels` are those of a namespace, or of the one that a tabular is in; `name` is that of a project, a warehouse or a
    tabular; `warehouse_id` is set of what is in one.
    """

    securable_type: Securable.Type
    object_id: str
    warehouse_id: str | None = None
    levels: Levels = ()
    name: str | None = None


def name_objects(securable_ids: Iterable[str]) -> dict[str, NamedObject]:
    """Of servers, projects, and of warehouses and what is in them, those that there are: at most four statements."""
    wanted: dict[Securable.Type, list[str]] = {}
    for each in dict.fromkeys(securable_ids):
        kind, _, object_id = each.partition(":")
        wanted.setdefault(T(kind), []).append(object_id)
    found = [NamedObject(T.SERVER, each) for each in wanted.get(T.SERVER, [])]
    if T.PROJECT in wanted:
        projects = Project.objects.filter(pk__in=wanted[T.PROJECT]).values_list("pk", "name")
        found += [NamedObject(T.PROJECT, pk, name=name) for pk, name in projects]
    if T.WAREHOUSE in wanted:
        warehouses = Warehouse.objects.filter(pk__in=_ids(wanted[T.WAREHOUSE])).values_list("pk", "name")
        found += [NamedObject(T.WAREHOUSE, str(pk), name=name) for pk, name in warehouses]
    if T.NAMESPACE in wanted:
        namespaces = Namespace.objects.filter(pk__in=_ids(wanted[T.NAMESPACE]))
        for pk, warehouse_id, path in namespaces.values_list("pk", "warehouse_id", "path"):
            found.append(NamedObject(T.NAMESPACE, str(pk), str(warehouse_id), tuple(path.split(LEVEL_SEPARATOR))))
    named = {f"{each.securable_type.value}:{each.object_id}": each for each in found}
    tabulars = [each for kind in TABULARS for each in wanted.get(kind, [])]
    return named | (_tabulars(_ids(tabulars)) if tabulars else {})


def _tabulars(ids: list[UUID]) -> dict[str, NamedObject]:
    columns = ("pk", "uuid", "kind", "warehouse_id", "namespace__path", "name")
    found = {}
    for pk, uuid, kind, warehouse_id, path, name in Tabular.objects.filter(pk__in=ids).values_list(*columns):
        levels = tuple(path.split(LEVEL_SEPARATOR))
        found[f"{kind}:{pk}"] = NamedObject(T(kind), str(uuid), str(warehouse_id), levels, name)
    return found


def _ids(texts: Iterable[str]) -> list[UUID]:
    return [UUID(each) for each in texts]
