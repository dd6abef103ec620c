"""What a storage profile is, whatever the store."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from django.conf import settings
from pydantic import Field

from icekeeper.kernel.errors.types import BadRequest
from storage.credentials.credential import Credential
from storage.documents import InvalidMember, StorageDocument
from storage.profiles.layout import StorageLayout


class UpdateError(BadRequest):
    """A member that says where the files are."""

    wire_type = "UpdateError"


class IncompatibleProfiles(BadRequest):
    wire_type = "IncompatibleProfiles"


class MissingCredential(BadRequest):
    wire_type = "MissingCredentialError"


class Profile(StorageDocument):
    """Where the files of a warehouse are, and how clients may get at them.

    `fixed` are the fields that an update must leave as they are, `credentials` the kinds of credential that go with the
    profile, of which it may need one. A field of `null_unless_given` is null in JSON when the request does not name it,
    as in Lakekeeper, and its default applies: clients compare the profile with what they sent.
    """

    fixed: ClassVar[tuple[str, ...]]
    null_unless_given: ClassVar[tuple[str, ...]] = ()
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
        """The base of the warehouse as locations are compared, without a trailing slash."""

    def as_json(self) -> dict[str, Any]:
        defaults = [name for name in self.null_unless_given if name not in self.model_fields_set]
        return super().as_json() | {name.replace("_", "-"): None for name in defaults}

    def effective_json(self) -> dict[str, Any]:
        """With the default of each member that was not given, to compare two profiles by."""
        return super().as_json()

    def completed(self) -> Self:
        """The profile with what follows from its own members. Raises `InvalidMember`."""
        return self

    def with_credential_of(self, credential_type: str | None) -> Self:
        """The profile with the values that a credential of this type brings, None for none."""
        return self

    def settled(self, credential: Credential | None) -> Self:
        """The profile as it is with `credential`, which may bring rules and values of its own.

        A system identity that is switched off may be stored where storage validation is skipped; using it is refused.
        Raises `MissingCredential`, `SystemIdentityDisabled`, or `InvalidMember` for what does not go together.
        """
        if credential is None:
            if self.needs_credential:
                raise MissingCredential(f"storage-credential: storage of type {self.type} needs one")
            return self
        if not isinstance(credential, self.credentials):
            raise InvalidMember("storage-credential", f"of another type than storage of type {self.type} takes")
        if not settings.ICEKEEPER.skip_storage_validation:
            credential.require_permitted()
        credential.require_complete()
        return self

    def following(self, before: Self) -> Self:
        """Return the profile as the replacement of `before`, from which it takes over what a request may leave out.

        Both are completed. Raises `UpdateError` when the files would have to move.
        """
        self._require_fixed(before, self.fixed)
        return self if self.storage_layout is not None else self.having(storage_layout=before.storage_layout)

    def having(self, **members: Any) -> Self:
        """The same with other values of some fields."""
        return self.model_copy(update=members)

    def _require_fixed(self, before: Self, fields: tuple[str, ...]) -> None:
        for field in fields:
            if getattr(self, field) != getattr(before, field):
                raise UpdateError(f"Field `{field.replace('_', '-')}` cannot be updated")
