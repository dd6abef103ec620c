"""Temporary credentials of S3 and of compatible stores: a role, narrowed by a policy (STS AssumeRole)."""

from __future__ import annotations

from datetime import UTC
from functools import partial
from typing import Final

from storage.credentials.credential import Credential
from storage.identity.keys import CredentialNotIssued, Keys
from storage.identity.s3 import assume_role
from storage.identity.token_service import retry_within_deadline
from storage.profiles.s3 import S3Profile
from storage.vending.folder import folder_of
from storage.vending.rights import FileAccess
from storage.vending.s3_policy import s3_policy
from storage.vending.vended import Vended

CLIENTS_SESSION: Final = "lakekeeper-sts"
"""The name under which AWS logs what clients do, as in Lakekeeper."""


def issue(profile: S3Profile, credential: Credential, *, location: str, rights: FileAccess) -> Vended:
    """From the warehouse's credential itself, not from the role in which the server reads and writes.

    Raises `InvalidLocation`, `EndpointNotPermitted` (400), `CredentialNotIssued` (412), `StoreUnavailable` (503).
    """
    policy = s3_policy(profile, folder_of(location, profile), rights)
    ask = partial(
        assume_role,
        profile,
        credential,
        role_arn=profile.sts_role_arn or profile.assume_role_arn,
        session_name=CLIENTS_SESSION,
        DurationSeconds=profile.sts_token_validity_seconds,
        Policy=policy,
    )
    return vended_keys(retry_within_deadline(ask))


def vended_keys(keys: Keys) -> Vended:
    """Return temporary keys as properties of clients."""
    if keys.session_token is None or keys.expires_at is None:
        raise CredentialNotIssued("The token service of the storage sent no session token")
    return Vended(
        {
            "s3.access-key-id": keys.access_key_id,
            "s3.secret-access-key": keys.secret_access_key,
            "s3.session-token": keys.session_token,
        },
        keys.expires_at.astimezone(UTC),
    )


def keys_of(vended: Vended) -> Keys:
    """The other way round, for signatures of this server."""
    config = vended.config
    return Keys(
        config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"], vended.expires_at
    )
