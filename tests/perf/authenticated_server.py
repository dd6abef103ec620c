"""A second server of the measured catalog, on the same database, with authentication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from joserfc.jwk import RSAKey

from tests.harness.identity_provider import IdentityProvider
from tests.parts.server import CatalogServer


@contextmanager
def authenticated(
    home: Path, database_url: str, workers: int, threads: int, settings: Mapping[str, str]
) -> Iterator[tuple[CatalogServer, str]]:
    """The running server and a token for it; `settings` are further variables of the product."""
    provider = IdentityProvider(RSAKey.generate_key(2048)).start()
    address = {"LAKEKEEPER__OPENID_PROVIDER_URI": provider.address, "LAKEKEEPER__OPENID_AUDIENCE": "icekeeper"}
    server = CatalogServer(
        home,
        database_url=database_url,
        workers=workers,
        threads=threads,
        arguments=["--without-worker"],
        settings={**address, **settings},
    )
    try:
        yield server.start(), provider.token(exp=2**32, realm_access={"roles": ["offline_access", "analysts"]})
    finally:
        server.stop()
        provider.stop()
