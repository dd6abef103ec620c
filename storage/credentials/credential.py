"""What a credential is, whatever the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NoReturn, SupportsIndex

from pydantic import BaseModel, Field, SecretStr

from icekeeper.kernel.errors.types import BadRequest
from storage.documents import StorageDocument

Hidden = Annotated[SecretStr, Field(min_length=1, max_length=16_384)]


class SystemIdentityDisabled(BadRequest):
    """The settings keep warehouses from using the identity that the server itself has."""

    wire_type = "SystemIdentityDisabled"

    def __init__(self, credential_type: str, setting: str) -> None:
        super().__init__(f"credential-type: {credential_type} is off: {setting}")


class Credential(StorageDocument):
    """`type` is the kind of store, `credential_type` the kind of proof. No text form of it says more than these two.

    `uses_system_identity` is whether it is no secret of who brings it but the identity that the server itself has.
    """

    uses_system_identity: ClassVar[bool] = False

    type: str
    credential_type: str

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [("type", self.type), ("credential_type", self.credential_type)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a credential is not pickled: what it hides would stand there in clear")

    def require_permitted(self) -> None:
        """Raises `SystemIdentityDisabled` when this server's settings do not allow it."""

    def require_complete(self) -> None:
        """Raises `InvalidMember` when a member is missing that this server's settings require."""

    def revealed(self) -> dict[str, Any]:
        """Return the document from which `read_credential` creates the same credential. Only for the secret store."""
        return _members(self)


def _members(document: BaseModel) -> dict[str, Any]:
    fields = type(document).model_fields
    return {fields[name].alias or name: _value(member) for name, member in document if member is not None}


def _value(member: Any) -> Any:
    if isinstance(member, SecretStr):
        return member.get_secret_value()
    return _members(member) if isinstance(member, BaseModel) else member
