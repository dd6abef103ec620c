"""Addresses of S3 and of compatible stores: one store has many spellings."""

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


def is_service_of_aws(host: str) -> bool:
    """Return whether only AWS can respond there, with S3 or STS. `is_of_aws` takes buckets and names of customers, too,
    as `s3-a-1.eu-west-1.elb.amazonaws.com` is."""
    return _SERVICE_OF_AWS.fullmatch(host.lower().removesuffix(".")) is not None


def all_of_aws(*addresses: str | None) -> bool:
    """Return whether only AWS can respond at any of the addresses; None stands for that of AWS."""
    return all(each is None or is_service_of_aws(urlsplit(each).hostname or "") for each in addresses)


def holds_pattern(folder: str) -> bool:
    """Whether policies read some of the characters as a pattern or a variable, and not as they are."""
    return _PATTERN.search(folder) is not None


def is_of_aws(host: str) -> bool:
    """Return whether S3 itself responds there: at the name of a region, a bucket, or a private endpoint."""
    return _AWS.fullmatch(host.lower().rstrip(".")) is not None


def aws_address(service: str, region: str) -> str:
    """Of a service of AWS in a region."""
    return f"https://{service}.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}/"


def store_at(address: str | None, bucket: str) -> str | None:
    """One text for all addresses of the store that `bucket` is asked for at; None for AWS.

    The buckets of AWS have their names once in the world, and regions do not distinguish them: most stores take any.
    Neither does the scheme, nor that the bucket's name stands before the host's.
    """
    if address is None:
        return None
    parts = urlsplit(address)
    host = (parts.hostname or "").rstrip(".")
    if is_of_aws(host):
        return None
    while host.startswith(f"{bucket}."):
        host = host.removeprefix(f"{bucket}.")
    return host if parts.port in _USUAL_PORTS else f"{host}:{parts.port}"


def without_bucket(address: str, bucket: str) -> str:
    """Return `address` with a slash as its path, also if it is that of the bucket. Raises ValueError for another path.

    The bucket is taken from before the host's name only at AWS: elsewhere a host may be called as the bucket is.
    """
    parts = urlsplit(address)
    if parts.path.rstrip("/").removesuffix(f"/{bucket}"):
        raise ValueError("must not have a path")
    netloc, host = parts.netloc, parts.netloc.removeprefix(f"{bucket}.")
    if host != netloc and is_of_aws(urlsplit(f"//{host}").hostname or ""):
        netloc = host
    return f"{parts.scheme}://{netloc}/"
