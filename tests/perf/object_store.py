"""A warehouse of the measured catalog on MinIO: cost of writes, vended credentials, and signatures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tests.parts.minio import Minio
from tests.parts.server import CatalogServer
from tests.perf import contents, rows
from tests.perf.connection import request
from tests.perf.contents import Contents
from tests.perf.rows import Read, Write

WAREHOUSE, BUCKET = "bench-minio", "bench"
WRITES = ("property", "append", "create-drop")
DELEGATION = "X-Iceberg-Access-Delegation"


@contextmanager
def warehouse_on_minio(catalog: CatalogServer, home: Path) -> Iterator[tuple[Minio, Contents]]:
    """The store, and the contents of a warehouse on it, without the relay of tests."""
    former = catalog.warehouse
    with Minio(home) as store:
        store.create_bucket(BUCKET)
        direct = f"http://127.0.0.1:{store.port}/"
        catalog.create_warehouse_on(WAREHOUSE, store.storage(BUCKET, "wh", endpoint=direct))
        catalog.warehouse = former
        filled = Contents(catalog.port, WAREHOUSE)
        filled.create_written()
        yield store, filled


def writes(catalog: Contents) -> list[Write]:
    return [
        replace(write, key=f"s3-{write.key}", title=f"{write.title}, MinIO")
        for write in rows.writes(catalog)
        if write.key in WRITES
    ]


def reads(catalog: Contents, endpoint: str) -> list[Read]:
    """A load without credentials, one with cached vended credentials, and a signature."""
    table = catalog.table_path(contents.OWN, contents.own_table(0, 0))
    loads = {"client-managed": "nothing vended", "vended-credentials": "a vended credential"}
    return [
        *(
            Read(f"s3-load-{asked}", f"loadTable on MinIO, {reported}", table, headers={DELEGATION: asked})
            for asked, reported in loads.items()
        ),
        Signing("s3-sign", "a signed request", _signer(catalog), "POST", uri=_object(catalog, endpoint)),
    ]


@dataclass(frozen=True)
class Signing(Read):
    """Request a signature for GET of the object at `uri`."""

    uri: str = ""

    @property
    def message(self) -> bytes:
        body = {"region": "us-east-1", "uri": self.uri, "method": "GET", "headers": {"User-Agent": ["bench"]}}
        return request(self.method, self.path, json.dumps(body).encode())


def _signer(catalog: Contents) -> str:
    """Return the route that a load gives to clients with remote signing."""
    reported = catalog.config_of(contents.OWN, contents.own_table(0, 0), {DELEGATION: "remote-signing"})
    return f"/catalog/{reported['s3.signer.endpoint']}"


def _object(catalog: Contents, endpoint: str) -> str:
    location = catalog.load(contents.OWN, contents.own_table(0, 0))["location"]
    key = location.removeprefix(f"s3://{BUCKET}/")
    return f"{endpoint}{BUCKET}/{quote(key)}/data/00000-0-0f6c2b1e.parquet"
