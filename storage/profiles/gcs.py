"""The storage profile `gcs`: Google Cloud Storage."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from storage.credentials import GcpSystemIdentity, GcsServiceAccount
from storage.documents import folder_check, pattern_check
from storage.profiles.profile import Profile

MAX_PREFIX_BYTES = 896
_FORBIDDEN_FOLDER = ".well-known/acme-challenge"

_is_bucket = pattern_check(
    r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "must be 3 to 63 lower-case letters, digits, dots and hyphens, with a letter or digit at both ends",
)


def _bucket(text: str) -> str:
    if _is_bucket(text).startswith("goog"):
        raise ValueError("must not begin with goog")
    try:
        IPv4Address(text)
    except AddressValueError:
        return text
    raise ValueError("must not be an IP address")


def _prefix(text: str | None) -> str | None:
    folder = folder_check(MAX_PREFIX_BYTES)(text)
    if folder is not None and f"{folder}/".startswith(f"{_FORBIDDEN_FOLDER}/"):
        raise ValueError(f"must not be in {_FORBIDDEN_FOLDER}")
    return folder


class GcsProfile(Profile):
    """A bucket of Google Cloud Storage."""

    immutable: ClassVar = ("bucket", "key_prefix")
    credentials: ClassVar = (GcsServiceAccount, GcpSystemIdentity)
    needs_credential: ClassVar = True

    type: Literal["gcs"]
    bucket: Annotated[str, Field(max_length=256), AfterValidator(_bucket)]
    key_prefix: Annotated[str | None, Field(max_length=4 * MAX_PREFIX_BYTES), AfterValidator(_prefix)] = Field(
        None, description="Folder in the bucket; default: the bucket itself"
    )
    sts_enabled: bool = Field(default=True, description="Whether clients get vended credentials")

    @property
    def location(self) -> str:
        return f"gs://{self.bucket}" + (f"/{self.key_prefix}" if self.key_prefix else "")
