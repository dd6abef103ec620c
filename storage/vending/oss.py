"""Temporary credentials of Alibaba Cloud OSS: AssumeRole of its STS, with signatures of its RPC API.

https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-assumerole
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode
from uuid import uuid4

from icekeeper.kernel.clock import now
from storage.credentials import AliyunOss
from storage.identity.keys import CredentialNotIssued, Keys
from storage.identity.token_service import TokenServiceResponse, not_issued_error, required_text, send_request
from storage.network.endpoints import require_permitted_address
from storage.profiles.s3 import S3Profile, has_wildcard
from storage.vending.delegation import FileAccess, Vended, folder_of
from storage.vending.s3_sts import CLIENTS_SESSION, vended_keys

_READ: Final = ("oss:GetObject", "oss:GetObjectVersion")
_WRITE: Final = ("oss:PutObject", "oss:AbortMultipartUpload", "oss:ListParts", "oss:DeleteObject")
_MOMENT: Final = "%Y-%m-%dT%H:%M:%SZ"

_REGION = re.compile(r"[a-z0-9-]{1,64}")


def issue(profile: S3Profile, credential: AliyunOss, *, location: str, rights: FileAccess) -> Vended:
    """Raises `InvalidLocation`, `EndpointNotPermitted` (400), `CredentialNotIssued` (412), `StoreUnavailable` (503)."""
    policy = ram_policy(profile.bucket, folder_of(location, profile), rights)
    secret = credential.secret_access_key.get_secret_value()

    def form() -> bytes:
        """Each attempt needs a new nonce."""
        parameters = _parameters(profile, credential, policy)
        return urlencode({**parameters, "Signature": signature("POST", parameters, secret)}).encode()

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    address = _sts_address(profile)
    require_permitted_address(address, "sts-endpoint")
    issued = _issued(send_request("POST", address, headers=headers, body=form))
    return vended_keys(
        Keys(
            required_text(issued, "AccessKeyId"),
            required_text(issued, "AccessKeySecret"),
            required_text(issued, "SecurityToken"),
            _moment(required_text(issued, "Expiration")),
        )
    )


def ram_policy(bucket: str, folder: str, rights: FileAccess) -> str:
    """Return a RAM policy, as JSON, for the objects below `folder`. Raises `CredentialNotIssued` for wildcards."""
    if not folder:
        raise ValueError("a policy for the whole bucket")
    if has_wildcard(folder):
        raise CredentialNotIssued("OSS has no credentials for a location with *, ? or ${ in it")
    whole = f"acs:oss:*:*:{bucket}"
    listing = {"StringLike": {"oss:Prefix": [f"{folder}/*"]}}
    statements = [
        _allow([*_READ, *(_WRITE if rights is FileAccess.READ_WRITE else ())], f"{whole}/{folder}/*"),
        _allow(["oss:ListObjects"], whole) | {"Condition": listing},
        _allow(["oss:GetBucketLocation"], whole),
    ]
    return json.dumps({"Version": "1", "Statement": statements}, separators=(",", ":"))


def signature(method: str, parameters: Mapping[str, str], secret: str) -> str:
    """https://www.alibabacloud.com/help/en/sdk/product-overview/rpc-mechanism, HMAC-SHA1 over the sorted parameters."""
    query = "&".join(f"{_encoded(name)}={_encoded(parameters[name])}" for name in sorted(parameters))
    to_sign = f"{method}&{_encoded('/')}&{_encoded(query)}"
    return base64.b64encode(hmac.digest(f"{secret}&".encode(), to_sign.encode(), "sha1")).decode()


def _parameters(profile: S3Profile, credential: AliyunOss, policy: str) -> dict[str, str]:
    parameters = {
        "Action": "AssumeRole",
        "Version": "2015-04-01",
        "Format": "JSON",
        "AccessKeyId": credential.access_key_id.get_secret_value(),
        "SignatureMethod": "HMAC-SHA1",
        "SignatureVersion": "1.0",
        "SignatureNonce": str(uuid4()),
        "Timestamp": now().strftime(_MOMENT),
        "RoleArn": profile.sts_role_arn or profile.assume_role_arn or "",
        "RoleSessionName": CLIENTS_SESSION,
        "DurationSeconds": str(profile.sts_token_validity_seconds),
        "Policy": policy,
    }
    if credential.external_id is not None:
        parameters["ExternalId"] = credential.external_id.get_secret_value()
    return parameters


def _sts_address(profile: S3Profile) -> str:
    if profile.sts_endpoint is not None:
        return profile.sts_endpoint
    region = profile.region.removeprefix("oss-")
    if not _REGION.fullmatch(region):
        raise CredentialNotIssued("The region of the warehouse's storage is none of Alibaba Cloud; see sts-endpoint")
    return f"https://sts.{region}.aliyuncs.com/"


def _issued(response: TokenServiceResponse) -> dict[str, Any]:
    document = response.document()
    issued = document.get("Credentials")
    if response.is_success and isinstance(issued, dict):
        return issued
    raise not_issued_error(response, document.get("Code"))


def _moment(text: str) -> datetime:
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        raise CredentialNotIssued("The token service of the storage sent no expiration") from None


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")


def _allow(actions: list[str], resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}
