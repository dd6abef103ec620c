"""The storage profiles `adls`, Azure Data Lake Storage Gen2, and `onelake`, lakehouses of Microsoft Fabric."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field

from icekeeper.kernel.ids import parse_id
from storage.credentials import AzureClientCredentials, AzureSharedKey, AzureSystemIdentity, Credential
from storage.documents import Address, InvalidMember, Seconds, StorageDocument, folder_check, pattern_check, trim
from storage.profiles.profile import DefaultLayout, Profile

MAX_PREFIX_BYTES = 512
DEFAULT_HOST = "dfs.core.windows.net"
DEFAULT_AUTHORITY_HOST = "https://login.microsoftonline.com/"
ONELAKE_HOST = "dfs.fabric.microsoft.com"

_OF_AZURE = re.compile(
    r"dfs\.core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|microsoft\.scloud|eaglex\.ic\.gov)"
    r"|z[0-9]{1,3}\.dfs\.storage\.azure\.net"
)
"""The `dfs` endpoint of each cloud: `blob` names the same service, and Fabric hosts belong to `onelake` profiles."""
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")

_is_filesystem = pattern_check(
    r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "must be 3 to 63 lower-case letters, digits and single hyphens, with a letter or digit at both ends",
)
_is_account = pattern_check(r"[a-z0-9]{3,24}", "must be 3 to 24 lower-case letters and digits")
_is_region = pattern_check(r"[a-z][a-z0-9]*", "must be as westus: lower-case letters and digits")


def _host(text: str | None) -> str:
    host = trim(text or "").lower() or DEFAULT_HOST
    if not _HOST.fullmatch(host):
        raise ValueError("must be a host name")
    return host


def _region(text: str) -> str:
    return _is_region(trim(text).lower())


def _uuid(text: str) -> str:
    parsed = parse_id(text)
    if parsed is None:
        raise ValueError("must be a UUID")
    return str(parsed)


def _directory(text: str | None) -> str | None:
    folder = folder_check(MAX_PREFIX_BYTES)(text)
    if text is not None and folder is None:
        raise ValueError("must not be empty")
    if folder is not None and "%" in folder:
        raise ValueError("must not contain %, which OneLake would decode")
    return folder


KeyPrefix = Annotated[
    str | None, Field(max_length=4 * MAX_PREFIX_BYTES), AfterValidator(folder_check(MAX_PREFIX_BYTES))
]
Uuid = Annotated[str, Field(max_length=36), AfterValidator(_uuid)]


class AdlsProfile(Profile):
    """A container of a storage account."""

    immutable: ClassVar = ("filesystem", "account_name", "key_prefix", "host", "authority_host")
    null_if_omitted: ClassVar = ("host", "authority_host", "sas_token_validity_seconds")
    credentials: ClassVar = (AzureClientCredentials, AzureSharedKey, AzureSystemIdentity)
    needs_credential: ClassVar = True

    type: Literal["adls"]
    filesystem: Annotated[str, Field(max_length=256), AfterValidator(_is_filesystem)] = Field(
        description="The container"
    )
    account_name: Annotated[str, Field(max_length=256), AfterValidator(_is_account)]
    key_prefix: KeyPrefix = Field(None, description="Folder in the container; default: the container itself")
    host: Annotated[str, Field(max_length=253), AfterValidator(_host)] = Field(
        DEFAULT_HOST,
        description=f"Host of the service, without the account; null: {DEFAULT_HOST}",
        json_schema_extra={"nullable": True},
    )
    authority_host: Address = Field(DEFAULT_AUTHORITY_HOST, description="Authority that issues tokens of Entra ID")
    sas_enabled: bool = Field(default=True, description="Whether clients get vended credentials")
    sas_token_validity_seconds: Annotated[Seconds, Field(ge=1)] = Field(3600, json_schema_extra={"nullable": True})
    allow_alternative_protocols: bool = Field(
        default=False, description="Whether new locations may begin with wasbs://"
    )

    @property
    def location(self) -> str:
        base = f"abfss://{self.filesystem}@{self.account_name}.{self.host}"
        return base + (f"/{self.key_prefix}" if self.key_prefix else "")

    def for_credential(self, credential: Credential | None) -> Self:
        """With the server's own identity, the host must be Azure's standard name, by which overlaps are detected."""
        super().for_credential(credential)
        if isinstance(credential, AzureSystemIdentity) and not _OF_AZURE.fullmatch(self.host):
            raise InvalidMember(
                "host", f"with azure-system-identity it must be a host of Azure, such as {DEFAULT_HOST}"
            )
        return self


class DefaultEndpoint(StorageDocument):
    """The global endpoint."""

    type: Literal["default"]


class RegionalEndpoint(StorageDocument):
    """The endpoint of one region."""

    type: Literal["regional"]
    region: Annotated[str, Field(max_length=64), AfterValidator(_region)]


class WorkspaceEndpoint(StorageDocument):
    """The endpoint of the workspace, for a private link."""

    type: Literal["workspace-private-link"]


EndpointMode = Annotated[DefaultEndpoint | RegionalEndpoint | WorkspaceEndpoint, Field(discriminator="type")]


class OneLakeProfile(Profile):
    """A folder of a lakehouse."""

    null_if_omitted: ClassVar = ("authority_host", "sas_token_validity_seconds")
    immutable: ClassVar = (
        "workspace_id",
        "lakehouse_id",
        "top_level_folder",
        "directory_rel_path",
        "endpoint_mode",
    )
    credentials: ClassVar = (AzureClientCredentials, AzureSystemIdentity)
    needs_credential: ClassVar = True

    type: Literal["onelake"]
    workspace_id: Uuid
    lakehouse_id: Uuid
    top_level_folder: Literal["Files", "Tables"] = "Files"
    directory_rel_path: Annotated[str | None, Field(max_length=4 * MAX_PREFIX_BYTES), AfterValidator(_directory)] = (
        Field(None, description="Folder below the top-level folder; default: the top-level folder itself")
    )
    endpoint_mode: EndpointMode = DefaultEndpoint.model_construct(type="default")
    authority_host: Address = Field(DEFAULT_AUTHORITY_HOST, description="Authority that issues tokens of Entra ID")
    sas_enabled: bool = Field(default=True, description="Whether clients get vended credentials")
    sas_token_validity_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(3600, json_schema_extra={"nullable": True})
    storage_layout: DefaultLayout | None = Field(None, description="OneLake supports only the default")

    @property
    def location(self) -> str:
        parts = [self.lakehouse_id, self.top_level_folder, self.directory_rel_path]
        return f"abfss://{self.workspace_id}@{self._host}/" + "/".join(part for part in parts if part)

    @property
    def _host(self) -> str:
        match self.endpoint_mode:
            case RegionalEndpoint(region=region):
                return f"{region}-onelake.{ONELAKE_HOST}"
            case WorkspaceEndpoint():
                plain_id = self.workspace_id.replace("-", "")
                return f"{plain_id}.z{plain_id[:2]}.{ONELAKE_HOST}"
        return f"onelake.{ONELAKE_HOST}"


def account_and_container(profile: AdlsProfile | OneLakeProfile) -> tuple[str, str]:
    """Return account and container, as in URLs and signatures. OneLake is one account, whatever the host."""
    if isinstance(profile, OneLakeProfile):
        return "onelake", profile.workspace_id
    return profile.account_name, profile.filesystem
