"""Credentials of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final, Literal

from django.conf import settings
from pydantic import AfterValidator, ConfigDict, Field, SecretStr

from storage.credentials.credential import Credential, Hidden, SystemIdentityDisabled
from storage.documents import StorageDocument

DEFAULT_UNIVERSE: Final = "googleapis.com"


def _or_usual(domain: SecretStr) -> SecretStr:
    return domain if domain.get_secret_value() else SecretStr(DEFAULT_UNIVERSE)


UniverseDomain = Annotated[
    SecretStr, Field(max_length=16_384, description=f"Empty means {DEFAULT_UNIVERSE}"), AfterValidator(_or_usual)
]


class ServiceAccountKey(StorageDocument):
    """The file that Google Cloud gives for a key of a service account, whole."""

    model_config = ConfigDict(alias_generator=None)

    type: Hidden
    project_id: Hidden
    private_key_id: Hidden
    private_key: Hidden
    client_email: Hidden
    client_id: Hidden
    auth_uri: Hidden
    token_uri: Hidden
    auth_provider_x509_cert_url: Hidden
    client_x509_cert_url: Hidden
    universe_domain: UniverseDomain

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return []

    def revealed(self) -> dict[str, str]:
        """Return the file itself. Only for code that signs with the key."""
        return {name: member.get_secret_value() for name, member in self}


class GcsServiceAccount(Credential):
    """A service account."""

    type: Literal["gcs"]
    credential_type: Literal["service-account-key"]
    key: ServiceAccountKey


class GcpSystemIdentity(Credential):
    """The identity that the server itself has on Google Cloud. Only where the server's settings allow it."""

    uses_system_identity: ClassVar = True

    type: Literal["gcs"]
    credential_type: Literal["gcp-system-identity"]

    def require_permitted(self) -> None:
        if not settings.ICEKEEPER.enable_gcp_system_credentials:
            raise SystemIdentityDisabled(self.credential_type, "LAKEKEEPER__ENABLE_GCP_SYSTEM_CREDENTIALS")
