"""Credentials for object stores. Each type is identified by the members `type` and `credential-type`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, SupportsIndex

from django.conf import settings
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from icekeeper.kernel.errors.types import BadRequest
from storage.documents import InvalidMember, StorageDocument, literal_value, read_document

SecretText = Annotated[SecretStr, Field(min_length=1, max_length=16_384)]


class Identifier:
    """Marks a member that names a key or an account: the form in which it was entered may show it again.

    It is no secret by itself. Logs, errors and API responses contain it as little as the secrets.
    """


IdentifierText = Annotated[SecretStr, Field(min_length=1, max_length=16_384), Identifier()]


class SystemIdentityDisabled(BadRequest):
    """The settings do not allow warehouses to use the server's own cloud identity."""

    wire_type = "SystemIdentityDisabled"

    def __init__(self, credential_type: str, setting: str) -> None:
        super().__init__(
            f"credential-type: {credential_type} is disabled by {setting}", field="storage-credential.credential-type"
        )


class Credential(StorageDocument):
    """A credential. `type` is the kind of store, `credential_type` the kind of secret; `repr` shows only these two.

    `uses_system_identity`: it stands for the server's own cloud identity, and contains no secret.
    """

    uses_system_identity: ClassVar[bool] = False

    type: str
    credential_type: str

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [("type", self.type), ("credential_type", self.credential_type)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a credential must not be pickled: its secrets would be in clear text")

    def require_permitted(self) -> None:
        """Raises `SystemIdentityDisabled` when the settings do not allow this type."""

    def require_complete(self) -> None:
        """Raises `InvalidMember` when a member that the settings require is missing."""

    def reveal(self) -> dict[str, Any]:
        """Return the JSON document with its secrets in clear text, for the secret store."""
        return _members(self)


class SystemIdentity(Credential):
    """The server's own identity at a cloud, if the setting `enabled_by` allows it."""

    uses_system_identity: ClassVar = True
    enabled_by: ClassVar[str]

    def require_permitted(self) -> None:
        if not getattr(settings.ICEKEEPER, self.enabled_by):
            raise SystemIdentityDisabled(self.credential_type, f"LAKEKEEPER__{self.enabled_by.upper()}")


def _members(document: BaseModel) -> dict[str, Any]:
    fields = type(document).model_fields
    return {fields[name].alias or name: _value(member) for name, member in document if member is not None}


def _value(member: Any) -> Any:
    if isinstance(member, SecretStr):
        return member.get_secret_value()
    return _members(member) if isinstance(member, BaseModel) else member


_OLDER = {"aws-access-key-id": "access-key-id", "aws-secret-access-key": "secret-access-key"}


class S3AccessKey(Credential):
    """A static access key. Aliases of its members: `aws-access-key-id`, `aws-secret-access-key`."""

    aliases: ClassVar[Mapping[str, str]] = _OLDER
    type: Literal["s3"]
    credential_type: Literal["access-key"]
    access_key_id: IdentifierText
    secret_access_key: SecretText
    external_id: SecretText | None = Field(None, description="Sent when a role is assumed")


class S3SystemIdentity(SystemIdentity):
    """The server's own AWS identity, if the settings allow it."""

    enabled_by: ClassVar = "enable_aws_system_credentials"

    type: Literal["s3"]
    credential_type: Literal["aws-system-identity"]
    external_id: SecretText | None = Field(None, description="Sent when a role is assumed")

    def require_complete(self) -> None:
        if settings.ICEKEEPER.s3_require_external_id_for_system_credentials and self.external_id is None:
            raise InvalidMember(
                "external-id",
                "required: LAKEKEEPER__S3_REQUIRE_EXTERNAL_ID_FOR_SYSTEM_CREDENTIALS",
            )


class CloudflareR2(Credential):
    """An access key of Cloudflare R2, and the API token that requests temporary credentials."""

    aliases: ClassVar[Mapping[str, str]] = _OLDER
    type: Literal["s3"]
    credential_type: Literal["cloudflare-r2"]
    access_key_id: IdentifierText
    secret_access_key: SecretText
    token: SecretText
    account_id: IdentifierText


class AliyunOss(Credential):
    """An access key of Alibaba Cloud OSS."""

    aliases: ClassVar[Mapping[str, str]] = _OLDER
    type: Literal["s3"]
    credential_type: Literal["aliyun-oss"]
    access_key_id: IdentifierText
    secret_access_key: SecretText
    external_id: SecretText | None = Field(None, description="Sent when a role is assumed")


class StackitAccessKey(Credential):
    """An access key of STACKIT Object Storage."""

    type: Literal["stackit"]
    credential_type: Literal["access-key"]
    access_key_id: IdentifierText
    secret_access_key: SecretText


class AzureClientCredentials(Credential):
    """An application (service principal) of Entra ID."""

    type: Literal["az"]
    credential_type: Literal["client-credentials"]
    client_id: IdentifierText
    tenant_id: IdentifierText
    client_secret: SecretText


class AzureSharedKey(Credential):
    """The access key of a storage account; not for OneLake."""

    type: Literal["az"]
    credential_type: Literal["shared-access-key"]
    key: SecretText


class AzureSystemIdentity(SystemIdentity):
    """The server's own Azure identity, if the settings allow it."""

    enabled_by: ClassVar = "enable_azure_system_credentials"

    type: Literal["az"]
    credential_type: Literal["azure-system-identity"]


DEFAULT_UNIVERSE: Final = "googleapis.com"


def _or_default(domain: SecretStr) -> SecretStr:
    return domain if domain.get_secret_value() else SecretStr(DEFAULT_UNIVERSE)


UniverseDomain = Annotated[
    SecretStr, Field(max_length=16_384, description=f"Empty means {DEFAULT_UNIVERSE}"), AfterValidator(_or_default)
]


class ServiceAccountKey(StorageDocument):
    """The JSON key file of a service account, as Google Cloud creates it."""

    model_config = ConfigDict(alias_generator=None)

    type: SecretText
    project_id: SecretText
    private_key_id: SecretText
    private_key: SecretText
    client_email: SecretText
    client_id: SecretText
    auth_uri: SecretText
    token_uri: SecretText
    auth_provider_x509_cert_url: SecretText
    client_x509_cert_url: SecretText
    universe_domain: UniverseDomain

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return []

    def reveal(self) -> dict[str, str]:
        """Return the key file with its secrets in clear text, for google-auth."""
        return {name: member.get_secret_value() for name, member in self}


class GcsServiceAccount(Credential):
    """A service account."""

    type: Literal["gcs"]
    credential_type: Literal["service-account-key"]
    key: ServiceAccountKey


class GcpSystemIdentity(SystemIdentity):
    """The server's own Google Cloud identity, if the settings allow it."""

    enabled_by: ClassVar = "enable_gcp_system_credentials"

    type: Literal["gcs"]
    credential_type: Literal["gcp-system-identity"]


KINDS: Final[tuple[type[Credential], ...]] = (
    S3AccessKey,
    S3SystemIdentity,
    CloudflareR2,
    AliyunOss,
    StackitAccessKey,
    AzureClientCredentials,
    AzureSharedKey,
    AzureSystemIdentity,
    GcsServiceAccount,
    GcpSystemIdentity,
)


_BY_TYPES: Final = {(literal_value(kind, "type"), literal_value(kind, "credential_type")): kind for kind in KINDS}
TYPES: Final = list(dict.fromkeys(store for store, _ in _BY_TYPES))
CREDENTIAL_TYPES: Final = list(dict.fromkeys(proof for _, proof in _BY_TYPES))
SYSTEM_IDENTITY_TYPES: Final = [proof for (_, proof), kind in _BY_TYPES.items() if kind.uses_system_identity]
"""Credential types that stand for the server's own identity."""


def read_credential(document: dict[str, Any]) -> Credential:
    """Parse a credential of a request or of the secret store.

    Raises `BadRequest` with the invalid member, never its value.
    """
    store, proof = document.get("type"), document.get("credential-type")
    if store not in TYPES:
        raise BadRequest(f"storage-credential.type: must be one of {', '.join(TYPES)}", field="storage-credential.type")
    kind = _BY_TYPES.get((store, proof)) if isinstance(proof, str) else None
    if kind is None:
        known = ", ".join(each for where, each in _BY_TYPES if where == store)
        message = f"storage-credential.credential-type: must be one of {known} for type {store}"
        raise BadRequest(message, field="storage-credential.credential-type")
    return read_document(kind, document, "storage-credential")
