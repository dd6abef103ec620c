"""Credentials of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from django.conf import settings
from pydantic import ConfigDict

from storage.credentials.credential import Credential, Hidden
from storage.documents import Document, InvalidMember


class ServiceAccountKey(Document):
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
    universe_domain: Hidden

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return []

    def revealed(self) -> dict[str, str]:
        """The file itself. Only for whoever signs with the key."""
        return {name: member.get_secret_value() for name, member in self}


class GcsServiceAccount(Credential):
    """A service account."""

    type: Literal["gcs"]
    credential_type: Literal["service-account-key"]
    key: ServiceAccountKey


class GcpSystemIdentity(Credential):
    """The identity that the server itself has on Google Cloud. Only where the server's settings allow it."""

    is_servers_own: ClassVar = True

    type: Literal["gcs"]
    credential_type: Literal["gcp-system-identity"]

    def require_permitted(self) -> None:
        if not settings.ICEKEEPER.enable_gcp_system_credentials:
            raise InvalidMember(
                "credential-type", "gcp-system-identity is off: LAKEKEEPER__ENABLE_GCP_SYSTEM_CREDENTIALS"
            )
