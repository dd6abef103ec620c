"""Temporary credentials of Azure: a shared access signature for one directory.

https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Final

from azure.storage.blob import UserDelegationKey, generate_blob_sas

from icekeeper.kernel.clock import now
from storage.credentials import AzureClientCredentials, AzureSharedKey, AzureSystemIdentity
from storage.identity.azure import DelegationKeys, delegation_keys
from storage.identity.keys import CredentialNotIssued
from storage.profiles.azure import AdlsProfile, OneLakeProfile, account_and_container
from storage.vending.client_config import SAS_TOKEN
from storage.vending.delegation import FileAccess, Vended, folder_of

CLOCK_SKEW: Final = timedelta(seconds=60)
"""Tokens are valid from a minute ago, as Azure's clock may be behind ours."""
MIN_LIFETIME: Final = timedelta(seconds=120)

_PERMISSIONS: Final = {FileAccess.READ: "rl", FileAccess.READ_WRITE: "rawdl"}
"""Read, add, write, delete, list, in the order that Azure requires."""


def issue(
    profile: AdlsProfile | OneLakeProfile,
    credential: AzureClientCredentials | AzureSharedKey | AzureSystemIdentity,
    *,
    location: str,
    rights: FileAccess,
    keys: DelegationKeys = delegation_keys,
) -> Vended:
    """Raises `InvalidLocation`, `EndpointNotPermitted` (400), `CredentialNotIssued` (412), `StoreUnavailable` (503)."""
    folder = folder_of(location, profile)
    start = now().replace(microsecond=0) - CLOCK_SKEW
    expiry = start + max(timedelta(seconds=profile.sas_token_validity_seconds), MIN_LIFETIME)
    match credential:
        case AzureSharedKey():
            signer: UserDelegationKey | str = _account_key(credential)
        case _:
            signer = keys.get(profile, credential, start=start, expiry=expiry)
    token = directory_sas(profile, folder, rights, signer=signer, start=start, expiry=expiry)
    host = profile.location.partition("@")[2].partition("/")[0]
    config = {f"{SAS_TOKEN}{host}": token}
    if isinstance(profile, OneLakeProfile):
        config["adls.account-host"] = host.replace(".dfs.", ".blob.")
    return Vended(config, expiry)


def directory_sas(
    profile: AdlsProfile | OneLakeProfile,
    folder: str,
    rights: FileAccess,
    *,
    signer: UserDelegationKey | str,
    start: datetime,
    expiry: datetime,
) -> str:
    """Return a SAS token for one directory, signed with an account key or a user delegation key.

    `folder` is signed without encoding: the service decodes the path of a request once, so an object `a%20b` is
    requested as `a%2520b`.
    """
    if not folder:
        raise ValueError("a signature for the whole container")
    account, container = account_and_container(profile)
    return generate_blob_sas(
        account_name=account,
        container_name=container,
        blob_name=folder,
        is_directory=True,
        account_key=signer if isinstance(signer, str) else None,
        user_delegation_key=None if isinstance(signer, str) else signer,
        permission=_PERMISSIONS[rights],
        start=start,
        expiry=expiry,
        protocol="https",
    )


def _account_key(credential: AzureSharedKey) -> str:
    key = credential.key.get_secret_value()
    try:
        base64.b64decode(key, validate=True)
    except ValueError:
        raise CredentialNotIssued("The key of the storage account is invalid: it must be base64") from None
    return key
