"""Keys that follow from the server's signing key, each of use for one purpose alone."""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def derived_key(purpose: str) -> bytes:
    """32 bytes, the same on every server of the deployment, if `ICEKEEPER__SECRET_KEY` is.

    Never of `LAKEKEEPER__PG_ENCRYPTION_KEY`: who holds what was made with it can try keys on it, as fast as they can
    hash.
    """
    return _derived(settings.SECRET_KEY, purpose)


@lru_cache(maxsize=32)
def _derived(secret: str, purpose: str) -> bytes:
    return HKDF(hashes.SHA256(), length=32, salt=None, info=purpose.encode()).derive(secret.encode())
