"""What a caller may do with the files of a tabular, and the credentials for that."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import UUID

from django.db import Error

from catalog.models import Tabular
from catalog.selectors.data_rights import data_rights
from catalog.selectors.tabular_files import TabularFiles, files_of
from catalog.selectors.view_chains import Reader
from storage.vending.delegation import Asked, Delegation, choose_delegation
from storage.vending.rights import Rights
from storage.vending.vend import vend
from storage.vending.vended import Vended
from tenancy.actor import Actor
from tenancy.authn.scopes import may_change_catalog
from tenancy.authz.refusals import AuthorizationBackendError

logger = logging.getLogger("icekeeper.storage")


@dataclass(frozen=True, slots=True)
class Access:
    """How a caller gets at files: by what way, and to do what."""

    delegation: Delegation
    rights: Rights


def access_for(
    *, reader: Reader, rights: Rights | None, kind: Tabular.Kind, files: TabularFiles | None, asked: Asked
) -> Access | None:
    """None for who may see the metadata alone, for files that are gone (None), and where no help is needed with them.

    Requests to the folder of a view are not signed. Nor are those of an engine that reads with an owner's rights: the
    signer knows only the engine's own, so that it gets credentials of the owner's where these can be had, else nothing.
    Who came with a token that opens only what changes nothing gets at files to read them.
    """
    if rights is None or files is None or _needs_no_help(files):
        return None
    caller = reader.actor.delegated_by or reader.actor
    if not may_change_catalog(caller.identity):
        rights = Rights.READ
    if reader.is_delegate and asked is Asked.SIGNING:
        asked = Asked.VENDED
    return _access(files, rights, asked, signs=kind != Tabular.Kind.VIEW and not reader.is_delegate)


def access_to_written(
    *, actor: Actor, kind: Tabular.Kind, tabular_id: UUID, files: TabularFiles | None, asked: Asked, warehouse_id: UUID
) -> tuple[TabularFiles | None, Access | None]:
    """The files of a tabular in the answer to who wrote it, and how he gets at them.

    `files` are those of one that was made just now. Without them the answer is about one that was there before, or is
    told again: what may be done then goes by the rights that the caller has now, and nothing may be with files of a
    dropped table. The write is done: where nobody can tell, nothing is lent, and a load tells later.
    """
    if files is not None and kind != Tabular.Kind.VIEW:
        return files, access_of_maker(files, asked)
    try:
        files = files or files_of(warehouse_id=warehouse_id, tabular_id=tabular_id)
        if files is None or _needs_no_help(files):
            return files, None
        rights = data_rights(actor, kind, tabular_id)
        return files, access_for(reader=Reader(actor), rights=rights, kind=kind, files=files, asked=asked)
    except (Error, AuthorizationBackendError) as error:
        logger.warning("nothing is lent for what was written", exc_info=error, extra={"tabular": str(tabular_id)})
        return None, None


def access_of_maker(files: TabularFiles, asked: Asked) -> Access | None:
    """Of whoever made a table just now, or is about to."""
    return None if _needs_no_help(files) else _access(files, Rights.READ_WRITE, asked, signs=True)


def vended_credentials(files: TabularFiles, access: Access) -> list[tuple[str, Vended]]:
    """By location: a credential for each folder of the tabular, none where none is to be given.

    Raises as `vend`.
    """
    if not access.delegation.vended:
        return []
    found = ((place, vend(files.storage, location=place, rights=access.rights)) for place in files.locations)
    return [(place, vended) for place, vended in found if vended is not None]


def _needs_no_help(files: TabularFiles) -> bool:
    return bool(files.storage.profile["type"] == "local")


def _access(files: TabularFiles, rights: Rights, asked: Asked, *, signs: bool) -> Access:
    chosen = choose_delegation(asked, files.storage.profile)
    return Access(Delegation(vended=chosen.vended, signing=chosen.signing and signs), rights)
