"""Credentials of S3 and of compatible stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from django.conf import settings
from pydantic import Field

from storage.credentials.credential import Credential, Hidden, SystemIdentityDisabled
from storage.documents import InvalidMember

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
