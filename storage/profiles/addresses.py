"""The endpoints that the server connects to for a warehouse, and which check each must pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from storage.credentials import DEFAULT_UNIVERSE, Credential, GcsServiceAccount
from storage.documents import InvalidMember
from storage.network.endpoints import (
    require_allowed_address,
    require_permitted_address,
    require_safe_target,
    require_valid_address,
)
from storage.profiles.azure import DEFAULT_AUTHORITY_HOST, DEFAULT_HOST, AdlsProfile, OneLakeProfile
from storage.profiles.gcs import GcsProfile
from storage.profiles.profile import Profile
from storage.profiles.s3 import S3Profile, StackitProfile, aws_address

DEFAULT_TOKEN_URI: Final = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_KEY: Final = "storage-credential.key"

Check = Callable[[str, str], None]
"""A check of an address; the second argument is the member that the error names."""


def require_valid_addresses(profile: Profile, credential: Credential | None) -> None:
    """Check all endpoints before a profile is stored. Resolves names, so it must not be called in a transaction.

    Raises `EndpointNotPermitted` (400), `InvalidMember`.
    """
    for check, address, member in _checks(profile, credential, require_valid_address):
        check(address, member)


def require_permitted_addresses(profile: Profile, credential: Credential | None) -> None:
    """Check all endpoints before a store is opened: names may resolve differently by now, and settings may change.

    Raises `EndpointNotPermitted` (400), `InvalidMember`, `StoreUnavailable` (503) when a name cannot be resolved.
    """
    for check, address, member in _checks(profile, credential, require_permitted_address):
        check(address, member)


def chosen_addresses(profile: Profile, credential: Credential | None) -> frozenset[str]:
    """Return the endpoints that the profile and the credential choose, without the fixed ones of clouds."""
    checks = _checks(profile, credential, require_valid_address)
    return frozenset(address for check, address, _ in checks if check is require_valid_address)


def sts_address(profile: S3Profile) -> str | None:
    """Return the STS endpoint of a profile; None: that of AWS."""
    if profile.sts_endpoint is not None:
        return profile.sts_endpoint
    return profile.endpoint if profile.flavor == "s3-compat" else None


def _checks(profile: Profile, credential: Credential | None, given: Check) -> Iterator[tuple[Check, str, str]]:
    """Return each endpoint with its check and member: `given` for those that the profile or credential chooses."""
    match profile:
        case S3Profile() | StackitProfile():
            yield from _s3_checks(profile.as_s3(), given)
        case AdlsProfile():
            own = given if profile.host != DEFAULT_HOST else require_allowed_address
            yield own, f"https://{profile.account_name}.{profile.host}/", "host"
            yield from _authority_checks(profile.authority_host, given)
        case OneLakeProfile():
            host = urlsplit(profile.location).hostname
            yield require_allowed_address, f"https://{host}/", "endpoint-mode"
            yield from _authority_checks(profile.authority_host, given)
        case GcsProfile():
            yield from _google_checks(credential, given)


def _s3_checks(profile: S3Profile, given: Check) -> Iterator[tuple[Check, str, str]]:
    if profile.endpoint is None:
        yield require_allowed_address, _aws_endpoint("s3", profile), "endpoint"
    else:
        yield given, profile.endpoint, "endpoint"
        parts = urlsplit(profile.endpoint)
        if re.search("[a-z]", (parts.hostname or "").rpartition(".")[2]):  # not an IP address
            yield require_safe_target, f"{parts.scheme}://{profile.bucket}.{parts.netloc}/", "bucket"
    if profile.sts_enabled or profile.assume_role_arn is not None:
        sts = sts_address(profile)
        if sts is None:
            yield require_allowed_address, _aws_endpoint("sts", profile), "sts-endpoint"
        elif sts != profile.endpoint:
            yield given, sts, "sts-endpoint"
    elif profile.sts_endpoint is not None:
        yield given, profile.sts_endpoint, "sts-endpoint"


def _aws_endpoint(service: str, profile: S3Profile) -> str:
    if not re.fullmatch("[A-Za-z0-9-]{1,63}", profile.region):
        raise InvalidMember("region", "must be letters, digits and hyphens at AWS, whose addresses contain it")
    return aws_address(service, profile.region)


def _authority_checks(address: str | None, given: Check) -> Iterator[tuple[Check, str, str]]:
    if address is not None:
        yield (given if address != DEFAULT_AUTHORITY_HOST else require_allowed_address), address, "authority-host"


def _google_checks(credential: Credential | None, given: Check) -> Iterator[tuple[Check, str, str]]:
    universe = DEFAULT_UNIVERSE
    if isinstance(credential, GcsServiceAccount):
        key = credential.key
        universe = key.universe_domain.get_secret_value()
        tokens = key.token_uri.get_secret_value()
        yield (given if tokens != DEFAULT_TOKEN_URI else require_allowed_address), tokens, f"{_KEY}.token_uri"
        yield require_safe_target, key.auth_uri.get_secret_value(), f"{_KEY}.auth_uri"
    own = given if universe != DEFAULT_UNIVERSE else require_allowed_address
    for service in ("storage", "sts"):
        yield own, f"https://{service}.{universe}/", f"{_KEY}.universe_domain"
