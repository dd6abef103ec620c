"""Base class of storage profiles, with the members that profiles of every type may have."""

from __future__ import annotations

import re
from abc import abstractmethod
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from django.conf import settings
from pydantic import AfterValidator, Field

from icekeeper.kernel.errors.types import BadRequest
from storage.credentials import Credential
from storage.documents import InvalidMember, StorageDocument

MAX_TEMPLATE_LENGTH = 256
_PLACEHOLDERS = ("{uuid}", "{name}")


def _template(text: str) -> str:
    """One path segment with at least one of the placeholders `{uuid}` and `{name}`."""
    if not any(placeholder in text for placeholder in _PLACEHOLDERS):
        raise ValueError("must contain {uuid} or {name}")
    literal = text.replace("{uuid}", "").replace("{name}", "")
    if not re.fullmatch(r"[A-Za-z0-9_.~=+@ -]*", literal):
        raise ValueError("may contain letters, digits, -_.~=+@ and spaces around {uuid} and {name}")
    return text


def _with_uuid(text: str) -> str:
    if "{uuid}" not in text:
        raise ValueError("must contain {uuid}: without namespaces in the path, only the id is unique")
    return text


Template = Annotated[str, Field(max_length=MAX_TEMPLATE_LENGTH), AfterValidator(_template)]


class DefaultLayout(StorageDocument):
    """A folder for each table, directly in the warehouse, named by its UUID."""

    type: Literal["default"]


class TabularOnlyLayout(StorageDocument):
    """A folder for each table, directly in the warehouse."""

    type: Literal["tabular-only"]
    tabular: Annotated[Template, AfterValidator(_with_uuid)] = Field(
        description="Name of a table's folder; must contain {uuid}, may contain {name}"
    )


class FullHierarchyLayout(StorageDocument):
    """A folder for each level of a namespace, and one for the table in it."""

    type: Literal["full-hierarchy"]
    namespace: Template = Field(description="Name of the folder of one level; must contain {uuid} or {name}")
    tabular: Template = Field(description="Name of a table's folder; must contain {uuid} or {name}")


StorageLayout = Annotated[DefaultLayout | TabularOnlyLayout | FullHierarchyLayout, Field(discriminator="type")]


class UpdateError(BadRequest):
    """The update changes a member that determines where the files are."""

    wire_type = "UpdateError"


class IncompatibleProfiles(BadRequest):
    wire_type = "IncompatibleProfiles"


class MissingCredential(BadRequest):
    wire_type = "MissingCredentialError"


class Profile(StorageDocument):
    """The location of a warehouse's files, and how clients may access them.

    `immutable` fields cannot be updated. `credentials` are the types of credential that the profile accepts. A field in
    `null_if_omitted` has its default but is null in JSON when the request omits it, as in Lakekeeper: clients compare
    the profile with what they sent.
    """

    immutable: ClassVar[tuple[str, ...]]
    null_if_omitted: ClassVar[tuple[str, ...]] = ()
    credentials: ClassVar[tuple[type[Credential], ...]] = ()
    needs_credential: ClassVar[bool] = False

    type: str
    storage_layout: StorageLayout | None = Field(
        None,
        description="Default locations of new namespaces and tables; default: each table in the "
        "warehouse, in a folder named by its UUID. An update without it leaves it as it is",
    )

    @property
    @abstractmethod
    def location(self) -> str:
        """The base location of the warehouse, normalized."""

    def as_json(self) -> dict[str, Any]:
        defaults = [name for name in self.null_if_omitted if name not in self.model_fields_set]
        return super().as_json() | {name.replace("_", "-"): None for name in defaults}

    def effective_json(self) -> dict[str, Any]:
        """Return the profile with the defaults of omitted members, to compare two profiles."""
        return super().as_json()

    def with_derived_fields(self) -> Self:
        """Return the profile with the fields that follow from others. Raises `InvalidMember`."""
        return self

    def with_credential_type(self, credential_type: str | None) -> Self:
        """Return the profile with the values that a credential of this type implies; None: without a credential."""
        return self

    def for_credential(self, credential: Credential | None) -> Self:
        """Validate the profile with its credential; return it with the values that the credential implies.

        Where storage validation is skipped, a disabled system identity can be stored, but not used. Raises
        `MissingCredential`, `SystemIdentityDisabled`, and `InvalidMember` for a combination that is not allowed.
        """
        if credential is None:
            if self.needs_credential:
                raise MissingCredential(
                    f"storage-credential: required for storage of type {self.type}", field="storage-credential"
                )
            return self
        if not isinstance(credential, self.credentials):
            raise InvalidMember("storage-credential", f"of another type than storage of type {self.type} takes")
        if not settings.ICEKEEPER.skip_storage_validation:
            credential.require_permitted()
        credential.require_complete()
        return self

    def as_replacement_of(self, before: Self) -> Self:
        """Return the profile as an update of `before`, whose values replace omitted ones.

        Raises `UpdateError` when the files would have to move.
        """
        self._require_fixed(before, self.immutable)
        return self if self.storage_layout is not None else self.copy_with(storage_layout=before.storage_layout)

    def copy_with(self, **members: Any) -> Self:
        """Return a copy with other values of some fields."""
        return self.model_copy(update=members)

    def _require_fixed(self, before: Self, fields: tuple[str, ...]) -> None:
        for field in fields:
            if getattr(self, field) != getattr(before, field):
                member = field.replace("_", "-")
                raise UpdateError(f"Field `{member}` cannot be updated", field=f"storage-profile.{member}")


ALLOW_NON_EMPTY = "allow-non-empty-locations"
"""Whether a new table may be created at a location that contains files. Off by default: the files may belong to others,
and a purge of the table would delete them."""

DEFAULT_LIFETIME_SECONDS = 3600
"""Lifetime of credentials for which neither the store nor the profile has another."""


def allows_non_empty_locations(profile: dict[str, Any]) -> bool:
    return bool(profile.get(ALLOW_NON_EMPTY, False))


def vends_credentials(profile: dict[str, Any]) -> bool:
    """Return whether clients may get vended credentials."""
    return bool(profile.get("sts-enabled") or profile.get("sas-enabled"))


def signs_requests(profile: dict[str, Any]) -> bool:
    """Return whether clients may use remote signing."""
    return bool(profile.get("remote-signing-enabled"))


def max_credential_lifetime(profile: dict[str, Any]) -> timedelta:
    """Return the longest lifetime of vended credentials; zero without vending."""
    if not vends_credentials(profile):
        return timedelta(0)
    lives = [profile.get(name) or 0 for name in ("sts-token-validity-seconds", "sas-token-validity-seconds")]
    return timedelta(seconds=max(*lives, DEFAULT_LIFETIME_SECONDS))
