"""Addresses of S3 and compatible stores: one store can be addressed in many ways."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_AWS = re.compile(r"(.+\.)?s3[.-](.+\.)?amazonaws\.com(\.cn)?")
_PATTERN = re.compile(r"[*?]|\$\{")
_USUAL_PORTS = frozenset({None, 80, 443})

_REGION = r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}"
_SERVICE_OF_AWS = re.compile(
    rf"(?:s3|sts)(?:-fips)?(?:\.dualstack)?(?:[.-]{_REGION})?\.amazonaws\.com(?:\.cn)?"
    rf"|(?:[a-z]+\.)?vpce-[a-z0-9-]+\.(?:s3|sts)\.{_REGION}\.vpce\.amazonaws\.com(?:\.cn)?"
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
