"""Keys that requests to an S3 store are signed with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn, SupportsIndex

from icekeeper.kernel.errors.types import BadRequest
from storage.credentials import Credential
from storage.errors import StoreRefused


class CredentialNotIssued(StoreRefused):
    """The provider of the store's identities refused to hand one out; sending the same again changes nothing."""

    wire_type = "ShortTermCredentialError"


def require_usable(credential: Credential) -> None:
    """Raise `CredentialNotIssued` when this server's settings do not allow the credential (any more)."""
    try:
        credential.require_permitted()
        credential.require_complete()
    except BadRequest as error:
        raise CredentialNotIssued(error.message) from None


@dataclass(frozen=True, slots=True)
class Token:
    """What requests to the stores of Azure and Google Cloud are sent with; `expires_at` in UTC."""

    value: str = field(repr=False)
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Keys:
    """A key of S3; temporary ones have a session token, and `expires_at`, in UTC."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None

    @property
    def parts(self) -> tuple[str, str, str | None]:
        """Id, secret and session token."""
        return self.access_key_id, self.secret_access_key, self.session_token

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("keys are not pickled: they would stand there in clear")
