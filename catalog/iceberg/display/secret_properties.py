"""Recognition of properties that may hold a secret and are not shown."""

from __future__ import annotations

import re
from typing import Final

_SECRET_NAME: Final = re.compile(
    r"secret|passw|passphrase|credential|token|signature|authorization|connection[-_.]?string"
    r"|(?:private|access|api|account|shared|master|signing)[-_.]?key"
    r"|encryption[-_.]?key(?![-_.]?id)"
    r"|(?:^|[^a-z])(?:sas|pwd|pass|jwt|auth|oauth2?|bearer)(?:$|[^a-z])",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(
    r"://[^/\s@]*:[^/\s@]*@|(?:^|\W)bearer\s|[?&](?:sig|x-amz-signature|x-goog-signature)=", re.IGNORECASE
)


def looks_secret(name: str, value: str = "") -> bool:
    """Return whether the name of a property is one that secrets have, or its value is a URL with a password.

    A false alarm hides a harmless property; the reverse would publish a secret, so the test is broad.
    """
    return _SECRET_NAME.search(name) is not None or _SECRET_VALUE.search(value) is not None
