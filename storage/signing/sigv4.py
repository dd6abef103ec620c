"""AWS Signature Version 4 for S3: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.

Our own, as botocore takes eight times as long: it derives the signing key each time and builds a request object. Tests
compare it with botocore.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final

from storage.identity.keys import Keys

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


def signature_headers(
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    payload: str,
    region: str,
    keys: Keys,
    at: datetime,
) -> dict[str, str]:
    """Return the headers of the signature.

    `path` and `query` are canonical, `headers` all signed headers including `host`, by lower-case name; `payload` is
    the hash of the body, or a constant instead; `at` is in UTC.
    """
    moment = at.strftime("%Y%m%dT%H%M%SZ")
    date = moment[:8]
    added = {"x-amz-content-sha256": payload, "x-amz-date": moment}
    if keys.session_token is not None:
        added["x-amz-security-token"] = keys.session_token
    signed = sorted({**headers, **added}.items())
    names = ";".join(name for name, _ in signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed)
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}"
    scope = f"{date}/{region}/s3/aws4_request"
    text = f"{_ALGORITHM}\n{moment}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    signature = hmac.digest(_signing_key(keys, date, region), text.encode(), "sha256").hex()
    credential = f"{keys.access_key_id}/{scope}"
    added["authorization"] = f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return added


@lru_cache(maxsize=1024)
def _signing_key(keys: Keys, date: str, region: str) -> bytes:
    """Return the signing key of a day."""
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
