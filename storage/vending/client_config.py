"""The configuration of clients for the store: properties of their file I/O, by the names that Iceberg's clients use.

No other properties of the profile are shown. `profile` is that of the warehouse, as stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from storage.vending.vended import Vended

SAS_TOKEN: Final = "adls.sas-token."  # noqa: S105 - the name of a property
"""The account's host follows: clients find the token for a location by it."""

_PYICEBERG = re.compile(r"PyIceberg/(\d+)\.(\d+)(?:\.(\d+))?")
_LIKE_S3: Final = frozenset({"s3", "stackit"})
_LAST_TO_MISTAKE_EXPIRY: Final = (0, 10, 0)


@dataclass(frozen=True, slots=True)
class SignerEndpoint:
    """Where clients have requests signed: `uri` with a slash at its end, `endpoint` as a path below it."""

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
    """`config` of a table or view: the store, with a credential and a signer where there are some.

    `refresh_endpoint` is the address of the table's newest credentials, whole; `user_agent` the client's header.
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
    """Return the configuration of all clients of a warehouse, before they load a table; both profiles as stored.

    Where drops can be undone, clients must not delete files themselves: Spark would at DROP ... PURGE.
    """
    config = encryption_config(profile)
    if profile.get("push-s3-delete-disabled") and delete_profile["type"] == "soft":
        config["s3.delete-enabled"] = "false"
    return config


def credential_config(
    profile: dict[str, Any], vended: Vended, *, refresh_endpoint: str | None = None, user_agent: str = ""
) -> dict[str, str]:
    """`config` of an entry of `storage-credentials`; arguments as of `client_config`."""
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
    """Return how objects are to be encrypted; also part of the configuration of the warehouse."""
    key = profile.get("aws-kms-key-arn")
    return {"s3.sse.type": "kms", "s3.sse.key": key} if key else {}


def _s3_signer(signer: SignerEndpoint) -> dict[str, str]:
    """In both spellings: Java's clients knew `s3.signer.*` first."""
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
    """PyIceberg up to 0.10.0 takes every property that begins with `adls.sas-token` for a token."""
    found = _PYICEBERG.match(user_agent)
    return found is not None and tuple(int(part or 0) for part in found.groups()) <= _LAST_TO_MISTAKE_EXPIRY
