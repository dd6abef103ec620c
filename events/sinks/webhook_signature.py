"""Signatures of webhooks in the scheme of Standard Webhooks (https://www.standardwebhooks.com), HMAC-SHA256."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - of any secret
MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 64
NEW_KEY_BYTES: Final = 32


def create_signing_secret() -> str:
    """Return a new random secret, `whsec_` and 32 bytes in base64."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(NEW_KEY_BYTES)).decode()


def read_signing_key(secret: str) -> bytes:
    """Return the key of a secret. Raises ValueError, without the secret, for one in another form."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"must be {SECRET_PREFIX} and {MIN_KEY_BYTES} to {MAX_KEY_BYTES} random bytes in base64")
    return key


def signature_headers(keys: Sequence[bytes], *, event_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return `webhook-id`, `webhook-timestamp` (`at`, in seconds since the epoch) and, if there are keys,
    `webhook-signature` with the signature of each key.
    """
    headers = {"webhook-id": event_id, "webhook-timestamp": str(at)}
    signed = f"{event_id}.{at}.".encode() + body
    signatures = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{each}" for each in signatures)
    return headers
