"""Credentials files of NATS (`.creds`): the JWT of a user and the seed of its key."""

from __future__ import annotations

import re
from typing import Final

_JWT: Final = re.compile(r"-+BEGIN NATS USER JWT-+\s+([A-Za-z0-9_=.-]+)\s+-+END NATS USER JWT-+")
_SEED: Final = re.compile(r"-+BEGIN USER NKEY SEED-+\s+([A-Z2-7=]+)\s+-+END USER NKEY SEED-+")


def read_credentials(text: str) -> str:
    """Return the content of a credentials file in its standard form, which nats-py reads.

    Raises ValueError, without the content, for a file without JWT or with an invalid seed.
    """
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None or not _is_seed(seed[1]):
        raise ValueError("must be the content of a credentials file (.creds) with a user JWT and its seed")
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt[1]}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed[1]}\n------END USER NKEY SEED------\n"
    )


def _is_seed(text: str) -> bool:
    import nkeys  # only processes that deliver events need its library

    try:
        nkeys.from_seed(bytearray(text.encode()))
    except (nkeys.NkeysError, ValueError, TypeError):
        return False
    return text.startswith("SU")
