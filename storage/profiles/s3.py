"""The storage profiles `s3`, for AWS and compatible stores, and `stackit`, and the addresses of S3 stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from django.conf import settings
from pydantic import AfterValidator, BeforeValidator, Field

from storage.credentials import AliyunOss, CloudflareR2, Credential, S3AccessKey, S3SystemIdentity, StackitAccessKey
from storage.documents import (
    Address,
    InvalidMember,
    OptionalText,
    Seconds,
    folder_check,
    pattern_check,
    require_plain_text,
    trim,
)
from storage.network.endpoints import is_allowed_endpoint, read_endpoint
from storage.profiles.profile import Profile

MAX_PREFIX_BYTES = 896
MAX_TAGS = 50

_is_bucket = pattern_check(
    r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "must be 3 to 63 lower-case letters, digits, dots and hyphens, with a letter or digit at both ends",
)
_is_stackit_bucket = pattern_check(
    r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "must be 3 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends",
)
_is_group = pattern_check(
    r"urn:sgws:identity::[0-9]+:group/[^/\s]+", "must be as urn:sgws:identity::87066461224079950546:group/name"
)

KeyPrefix = Annotated[
    str | None, Field(max_length=4 * MAX_PREFIX_BYTES), AfterValidator(folder_check(MAX_PREFIX_BYTES))
]


def _flavor(given: Any) -> Any:
    return "s3-compat" if given == "minio" else given


def _tags(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > MAX_TAGS:
        raise ValueError(f"must not be more than {MAX_TAGS}")
    for text in (*tags, *tags.values()):
        require_plain_text(text)
    if not all(0 < len(key) <= 128 and len(value) <= 256 for key, value in tags.items()):  # noqa: PLR2004
        raise ValueError("keys must have 1 to 128 characters, values at most 256")
    return tags


def _group(urn: str | None) -> str | None:
    return None if urn is None else _is_group(urn)


def _stripped(given: Any) -> Any:
    return trim(given) if isinstance(given, str) else given


_REGION: Final = re.compile("(?![0-9]+$)(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
"""A label of a host name, as AWS clients require of every store."""


class S3Profile(Profile):
    """A bucket of AWS S3 or of a compatible store."""

    immutable: ClassVar = ("bucket", "key_prefix")
    credentials: ClassVar = (S3AccessKey, S3SystemIdentity, CloudflareR2, AliyunOss)
    aliases: ClassVar[Mapping[str, str]] = {"s3-url-detection-mode": "remote-signing-url-style"}

    type: Literal["s3"]
    bucket: Annotated[str, Field(max_length=256), AfterValidator(_is_bucket)]
    key_prefix: KeyPrefix = Field(None, description="Folder in the bucket; default: the bucket itself")
    region: Annotated[str, Field(min_length=1, max_length=128), AfterValidator(require_plain_text)]
    endpoint: Address = Field(None, description="Address of the store; default: AWS")
    flavor: Annotated[Literal["aws", "s3-compat"], BeforeValidator(_flavor)] = "aws"
    path_style_access: bool | None = Field(None, description="Whether clients use path-style URLs")
    sts_enabled: bool = Field(default=False, description="Whether clients get vended credentials")
    assume_role_arn: OptionalText = Field(None, description="The role that the server assumes to read and write")
    sts_role_arn: OptionalText = Field(None, description="The role of vended credentials; default: `assume-role-arn`")
    sts_endpoint: Address = Field(None, description="Endpoint of STS; default: `endpoint`")
    sts_token_validity_seconds: Seconds = 3600
    sts_session_tags: Annotated[dict[str, str], AfterValidator(_tags)] = Field(
        {}, description="Session tags of AssumeRole"
    )
    remote_signing_enabled: bool = Field(default=True, description="Whether clients may use remote signing")
    remote_signing_url_style: Literal["auto", "path", "virtual_host"] = Field(
        "auto", description="URL style of requests that are signed for clients"
    )
    allow_alternative_protocols: bool | None = Field(
        None, description="Whether new locations may begin with s3a:// or s3n://; unchanged if omitted"
    )
    push_s3_delete_disabled: bool = Field(
        default=True, description="Whether clients are configured not to delete files in a soft-delete warehouse"
    )
    aws_kms_key_arn: OptionalText = Field(None, description="KMS key that encrypts objects")
    legacy_md5_behavior: bool | None = Field(None, description="Send Content-MD5, for old stores")

    @property
    def location(self) -> str:
        return f"s3://{self.bucket}" + (f"/{self.key_prefix}" if self.key_prefix else "")

    def effective_json(self) -> dict[str, Any]:
        effective = super().effective_json()
        for member in ("allow-alternative-protocols", "legacy-md5-behavior"):
            effective[member] = bool(effective[member])
        return effective

    def as_s3(self) -> S3Profile:
        return self

    def with_derived_fields(self) -> Self:
        if _REGION.fullmatch(self.region) is None:
            raise InvalidMember(
                "region", "must be 1 to 63 letters, digits and hyphens, and no number, such as eu-west-1"
            )
        return self.copy_with(endpoint=_strip_bucket(self.endpoint, self.bucket))

    def for_credential(self, credential: Credential | None) -> Self:
        super().for_credential(credential)
        own = self.with_credential_type(None if credential is None else credential.credential_type)
        match credential:
            case CloudflareR2():
                _require_member(own, "endpoint", because="cloudflare-r2")
            case AliyunOss():
                _require_member(own, "endpoint", because="aliyun-oss")
                if own.path_style_access:
                    raise InvalidMember("path-style-access", "must not be true with credential-type aliyun-oss")
            case S3SystemIdentity():
                require_trusted_endpoints(own)
                if not settings.ICEKEEPER.s3_enable_direct_system_credentials:
                    _require_member(own, "assume_role_arn", because="aws-system-identity")
        needs_role = isinstance(credential, AliyunOss) or (own.sts_enabled and own.flavor == "aws")
        if needs_role and not (own.sts_role_arn or own.assume_role_arn):
            raise InvalidMember("sts-role-arn", "required here, or assume-role-arn, for credentials of clients")
        return own

    def with_credential_type(self, credential_type: str | None) -> Self:
        if credential_type == "cloudflare-r2":
            return self.copy_with(flavor="s3-compat", sts_enabled=True, sts_role_arn=None, assume_role_arn=None)
        if credential_type == "aliyun-oss":
            return self.copy_with(flavor="s3-compat", sts_enabled=True)
        return self

    def as_replacement_of(self, before: Self) -> Self:
        following = super().as_replacement_of(before)
        if self.endpoint is None:
            self._require_fixed(before, ("region",))
        if self.allow_alternative_protocols is None:
            return following.copy_with(allow_alternative_protocols=before.allow_alternative_protocols)
        return following


class StackitProfile(Profile):
    """A bucket of STACKIT Object Storage."""

    immutable: ClassVar = ("bucket", "key_prefix", "region", "endpoint")
    credentials: ClassVar = (StackitAccessKey,)

    type: Literal["stackit"]
    bucket: Annotated[str, Field(max_length=256), AfterValidator(_is_stackit_bucket)]
    key_prefix: KeyPrefix = Field(None, description="Folder in the bucket; default: the bucket itself")
    region: Annotated[
        str,
        Field(max_length=128),
        BeforeValidator(_stripped),
        AfterValidator(
            pattern_check(
                "(?![0-9]+$)(?!-)[a-z0-9-]{1,63}(?<!-)", "must be lower-case letters, digits and hyphens, and no number"
            )
        ),
    ]
    endpoint: Address = Field(None, description="Address of the store; default: that of the region")
    sts_enabled: bool = Field(default=True, description="Whether clients get vended credentials")
    credentials_group_urn: Annotated[OptionalText, AfterValidator(_group)] = Field(
        None, description="Credentials group of vended credentials; required with `sts-enabled`"
    )
    sts_token_validity_seconds: Seconds = 3600
    remote_signing_enabled: bool = Field(default=True, description="Whether clients may use remote signing")
    push_s3_delete_disabled: bool = Field(
        default=True, description="Whether clients are configured not to delete files in a soft-delete warehouse"
    )

    @property
    def location(self) -> str:
        return f"s3://{self.bucket}" + (f"/{self.key_prefix}" if self.key_prefix else "")

    def as_s3(self) -> S3Profile:
        """Return the profile of the same bucket as an S3-compatible store."""
        return S3Profile.model_construct(
            type="s3",
            bucket=self.bucket,
            key_prefix=self.key_prefix,
            region=self.region,
            endpoint=self.endpoint,
            flavor="s3-compat",
            path_style_access=False,
            sts_enabled=self.sts_enabled,
            sts_role_arn=self.credentials_group_urn,
            sts_token_validity_seconds=self.sts_token_validity_seconds,
            remote_signing_enabled=self.remote_signing_enabled,
            remote_signing_url_style="virtual_host",
            allow_alternative_protocols=False,
            push_s3_delete_disabled=self.push_s3_delete_disabled,
            storage_layout=self.storage_layout,
        )

    def with_derived_fields(self) -> Self:
        endpoint = self.endpoint or f"https://object.storage.{self.region}.onstackit.cloud/"
        return self.copy_with(endpoint=_strip_bucket(endpoint, self.bucket))

    def for_credential(self, credential: Credential | None) -> Self:
        super().for_credential(credential)
        if self.sts_enabled and self.credentials_group_urn is None:
            raise InvalidMember("credentials-group-urn", "required with sts-enabled")
        if not (self.sts_enabled or self.remote_signing_enabled):
            raise InvalidMember("remote-signing-enabled", "must not be false together with sts-enabled")
        return self


def require_trusted_endpoints(profile: S3Profile) -> None:
    """Check that the server's own identity is used only at AWS or at endpoints in `allowed_endpoints`.

    Otherwise the creator of a warehouse could send it to any host. Raises `InvalidMember`, `EndpointNotPermitted`.
    """
    for member, address in (("endpoint", profile.endpoint), ("sts-endpoint", profile.sts_endpoint)):
        if address is None:
            continue
        endpoint = read_endpoint(address, member)
        if not (is_aws_host(endpoint.host) or is_allowed_endpoint(endpoint)):
            raise InvalidMember(
                member, "with aws-system-identity it must be AWS's, or listed in ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS"
            )


def _require_member(profile: S3Profile, field: str, *, because: str) -> None:
    if getattr(profile, field) is None:
        raise InvalidMember(field.replace("_", "-"), f"required with credential-type {because}")


def _strip_bucket(endpoint: str | None, bucket: str) -> str | None:
    """Remove the bucket from an endpoint that was given as the address of the bucket. Raises `InvalidMember`."""
    if endpoint is None:
        return None
    try:
        return strip_bucket(endpoint, bucket)
    except ValueError as complaint:
        raise InvalidMember("endpoint", str(complaint)) from None


_AWS = re.compile(r"(.+\.)?s3[.-](.+\.)?amazonaws\.com(\.cn)?")
_PATTERN = re.compile(r"[*?]|\$\{")
_USUAL_PORTS = frozenset({None, 80, 443})

_REGION_PATTERN = r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}"
_SERVICE_OF_AWS = re.compile(
    rf"(?:s3|sts)(?:-fips)?(?:\.dualstack)?(?:[.-]{_REGION_PATTERN})?\.amazonaws\.com(?:\.cn)?"
    rf"|(?:[a-z]+\.)?vpce-[a-z0-9-]+\.(?:s3|sts)\.{_REGION_PATTERN}\.vpce\.amazonaws\.com(?:\.cn)?"
    r"|s3-external-1\.amazonaws\.com"
)


def is_aws_host(host: str) -> bool:
    """Return whether the host is S3 or STS itself.

    `is_s3_host` also accepts buckets, and names that customers choose, such as `s3-a-1.eu-west-1.elb.amazonaws.com`.
    """
    return _SERVICE_OF_AWS.fullmatch(host.lower().removesuffix(".")) is not None


def all_aws_hosts(*addresses: str | None) -> bool:
    """Return whether all addresses are those of S3 or STS; None stands for the default address of AWS."""
    return all(each is None or is_aws_host(urlsplit(each).hostname or "") for each in addresses)


def has_wildcard(folder: str) -> bool:
    """Return whether policies interpret some of the characters as wildcards or variables."""
    return _PATTERN.search(folder) is not None


def is_s3_host(host: str) -> bool:
    """Return whether the host looks like S3: of a region, a bucket, or a private endpoint."""
    return _AWS.fullmatch(host.lower().rstrip(".")) is not None


def aws_address(service: str, region: str) -> str:
    """Return the address of a service of AWS in a region."""
    return f"https://{service}.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}/"


def store_key(address: str | None, bucket: str) -> str | None:
    """Return the same text for all addresses of the store of a bucket; None for AWS.

    Names of buckets are globally unique at AWS. Regions do not distinguish buckets, as most stores accept any region.
    Neither does the scheme, nor the style of the URL (virtual-hosted or path).
    """
    if address is None:
        return None
    parts = urlsplit(address)
    host = (parts.hostname or "").rstrip(".")
    if is_s3_host(host):
        return None
    while host.startswith(f"{bucket}."):
        host = host.removeprefix(f"{bucket}.")
    return host if parts.port in _USUAL_PORTS else f"{host}:{parts.port}"


def strip_bucket(address: str, bucket: str) -> str:
    """Return the address of the store without the bucket, with a slash as its path. Raises ValueError for another path.

    The bucket is removed from the host name only at AWS: elsewhere a host may have the same name as the bucket.
    """
    parts = urlsplit(address)
    if parts.path.rstrip("/").removesuffix(f"/{bucket}"):
        raise ValueError("must not have a path")
    netloc, host = parts.netloc, parts.netloc.removeprefix(f"{bucket}.")
    if host != netloc and is_s3_host(urlsplit(f"//{host}").hostname or ""):
        netloc = host
    return f"{parts.scheme}://{netloc}/"
