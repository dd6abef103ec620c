"""Keys and tokens for object stores, as identity providers issue them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn, SupportsIndex

from icekeeper.kernel.errors.types import BadRequest
from storage.credentials import Credential
from storage.errors import StoreRefused


class CredentialNotIssued(StoreRefused):
    """The identity provider of the store rejected the request for a credential; a retry does not help."""

    wire_type = "ShortTermCredentialError"


def require_usable(credential: Credential) -> None:
    """Raise `CredentialNotIssued` when the settings do not allow the credential."""
    try:
        credential.require_permitted()
        credential.require_complete()
    except BadRequest as error:
        raise CredentialNotIssued(error.message) from None


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token for Azure or Google Cloud; `expires_at` in UTC."""

    value: str = field(repr=False)
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Keys:
    """An S3 access key. Temporary keys have a session token and `expires_at`, in UTC."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None

    @property
    def parts(self) -> tuple[str, str, str | None]:
        """Return id, secret and session token."""
        return self.access_key_id, self.secret_access_key, self.session_token

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("keys must not be pickled: their secrets would be in clear text")
