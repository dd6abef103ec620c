"""Addresses of a bucket, and the URL style of each: path or virtual-hosted.

A signature covers host and path, but not how the store splits them into bucket and key. So the style follows from the
profile and never from a URI alone: a URI that we parse as one key and the store as another would give access to an
unchecked object.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import urlsplit

from storage.profiles.s3 import S3Profile, is_s3_host

Style = Literal["path", "virtual_host"]
"""The bucket is the first segment of the path, or the first labels of the host."""

Authority = tuple[str, int]
"""A host in lower case, IPv6 in brackets, and the port."""

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def bucket_addresses(profile: S3Profile) -> dict[Authority, Style]:
    """Return all addresses of the profile's bucket."""
    found: dict[Authority, Style] = {}
    for host, port in _endpoints(profile):
        for style in _styles(profile, host):
            found[host if style == "path" else f"{profile.bucket}.{host}", port] = style
    return found


def _endpoints(profile: S3Profile) -> Iterator[Authority]:
    if profile.endpoint is not None:
        parts = urlsplit(profile.endpoint)
        host = parts.hostname or ""
        yield f"[{host}]" if ":" in host else host, parts.port or DEFAULT_PORTS[parts.scheme]
        return
    for host in _hosts_of_aws(profile.region.lower()):
        for port in DEFAULT_PORTS.values():
            yield host, port


def _hosts_of_aws(region: str) -> Iterator[str]:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    for service in ("s3.", "s3-", "s3.dualstack.", "s3-fips.", "s3-fips.dualstack."):
        yield f"{service}{region}.{domain}"
    yield f"s3.{domain}"
    if region == "us-east-1":
        yield f"s3-external-1.{domain}"


def _styles(profile: S3Profile, host: str) -> list[Style]:
    """Return the URL styles that the store may accept at this host, according to the profile."""
    if profile.remote_signing_url_style != "auto":
        return [profile.remote_signing_url_style]
    if is_s3_host(host):
        return ["path", "virtual_host"]
    if host.startswith(f"{profile.bucket}."):
        return ["virtual_host"]  # `endpoint` is the address of the bucket, so the path is the key
    if profile.path_style_access or _is_number(host) or "." in profile.bucket:
        return ["path"]
    if profile.path_style_access is None and "." not in host:
        return ["path"]
    return ["path", "virtual_host"]  # the catalog itself uses virtual-hosted URLs, so the store accepts them


def _is_number(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
