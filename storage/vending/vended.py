"""A credential for clients: it opens one folder, for some time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Vended:
    """`config` is the credential in the words of clients' configuration, such as `s3.access-key-id`.

    It is shared with others that got the same one: not to be changed. `expires_at`, in UTC, is the store's own word.
    """

    config: dict[str, str] = field(repr=False)
    expires_at: datetime

    @property
    def expires_at_ms(self) -> str:
        """Milliseconds since the epoch, as clients expect it."""
        return str(int(self.expires_at.timestamp() * 1000))
