"""Policy statements with the permissions that a warehouse on S3 needs, for administrators to copy."""

from __future__ import annotations

import json
from typing import Any

from storage.profiles.s3 import S3Profile
from storage.vending.s3_sts import partition

_ACTIONS = (
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)


def object_policy(profile: S3Profile) -> str:
    """Return the permissions policy of the key or role that reads and writes the files, as in docs/storage.md."""
    bucket = f"arn:{partition(profile)}:s3:::{profile.bucket}"
    folder = f"{profile.key_prefix}/*" if profile.key_prefix else "*"
    listing = _allow("s3:ListBucket", bucket)
    if profile.key_prefix:
        listing |= {"Condition": {"StringLike": {"s3:prefix": folder}}}
    statements = [_allow([*_ACTIONS], f"{bucket}/{folder}"), listing, _allow("s3:GetBucketLocation", bucket)]
    if profile.aws_kms_key_arn:
        statements.append(_allow(["kms:GenerateDataKey", "kms:Decrypt"], profile.aws_kms_key_arn))
    return _policy(statements)


def role_policy(profile: S3Profile) -> str | None:
    """Return the policy with which a key may assume the role of vended credentials; None without a role."""
    role = profile.sts_role_arn or profile.assume_role_arn
    if not role:
        return None
    actions = ["sts:AssumeRole", *(["sts:TagSession"] if profile.sts_session_tags else [])]
    return _policy([_allow(actions, role)])


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)


def _allow(actions: list[str] | str, resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}
