"""Credentials of Azure Data Lake Storage and OneLake."""

from __future__ import annotations

from typing import ClassVar, Literal

from django.conf import settings

from storage.credentials.credential import Credential, Hidden, SystemIdentityDisabled


class AzureClientCredentials(Credential):
    """An application of Entra ID."""

    type: Literal["az"]
    credential_type: Literal["client-credentials"]
    client_id: Hidden
    tenant_id: Hidden
    client_secret: Hidden


class AzureSharedKey(Credential):
    """The key of a storage account; OneLake has none."""

    type: Literal["az"]
    credential_type: Literal["shared-access-key"]
    key: Hidden


class AzureSystemIdentity(Credential):
    """The identity that the server itself has on Azure. Only where the server's settings allow it."""

    uses_system_identity: ClassVar = True

    type: Literal["az"]
    credential_type: Literal["azure-system-identity"]

    def require_permitted(self) -> None:
        if not settings.ICEKEEPER.enable_azure_system_credentials:
            raise SystemIdentityDisabled(self.credential_type, "LAKEKEEPER__ENABLE_AZURE_SYSTEM_CREDENTIALS")
