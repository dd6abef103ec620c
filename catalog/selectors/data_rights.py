"""What a caller may do with the files of a table, view or generic table."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from catalog.models import Tabular
from icekeeper.kernel.errors.types import CatalogError
from storage.vending.rights import Rights
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import allowed_many, require_and_ask
from tenancy.models import Securable
from tenancy.refs import ObjectRef

_ON_FILES: Final = {
    Tabular.Kind.TABLE: (Can.READ_DATA, Can.WRITE_DATA),
    Tabular.Kind.VIEW: (Can.SELECT,),
    Tabular.Kind.GENERIC_TABLE: (Can.READ_DATA, Can.WRITE_DATA),
}
"""To read them, and to write; nobody writes to the folder of a view. Who may write may read, too."""


def require_to_load(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: CatalogError) -> Rights | None:
    """The rights to its files of somebody who may see it, None without any; the authorizer is asked once.

    Raises `missing` for who may not see it.
    """
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    return _rights(require_and_ask(actor, Can.GET_METADATA, ref, _ON_FILES[kind], missing=missing))


def require_data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: CatalogError) -> Rights:
    """Raises `Forbidden` for who may not read the files, `missing` for who may not see the tabular either."""
    reading, *writing = _ON_FILES[kind]
    ref = ObjectRef(Securable.Type(kind.value), tabular_id)
    may_write = require_and_ask(actor, reading, ref, writing, missing=missing)
    return Rights.READ_WRITE if any(may_write) else Rights.READ


def data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID) -> Rights | None:
    """As `require_to_load`, of a tabular that the caller was told of before."""
    ref: ObjectRef = ObjectRef(Securable.Type(kind.value), tabular_id)
    return _rights(allowed_many(actor, [(action, ref) for action in _ON_FILES[kind]]))


def _rights(answers: list[bool]) -> Rights | None:
    """Of the answers to `_ON_FILES`."""
    may_read, may_write = answers[0], any(answers[1:])
    return Rights.READ_WRITE if may_write else Rights.READ if may_read else None
