"""Temporary S3 credentials: STS AssumeRole with a session policy for one folder, which narrows the role's permissions.

https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies.html#policies_session
"""

from __future__ import annotations

import json
import re
from datetime import UTC
from functools import lru_cache, partial
from typing import Any, Final

from botocore.exceptions import UnknownRegionError
from botocore.session import get_session

from storage.credentials import Credential
from storage.identity.keys import CredentialNotIssued, Keys
from storage.identity.s3 import assume_role
from storage.identity.token_service import retry_within_deadline
from storage.profiles.addresses import sts_address
from storage.profiles.s3 import S3Profile, all_aws_hosts, has_wildcard
from storage.vending.delegation import FileAccess, Vended, folder_of

CLIENTS_SESSION: Final = "lakekeeper-sts"
"""Session name in AWS logs of what clients do, as in Lakekeeper."""


def issue(profile: S3Profile, credential: Credential, *, location: str, rights: FileAccess) -> Vended:
    """Call AssumeRole with the warehouse's credential itself, not with the role in which the server reads and writes.

    Raises `InvalidLocation`, `EndpointNotPermitted` (400), `CredentialNotIssued` (412), `StoreUnavailable` (503).
    """
    policy = s3_policy(profile, folder_of(location, profile), rights)
    call = partial(
        assume_role,
        profile,
        credential,
        role_arn=profile.sts_role_arn or profile.assume_role_arn,
        session_name=CLIENTS_SESSION,
        DurationSeconds=profile.sts_token_validity_seconds,
        Policy=policy,
    )
    return vended_keys(retry_within_deadline(call))


def vended_keys(keys: Keys) -> Vended:
    """Convert temporary keys into a vended credential."""
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


def keys_from_vended(vended: Vended) -> Keys:
    """Return the keys of a vended credential, for signatures by the server."""
    config = vended.config
    return Keys(
        config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"], vended.expires_at
    )


MAX_POLICY_LENGTH: Final = 2048
"""Maximum of characters of AssumeRole's `Policy`, at AWS and MinIO."""

_READ: Final = ("s3:GetObject", "s3:GetObjectVersion")
_WRITE: Final = ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:DeleteObject")


def s3_policy(profile: S3Profile, folder: str, rights: FileAccess) -> str:
    """Return a session policy, as JSON, that allows access to the objects below `folder` only.

    Keys with `..` segments are denied: MinIO first compares the key of a deletion with the policy and then resolves its
    segments, so `FOLDER/../OTHER/x` would delete an object of another folder.

    Raises `CredentialNotIssued` for a folder for which no policy can be written.
    """
    if not folder:
        raise ValueError("a policy for the whole bucket")
    bucket = f"arn:{partition(profile)}:s3:::{profile.bucket}"
    below = f"{_pattern(folder, profile)}/*"
    writes = rights is FileAccess.READ_WRITE
    statements = [
        _allow([*_READ, *(_WRITE if writes else ())], f"{bucket}/{below}"),
        _allow("s3:ListBucket", bucket) | {"Condition": {"StringLike": {"s3:prefix": below}}},
        _allow("s3:GetBucketLocation", bucket),
        {"Effect": "Deny", "Action": "s3:*", "Resource": [f"{bucket}/*/../*", f"{bucket}/*/.."]},
    ]
    if profile.aws_kms_key_arn is not None:
        kms = ["kms:Decrypt", "kms:GenerateDataKey"] if writes else "kms:Decrypt"
        statements.append(_allow(kms, profile.aws_kms_key_arn))
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(policy) > MAX_POLICY_LENGTH:
        raise CredentialNotIssued(
            f"The location is too long: a policy for it has {len(policy)} characters, more than {MAX_POLICY_LENGTH}"
        )
    return policy


def partition(profile: S3Profile) -> str:
    """Return the AWS partition of the bucket: `aws`, `aws-cn`, `aws-us-gov`, ...; `aws` for other stores."""
    if profile.flavor == "s3-compat":
        return "aws"
    arn = (profile.sts_role_arn or profile.assume_role_arn or "").split(":")
    if arn[0] == "arn" and len(arn) > 1 and re.fullmatch(r"aws[a-z-]*", arn[1]):
        return arn[1]
    return _partition_of(profile.region)


@lru_cache(maxsize=64)
def _partition_of(region: str) -> str:
    try:
        return str(get_session().get_partition_for_region(region))
    except UnknownRegionError:
        return "aws"


def _pattern(folder: str, profile: S3Profile) -> str:
    """Return a policy pattern that matches only `folder`.

    AWS has a variable for each wildcard character: `${*}`, `${?}`, `${$}`. Compatible stores may not support them, and
    `a${*}` would match another folder, `a${b}`. So for other stores, whatever `flavor` says, wildcards raise
    `CredentialNotIssued`.
    """
    if _is_read_by_aws(profile):
        return re.sub(r"[*?$]", lambda found: f"${{{found[0]}}}", folder)
    if has_wildcard(folder):
        raise CredentialNotIssued("This store has no credentials for a location with *, ? or ${ in it")
    return folder


def _is_read_by_aws(profile: S3Profile) -> bool:
    return all_aws_hosts(profile.endpoint, sts_address(profile))


def _allow(actions: list[str] | str, resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}
