"""Decentralised authentication of NATS: an operator, an account and a user, each with a key and a JWT."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from dataclasses import dataclass
from typing import Any

import nkeys

NO_LIMITS = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)


@dataclass(frozen=True)
class Accounts:
    configuration: str
    """Text of the configuration file of the server."""
    credentials: str
    """Content of the credentials file of the user."""
    seed: str


def create_accounts() -> Accounts:
    operator, account, user = (
        _create_key(kind) for kind in (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER)
    )
    of_operator = _sign(operator, operator, "operator")
    of_account = _sign(operator, account, "account", limits=NO_LIMITS | {"wildcards": True})
    of_user = _sign(account, user, "user", subs=-1, data=-1, payload=-1)
    name = account.public_key.decode()
    seed = user.seed.decode()
    return Accounts(
        configuration=f"operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {name}: {of_account} }}\n",
        credentials=f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n",
        seed=seed,
    )


def _create_key(kind: int) -> Any:
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), kind))


def _sign(issuer: Any, subject: Any, kind: str, **members: Any) -> str:
    claims: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public_key.decode(),
        "sub": subject.public_key.decode(),
        "name": kind,
        "nats": {"type": kind, "version": 2, **members},
    }
    claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    signed = f"{_encode({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_encode(claims)}"
    return f"{signed}.{_base64url(issuer.sign(signed.encode()))}"


def _encode(document: dict[str, Any]) -> str:
    return _base64url(json.dumps(document, separators=(",", ":")).encode())


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
