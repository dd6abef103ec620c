"""`config` of clients: properties of their FileIO for the store, with the names that Iceberg's clients use.

No other members of the profile are exposed. `profile` is the storage profile of the warehouse, as stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from storage.vending.delegation import Vended

SAS_TOKEN: Final = "adls.sas-token."  # noqa: S105 - the name of a property
"""Prefix of the property; the host of the account follows."""

_PYICEBERG = re.compile(r"PyIceberg/(\d+)\.(\d+)(?:\.(\d+))?")
_LIKE_S3: Final = frozenset({"s3", "stackit"})
_LAST_TO_MISTAKE_EXPIRY: Final = (0, 10, 0)


@dataclass(frozen=True, slots=True)
class SignerEndpoint:
    """The remote signing endpoint: `uri` with a trailing slash, `endpoint` as a path below it."""

    uri: str
    endpoint: str


def client_config(
    profile: dict[str, Any],
    *,
    vended: Vended | None = None,
    signer: SignerEndpoint | None = None,
    refresh_endpoint: str | None = None,
    user_agent: str = "",
) -> dict[str, str]:
    """Return `config` of a table or view: the store, and the vended credential and signer if any.

    `refresh_endpoint` is the complete URL that returns new credentials, `user_agent` the header of the client.
    """
    if profile["type"] not in _LIKE_S3:
        if vended is None:
            return {}
        return credential_config(profile, vended, refresh_endpoint=refresh_endpoint, user_agent=user_agent)
    config = {"region": profile["region"], **_s3_store(profile)}
    if vended is not None:
        config |= vended.config
    if signer is not None:
        config |= _s3_signer(signer)
    return config


def warehouse_config(profile: dict[str, Any], delete_profile: dict[str, Any]) -> dict[str, str]:
    """Return `config` of a warehouse, which clients get before they load a table; both profiles as stored.

    In a soft-delete warehouse, clients must not delete files themselves, as Spark does for DROP ... PURGE.
    """
    config = encryption_config(profile)
    if profile.get("push-s3-delete-disabled") and delete_profile["type"] == "soft":
        config["s3.delete-enabled"] = "false"
    return config


def credential_config(
    profile: dict[str, Any], vended: Vended, *, refresh_endpoint: str | None = None, user_agent: str = ""
) -> dict[str, str]:
    """Return `config` of an entry of `storage-credentials`; arguments as of `client_config`."""
    expires_at = vended.expires_at_ms
    config = {**vended.config, "expiration-time": expires_at}
    match profile["type"]:
        case "s3" | "stackit":
            config |= _s3_store(profile)
            config["s3.session-token-expires-at-ms"] = expires_at
            refreshed_at = "client.refresh-credentials-endpoint"
        case "adls" | "onelake":
            if not _mistakes_expiry_for_token(user_agent):
                config |= {
                    name.replace(SAS_TOKEN, "adls.sas-token-expires-at-ms.", 1): expires_at
                    for name in vended.config
                    if name.startswith(SAS_TOKEN)
                }
            refreshed_at = "adls.refresh-credentials-endpoint"
        case _:
            config["gcs.oauth2.token-expires-at"] = expires_at
            refreshed_at = "gcs.oauth2.refresh-credentials-endpoint"
    if refresh_endpoint is not None:
        config[refreshed_at] = refresh_endpoint
    return config


def _s3_store(profile: dict[str, Any]) -> dict[str, str]:
    config = {"s3.region": profile["region"], "client.region": profile["region"]}
    if profile.get("endpoint"):
        config["s3.endpoint"] = profile["endpoint"]
    if profile.get("path-style-access"):
        config["s3.path-style-access"] = "true"
    return config | encryption_config(profile)


def encryption_config(profile: dict[str, Any]) -> dict[str, str]:
    """Return the properties for encryption, which are also part of the `config` of the warehouse."""
    key = profile.get("aws-kms-key-arn")
    return {"s3.sse.type": "kms", "s3.sse.key": key} if key else {}


def _s3_signer(signer: SignerEndpoint) -> dict[str, str]:
    """Return the properties with both prefixes: older Java clients use `s3.signer.*`."""
    return {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.signer.uri": signer.uri,
        "signer.uri": signer.uri,
        "s3.signer.endpoint": signer.endpoint,
        "signer.endpoint": signer.endpoint,
    }


def _mistakes_expiry_for_token(user_agent: str) -> bool:
    """Return whether the client reads every property `adls.sas-token*` as a token: PyIceberg up to 0.10.0."""
    found = _PYICEBERG.match(user_agent)
    return found is not None and tuple(int(part or 0) for part in found.groups()) <= _LAST_TO_MISTAKE_EXPIRY
