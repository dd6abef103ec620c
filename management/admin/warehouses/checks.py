"""The checks of a validation as a page shows them: by a plain name, with the store's own error, and how to fix it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from icekeeper.kernel.errors.types import CatalogError
from management.admin.navigation import Text
from management.admin.warehouses.form_fields import error_text
from storage.errors import StoreAccessDenied, StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.profiles.kinds import parse_profile
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.validation.access import ScopeNotEnforced
from storage.validation.checks import (
    NOT_APPLICABLE,
    STORE_CHECKS,
    CheckName,
    Status,
    StorageValidationFailed,
    ValidationCheck,
)
from storage.vending.s3_permissions import object_policy, role_policy

NAMES: Final[Mapping[CheckName, Text]] = {
    CheckName.PROFILE_WELL_FORMED: _("Storage profile is complete"),
    CheckName.PROFILE_COMPATIBLE: _("Files stay where they are"),
    CheckName.WAREHOUSE_NAME_VALID: _("Name is free in this project"),
    CheckName.LOCATION_EXCLUSIVE: _("No other warehouse uses the location"),
    CheckName.SPEC_MUTABLE: _("You may change this warehouse"),
    CheckName.FORMAT_VERSION_POLICY_CONSISTENT: _("Format policy is consistent"),
    CheckName.MANAGED_BY_ALLOWED: _("You may choose who changes it"),
    CheckName.STORAGE_CLIENT_INITIALIZED: _("Server obtains its own credentials"),
    CheckName.LAKEKEEPER_READ_WRITE: _("Server can write, read, list and delete below the prefix"),
    CheckName.VENDED_CREDENTIALS_ISSUED: _("Credentials for engines are issued"),
    CheckName.VENDED_CREDENTIALS_READ_WRITE: _("Vended credentials can read and write"),
    CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED: _("Vended credentials cannot leave the table's folder"),
    CheckName.REMOTE_SIGNING: _("Store enforces signatures"),
    CheckName.CLEANUP: _("Test objects are removed"),
}

_PROFILE, _CREDENTIAL = "storage-profile", "storage-credential"


@dataclass(frozen=True, slots=True)
class Cure:
    """How to fix what a check found: a sentence, the field that it is about, and a policy to copy."""

    text: Text
    field: str | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """A check in the list. `state` is passed, failed, skipped or pending; `note` why it was skipped, or its finding."""

    slug: str
    name: Text
    state: str
    milliseconds: int | None = None
    note: str = ""
    error: str = ""
    cure: Text = ""
    policy: str = ""
    field: str | None = None
    field_text: Text = ""
    """What is shown at `field` as well."""


@dataclass(frozen=True, slots=True)
class CheckList:
    """The checks of a validation, in the order in which they run."""

    checks: Sequence[ShownCheck]

    @property
    def failed(self) -> int:
        return sum(1 for each in self.checks if each.state == Status.FAILED)

    @property
    def has_run(self) -> bool:
        return any(each.milliseconds is not None for each in self.checks)

    @property
    def is_valid(self) -> bool:
        return self.has_run and not self.failed


def pending_checks(names: Sequence[CheckName]) -> CheckList:
    """Return the list before a validation."""
    return CheckList([ShownCheck(each.value, NAMES[each], "pending") for each in names])


CREATION_CHECKS: Final = tuple(
    each for each in CheckName if each not in {CheckName.PROFILE_COMPATIBLE, CheckName.SPEC_MUTABLE}
)
CHANGE_CHECKS: Final = (
    CheckName.PROFILE_WELL_FORMED,
    CheckName.PROFILE_COMPATIBLE,
    CheckName.LOCATION_EXCLUSIVE,
    CheckName.SPEC_MUTABLE,
    *STORE_CHECKS,
)


def is_shown(error: CatalogError, checks: Sequence[ValidationCheck]) -> bool:
    """Return whether the error of a request is that of one of its checks, which the list shows."""
    return isinstance(error, StorageValidationFailed) or any(each.error is error for each in checks)


def show_checks(checks: Sequence[ValidationCheck], profile: Mapping[str, Any]) -> CheckList:
    """Return the results for a page; `profile` is the storage profile of the request, valid or not."""
    parsed = None
    with suppress(CatalogError):
        found = parse_profile(dict(profile))
        parsed = found.as_s3() if isinstance(found, S3Profile | StackitProfile) else None
    shown: list[ShownCheck] = []
    is_reachable = True
    for each in checks:
        if each.reason != NOT_APPLICABLE:
            shown.append(_shown(each, parsed, is_first=is_reachable or each.name not in STORE_CHECKS))
            is_reachable &= each.status is not Status.FAILED
    return CheckList(shown)


def _shown(check: ValidationCheck, profile: S3Profile | None, *, is_first: bool) -> ShownCheck:
    """Only the first failure gets a cure if the others may follow from it."""
    cure = None
    if check.error is not None:
        cure = _cure(check.name, check.error, profile) if is_first else Cure(_("Fix the failure above first."))
    field = cure.field if cure else check.error.field if check.error else None
    return ShownCheck(
        check.name.value,
        NAMES[check.name],
        check.status.value,
        check.milliseconds,
        note=check.reason or "",
        error="" if check.error is None else check.error.message,
        cure="" if cure is None else cure.text,
        policy=(cure.policy if cure else None) or "",
        field=field,
        field_text=(cure.text if cure else "") or ("" if check.error is None else error_text(check.error)),
    )


def _cure(name: CheckName, error: CatalogError, profile: S3Profile | None) -> Cure | None:
    """Return how to fix the failure; None where the error says it."""
    if error.hint:
        return Cure(error.hint, error.field)
    if name not in STORE_CHECKS:
        return None
    if isinstance(error, ScopeNotEnforced):
        return Cure(
            _("The store does not limit credentials to a folder. Do not vend credentials."), f"{_PROFILE}.sts-enabled"
        )
    if isinstance(error, StoreUnavailable):
        return _cure_unavailable(name, profile)
    if profile is None:
        return _cure_of_other_stores(error)
    return _cure_on_s3(name, error, profile)


def _cure_unavailable(name: CheckName, profile: S3Profile | None) -> Cure:
    if profile is None:
        return Cure(_("Check the address of the store, and that this server can reach it; then validate again."))
    if name is CheckName.VENDED_CREDENTIALS_ISSUED:
        return Cure(
            _("Check the endpoint of STS, and that this server can reach it. Without STS, do not vend credentials."),
            f"{_PROFILE}.sts-endpoint",
        )
    return Cure(
        _("Check endpoint and region, and that this server can reach the store; then validate again."),
        f"{_PROFILE}.endpoint",
    )


def _cure_of_other_stores(error: CatalogError) -> Cure | None:
    if isinstance(error, StoreAccessDenied):
        text = _("Give the identity of this credential permission to read, write, list and delete in the location.")
        return Cure(text, _CREDENTIAL)
    return Cure(_("Check the credential."), _CREDENTIAL) if isinstance(error, CredentialNotIssued) else None


def _cure_on_s3(name: CheckName, error: CatalogError, profile: S3Profile) -> Cure | None:  # noqa: PLR0911
    code = error.message.rpartition(": ")[2]
    if code in _WRONG_KEYS:
        text, member = _WRONG_KEYS[code]
        return Cure(text, f"{_CREDENTIAL}.{member}")
    if "does not exist" in error.message and "bucket" in error.message:
        return Cure(_("Create the bucket in the store, or correct its name."), f"{_PROFILE}.bucket")
    if code in _WRONG_REGION:
        return Cure(_("Enter the region of the bucket."), f"{_PROFILE}.region")
    if name is CheckName.VENDED_CREDENTIALS_ISSUED:
        policy = role_policy(profile)
        if policy is None:
            text = _(
                "Check the access key. If the store needs a role, enter one; if it has no STS, vend no credentials."
            )
            return Cure(text, f"{_PROFILE}.sts-role-arn")
        text = _("Allow the key to assume the role with this policy, and the role to trust it; then validate again.")
        return Cure(text, f"{_PROFILE}.sts-role-arn", policy)
    if name is CheckName.VENDED_CREDENTIALS_READ_WRITE and isinstance(error, StoreAccessDenied):
        text = _("Add this policy to the role for engines, then validate again.")
        return Cure(text, f"{_PROFILE}.sts-role-arn" if profile.sts_role_arn else None, object_policy(profile))
    if name is CheckName.REMOTE_SIGNING:
        text = _("Vend temporary credentials, or switch remote signing off.")
        return Cure(text, f"{_PROFILE}.sts-enabled")
    if isinstance(error, StoreAccessDenied):
        own = profile.assume_role_arn
        text = (
            _("Add this policy to the role, then validate again.")
            if own
            else _("Add this policy to the user of the key, then validate again.")
        )
        return Cure(text, f"{_PROFILE}.assume-role-arn" if own else _CREDENTIAL, object_policy(profile))
    if isinstance(error, CredentialNotIssued):
        return Cure(_("Check the access key, and the role that it assumes."), _CREDENTIAL)
    return None


_WRONG_KEYS: Final[dict[str, tuple[Text, str]]] = {
    "InvalidAccessKeyId": (_("The store does not know this access key: correct its id."), "access-key-id"),
    "SignatureDoesNotMatch": (
        _("The secret does not belong to this access key: enter it again."),
        "secret-access-key",
    ),
    "InvalidClientTokenId": (_("The store does not know this access key: correct its id."), "access-key-id"),
    "ExpiredToken": (_("The credential has expired: enter another one."), "access-key-id"),
}
_WRONG_REGION: Final = frozenset(
    {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"}
)
