"""Temporary credentials of Cloudflare R2, from its own API.

https://developers.cloudflare.com/api/resources/r2/subresources/temporary_credentials/
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from icekeeper.kernel.clock import now
from storage.credentials import CloudflareR2
from storage.identity.keys import Keys
from storage.identity.token_service import TokenServiceResponse, not_issued_error, required_text, send_request
from storage.network.endpoints import require_allowed_address
from storage.profiles.s3 import S3Profile
from storage.vending.delegation import FileAccess, Vended, folder_of
from storage.vending.s3_sts import vended_keys

CLOUDFLARE: Final = "https://api.cloudflare.com/client/v4"

_PERMISSIONS: Final = {FileAccess.READ: "object-read-only", FileAccess.READ_WRITE: "object-read-write"}


def issue(
    profile: S3Profile, credential: CloudflareR2, *, location: str, rights: FileAccess, api: str = CLOUDFLARE
) -> Vended:
    """Raises `InvalidLocation`, `EndpointNotPermitted` (400), `CredentialNotIssued` (412), `StoreUnavailable` (503)."""
    parameters = {
        "bucket": profile.bucket,
        "parentAccessKeyId": credential.access_key_id.get_secret_value(),
        "permission": _PERMISSIONS[rights],
        "prefixes": [f"{folder_of(location, profile)}/"],
        "ttlSeconds": profile.sts_token_validity_seconds,
    }
    require_allowed_address(api, "endpoint")
    account = quote(credential.account_id.get_secret_value(), safe="")
    headers = {"Authorization": f"Bearer {credential.token.get_secret_value()}", "Content-Type": "application/json"}
    expires_at = now() + timedelta(seconds=profile.sts_token_validity_seconds)  # the response does not contain it
    response = send_request(
        "POST",
        f"{api}/accounts/{account}/r2/temp-access-credentials",
        headers=headers,
        body=lambda: json.dumps(parameters).encode(),
    )
    issued = _result(response)
    return vended_keys(
        Keys(
            required_text(issued, "accessKeyId"),
            required_text(issued, "secretAccessKey"),
            required_text(issued, "sessionToken"),
            expires_at,
        )
    )


def _result(response: TokenServiceResponse) -> dict[str, Any]:
    document = response.document()
    result = document.get("result")
    if response.is_success and document.get("success") is not False and isinstance(result, dict):
        return result
    match document.get("errors"):
        case [{"code": code}, *_]:
            raise not_issued_error(response, code)
    raise not_issued_error(response, None)
