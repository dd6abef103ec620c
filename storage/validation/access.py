"""Whether a store does what the catalog and its clients will ask of it, and refuses clients what it must.

Everything is tried in a folder of its own below the base of the warehouse, which is gone afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from django.conf import settings

from icekeeper.kernel.ids import new_id
from storage.credentials.credential import Credential
from storage.io.port import ObjectStore, StoreAccessDenied, StoreRefused
from storage.io.stores import open_store, open_vended_store
from storage.profiles.options import vends_credentials
from storage.profiles.profile import Profile
from storage.validation.examination import NOT_ATTEMPTED, OF_THE_STORE, Claim, Examination
from storage.vending.issue import issue
from storage.vending.rights import Rights
from storage.vending.vended import Vended

T = TypeVar("T")

CONTENT: Final = b"written to try out this storage; may be deleted\n"
NO_VENDING: Final = "Credential vending is not enabled for this storage profile."
NOT_ASKED: Final = "The server is told not to try out storage (LAKEKEEPER__SKIP_STORAGE_VALIDATION)."


class ScopeNotEnforced(StoreRefused):
    """Credentials for one table open more than that table."""

    status, wire_type = 412, "ShortTermCredentialError"


def examine_store(examination: Examination, profile: Profile | None, credential: Credential | None) -> None:
    """The checks that ask the store, one after the other: some 20 requests, none where the server is told not to.

    `profile` is None when it could not be read. The folder of a local warehouse must be there.
    """
    if profile is None or settings.ICEKEEPER.skip_storage_validation:
        for claim in OF_THE_STORE:
            examination.skip(claim, NOT_ATTEMPTED if profile is None else NOT_ASKED)
    else:
        examine_access(examination, profile, credential)


def examine_access(examination: Examination, profile: Profile, credential: Credential | None) -> None:
    """As `examine_store`, also where the server is told not to."""
    store = examination.check(
        Claim.STORAGE_CLIENT_INITIALIZED, lambda: open_store(profile, credential), needs=(Claim.PROFILE_WELL_FORMED,)
    )
    trial = None if store is None else _Trial(store, f"{profile.location}/{new_id()}")
    client = (Claim.STORAGE_CLIENT_INITIALIZED,)
    examination.check(Claim.LAKEKEEPER_READ_WRITE, lambda: _require(trial).read_and_write(), needs=client)
    if vends_credentials(profile.as_json()):
        _examine_vending(examination, profile, credential, trial)
    else:
        for claim in (
            Claim.VENDED_CREDENTIALS_ISSUED,
            Claim.VENDED_CREDENTIALS_READ_WRITE,
            Claim.VENDED_CREDENTIALS_SCOPE_ENFORCED,
        ):
            examination.skip(claim, NO_VENDING)
    if trial is None:
        examination.check(Claim.CLEANUP, lambda: None, needs=client)
    else:
        examination.check_always(Claim.CLEANUP, trial.clean_up)


def _examine_vending(
    examination: Examination, profile: Profile, credential: Credential | None, trial: _Trial | None
) -> None:
    def ask() -> Vended:
        vended = issue(profile, credential, location=_require(trial).table, rights=Rights.READ_WRITE)
        if vended is None:
            raise StoreRefused("Nothing was issued")
        return vended

    vended = examination.check(Claim.VENDED_CREDENTIALS_ISSUED, ask, needs=(Claim.STORAGE_CLIENT_INITIALIZED,))

    def lent() -> ObjectStore:
        return open_vended_store(profile, _require(vended))

    issued = (Claim.VENDED_CREDENTIALS_ISSUED,)
    examination.check(Claim.VENDED_CREDENTIALS_READ_WRITE, lambda: _require(trial).use_inside(lent()), needs=issued)
    examination.check(
        Claim.VENDED_CREDENTIALS_SCOPE_ENFORCED,
        lambda: _require(trial).require_closed_outside(lent()),
        needs=(*issued, Claim.LAKEKEEPER_READ_WRITE),
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    """What is tried in `folder`, which the catalog reaches through `store`."""

    store: ObjectStore
    folder: str

    @property
    def table(self) -> str:
        """The one that clients get credentials for."""
        return f"{self.folder}/vended-test"

    def read_and_write(self) -> None:
        """Write, read, list and delete with the catalog's own identity."""
        _use(self.store, self.folder)

    def use_inside(self, lent: ObjectStore) -> None:
        _use(lent, self.table)

    def require_closed_outside(self, lent: ObjectStore) -> None:
        """What lies beside the table can neither be written, read, listed nor deleted with its credentials.

        Only a refusal proves it: raises what else the store answers, `ScopeNotEnforced` when it obeys.
        """
        beside = f"{self.folder}/metadata/not-for-clients"
        self.store.put_new(beside, CONTENT)
        attempts: dict[str, Callable[[], object]] = {
            "write access to parent location": lambda: lent.put_new(f"{self.folder}/metadata/forbidden", CONTENT),
            "write access to a location whose name begins alike": lambda: lent.put_new(f"{self.table}2/x", CONTENT),
            "read access to parent location": lambda: lent.get(beside, limit=len(CONTENT)),
            "listing of parent location": lambda: lent.is_empty(self.folder, apart_from=lambda _: False),
            "deletion in parent location": lambda: lent.delete(beside),
        }
        for what, attempt in attempts.items():
            try:
                attempt()
            except StoreAccessDenied:
                continue
            raise ScopeNotEnforced(f"Downscoped credentials allow {what}.")
        self.store.require_exists(beside)

    def clean_up(self) -> None:
        self.store.delete_below(self.folder, lambda: None)
        if not self.store.is_empty(self.folder, apart_from=lambda _: False):
            raise StoreRefused(f"What was written to {self.folder} is still there")


def _use(store: ObjectStore, folder: str) -> None:
    place = f"{folder}/metadata/test"
    store.put_new(place, CONTENT)
    if store.get(place, limit=len(CONTENT)) != CONTENT:
        raise StoreRefused("The object holds something else than was written")
    if store.is_empty(folder, apart_from=lambda _: False):
        raise StoreRefused("The object is not listed")
    store.delete(place)
    if not store.is_empty(folder, apart_from=lambda _: False):  # AWS tells 403 of what is missing, in place of 404
        raise StoreRefused("The object is still there after it was deleted")


def _require(found: T | None) -> T:
    """What an earlier check found, without which this one would have been skipped."""
    if found is None:
        raise RuntimeError("a check was made before what it needs")
    return found
