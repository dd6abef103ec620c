"""Keys derived from the server's signing keys, each for one purpose."""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def derived_keys(purpose: str) -> list[bytes]:
    """Return keys of 32 bytes, the same on every server of the deployment.

    The first one signs and encrypts; all of them verify and decrypt.
    """
    return [_derive(str(secret), purpose) for secret in (settings.SECRET_KEY, *settings.FORMER_SECRET_KEYS)]


@lru_cache(maxsize=128)
def _derive(secret: str, purpose: str) -> bytes:
    return HKDF(hashes.SHA256(), length=32, salt=None, info=purpose.encode()).derive(secret.encode())
