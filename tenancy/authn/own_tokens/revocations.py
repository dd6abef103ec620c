"""That a token ended before its time, told to every process of this server at once.

Who remembers that a token was good remembers with it what `revocations.read()` gave before it looked, and looks again
when that has changed. Other servers, and commands, look again after `SECONDS_WITHOUT_A_LOOK` at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from icekeeper.kernel.db.write_transaction import write_transaction
from tenancy.shared_epoch import SharedEpoch

SECONDS_WITHOUT_A_LOOK: Final = 5.0

revocations: Final = SharedEpoch()
"""Made when the application is loaded, which is before the server forks."""


@contextmanager
def revocation_transaction() -> Iterator[None]:
    """The transaction of a write that ends tokens. Whatever becomes of it, they are looked at again: it may be in
    doubt whether it was committed."""
    try:
        with write_transaction():
            yield
    finally:
        revocations.bump()
