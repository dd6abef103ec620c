"""What a caller may do with the files of a table, view or generic table."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from catalog.models import Tabular
from icekeeper.kernel.errors import CatalogError
from storage.vending.rights import Rights
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import Question, allowed_many, refusal
from tenancy.authz.securables import Ref
from tenancy.models import Securable

_READS: Final = {
    Tabular.Kind.TABLE: Can.READ_DATA,
    Tabular.Kind.VIEW: Can.SELECT,
    Tabular.Kind.GENERIC_TABLE: Can.READ_DATA,
}


def require_to_load(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: CatalogError) -> Rights | None:
    """The rights to its files of somebody who may see it, None without any; the authorizer is asked once.

    Raises `missing` for who may not see it.
    """
    ref = (Securable.Type(kind.value), tabular_id)
    is_seen, *on_files = allowed_many(actor, [(Can.GET_METADATA, ref), *_asked(kind, tabular_id)])
    if not is_seen:
        raise refusal(actor, Can.GET_METADATA, ref, missing)
    return _rights(on_files)


def require_data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID, *, missing: CatalogError) -> Rights:
    """Raises `Forbidden` for who may not read the files, `missing` for who may not see the tabular either."""
    rights = data_rights(actor, kind, tabular_id)
    if rights is None:
        raise refusal(actor, _READS[kind], (Securable.Type(kind.value), tabular_id), missing)
    return rights


def data_rights(actor: Actor, kind: Tabular.Kind, tabular_id: UUID) -> Rights | None:
    """As `require_to_load`, of a tabular that the caller was told of before."""
    return _rights(allowed_many(actor, _asked(kind, tabular_id)))


def _asked(kind: Tabular.Kind, tabular_id: UUID) -> list[Question]:
    """Nobody writes to the folder of a view."""
    ref: Ref = (Securable.Type(kind.value), tabular_id)
    reading: list[Question] = [(_READS[kind], ref)]
    return reading if kind == Tabular.Kind.VIEW else [*reading, (Can.WRITE_DATA, ref)]


def _rights(answers: list[bool]) -> Rights | None:
    """Who may write may read what they wrote."""
    may_read, may_write = answers[0], any(answers[1:])
    return Rights.READ_WRITE if may_write else Rights.READ if may_read else None
