"""Credentials for object stores. Each type is identified by the members `type` and `credential-type`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, SupportsIndex

from django.conf import settings
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from icekeeper.kernel.errors.types import BadRequest
from storage.documents import InvalidMember, StorageDocument, only_value, read_document

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


_OLDER = {"aws-access-key-id": "access-key-id", "aws-secret-access-key": "secret-access-key"}


class S3AccessKey(Credential):
    """A static key. `aws-access-key-id` and `aws-secret-access-key` are other names of its members."""

    older_names: ClassVar[Mapping[str, str]] = _OLDER
    type: Literal["s3"]
    credential_type: Literal["access-key"]
    access_key_id: Hidden
    secret_access_key: Hidden
    external_id: Hidden | None = Field(None, description="Sent when a role is assumed")


class S3SystemIdentity(Credential):
    """The identity that the server itself has on AWS. Only where the server's settings allow it."""

    uses_system_identity: ClassVar = True

    type: Literal["s3"]
    credential_type: Literal["aws-system-identity"]
    external_id: Hidden | None = Field(None, description="Sent when a role is assumed")

    def require_permitted(self) -> None:
        if not settings.ICEKEEPER.enable_aws_system_credentials:
            raise SystemIdentityDisabled(self.credential_type, "LAKEKEEPER__ENABLE_AWS_SYSTEM_CREDENTIALS")

    def require_complete(self) -> None:
        if settings.ICEKEEPER.s3_require_external_id_for_system_credentials and self.external_id is None:
            raise InvalidMember(
                "external-id",
                "required: LAKEKEEPER__S3_REQUIRE_EXTERNAL_ID_FOR_SYSTEM_CREDENTIALS",
            )


class CloudflareR2(Credential):
    """A key of Cloudflare R2, and the token that temporary credentials are asked for with."""

    older_names: ClassVar[Mapping[str, str]] = _OLDER
    type: Literal["s3"]
    credential_type: Literal["cloudflare-r2"]
    access_key_id: Hidden
    secret_access_key: Hidden
    token: Hidden
    account_id: Hidden


class AliyunOss(Credential):
    """A key of Alibaba Cloud OSS."""

    older_names: ClassVar[Mapping[str, str]] = _OLDER
    type: Literal["s3"]
    credential_type: Literal["aliyun-oss"]
    access_key_id: Hidden
    secret_access_key: Hidden
    external_id: Hidden | None = Field(None, description="Sent when a role is assumed")


class StackitAccessKey(Credential):
    """A key of STACKIT Object Storage."""

    type: Literal["stackit"]
    credential_type: Literal["access-key"]
    access_key_id: Hidden
    secret_access_key: Hidden


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


_BY_TYPES: Final = {(only_value(kind, "type"), only_value(kind, "credential_type")): kind for kind in KINDS}
TYPES: Final = list(dict.fromkeys(store for store, _ in _BY_TYPES))
CREDENTIAL_TYPES: Final = list(dict.fromkeys(proof for _, proof in _BY_TYPES))
SYSTEM_IDENTITY_TYPES: Final = [proof for (_, proof), kind in _BY_TYPES.items() if kind.uses_system_identity]
"""The credential types that stand for the server's own identity."""


def read_credential(document: dict[str, Any]) -> Credential:
    """The credential that a request or the secret store holds.

    Raises `BadRequest` naming the member at fault, never what stands in it.
    """
    store, proof = document.get("type"), document.get("credential-type")
    if store not in TYPES:
        raise BadRequest(f"storage-credential.type: must be one of {', '.join(TYPES)}")
    kind = _BY_TYPES.get((store, proof)) if isinstance(proof, str) else None
    if kind is None:
        known = ", ".join(each for where, each in _BY_TYPES if where == store)
        raise BadRequest(f"storage-credential.credential-type: must be one of {known} for type {store}")
    return read_document(kind, document, "storage-credential")
