"""Tables and views that a text names, as far as the caller sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.identifiers import Identifier
from catalog.models import Tabular
from icekeeper.kernel.names import lookup_key, path_key
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef


class NamedTabular(NamedTuple):
    """Kind, and the id that clients see."""

    kind: str
    uuid: UUID


def find_named_tabulars_for(
    *, actor: Actor, warehouse_id: UUID, identifiers: Sequence[Identifier]
) -> Mapping[Identifier, NamedTabular]:
    """Return those of the live tables and views of a warehouse that the caller may open.

    One statement, and one permission check for all. What is hidden is left out, like what does not exist.
    """
    keys = {each: (path_key(each.levels), lookup_key(each.name)) for each in identifiers if each.levels}
    rows = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).live()
    rows = rows.filter(
        namespace__path_key__in={path for path, _ in keys.values()}, name_key__in={name for _, name in keys.values()}
    )
    columns = ("namespace__path_key", "name_key", "pk", "kind", "uuid")
    found = (
        {(path, name): (pk, kind, uuid) for path, name, pk, kind, uuid in rows.values_list(*columns)} if keys else {}
    )
    named = {each: found[key] for each, key in keys.items() if key in found}
    checks = [(Can.GET_METADATA, ObjectRef(Securable.Type(kind), pk)) for pk, kind, _ in named.values()]
    allowed = check_permissions(actor, checks) if checks else []
    return {
        identifier: NamedTabular(kind, uuid)
        for (identifier, (_, kind, uuid)), is_allowed in zip(named.items(), allowed, strict=True)
        if is_allowed
    }
