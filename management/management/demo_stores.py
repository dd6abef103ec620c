"""The stores of the demo: a folder, or a MinIO that the demo starts."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from botocore.config import Config
from botocore.session import Session
from django.conf import settings
from django.core.management.base import CommandError

BUCKET, PREFIX, REGION = "demo", "warehouse", "us-east-1"
START_SECONDS = 60
HOW_TO_GET = "go install github.com/minio/minio@latest, https://min.io/download, or in a checkout `make parts`"


class DemoStore(ABC):
    """Storage for one warehouse, available between `start` and `stop`."""

    spark_arguments: ClassVar[list[str]] = []

    @abstractmethod
    def start(self) -> None:
        """Raises `CommandError` if the store cannot start."""

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def storage(self) -> dict[str, Any]:
        """Return `storage-profile` and `storage-credential` of the warehouse."""

    @abstractmethod
    def describe(self) -> str:
        """Return a sentence on where the tables are."""


class Folder(DemoStore):
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "warehouses" / "demo"

    def start(self) -> None:
        self._folder.parent.mkdir()

    def stop(self) -> None:
        """Nothing runs."""

    def storage(self) -> dict[str, Any]:
        return {"storage-profile": {"type": "local", "path": str(self._folder)}}

    def describe(self) -> str:
        return f"local files in {self._folder}"


class Minio(DemoStore):
    """Spark gets no key of the store: the catalog vends credentials of one table, valid for an hour."""

    spark_arguments: ClassVar = ["--s3"]

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "minio"
        self._user, self._password = "demo", secrets.token_urlsafe(16)
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = ""

    def start(self) -> None:
        program = _find_minio()
        address = f"127.0.0.1:{free_port()}"
        self.endpoint = f"http://{address}"
        self._folder.mkdir()
        with (self._folder / "minio.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [program, "server", self._folder / "data", "--address", address],
                env=os.environ
                | {"MINIO_ROOT_USER": self._user, "MINIO_ROOT_PASSWORD": self._password, "MINIO_BROWSER": "off"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + START_SECONDS
        while not is_ok(f"{self.endpoint}/minio/health/ready"):
            if self._process.poll() is not None or time.monotonic() > until:
                raise CommandError(f"demo: MinIO did not start; its log is {self._folder / 'minio.log'}")
            time.sleep(0.1)
        self._client().create_bucket(Bucket=BUCKET)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def storage(self) -> dict[str, Any]:
        return {
            "storage-profile": {
                "type": "s3", "bucket": BUCKET, "key-prefix": PREFIX, "region": REGION, "endpoint": self.endpoint,
                "path-style-access": True, "flavor": "s3-compat", "sts-enabled": True,
            },
            "storage-credential": {
                "type": "s3", "credential-type": "access-key", "access-key-id": self._user,
                "secret-access-key": self._password,
            },
        }  # fmt: skip

    def describe(self) -> str:
        listed = self._client().list_objects_v2(Bucket=BUCKET)
        return f"{listed['KeyCount']} objects in s3://{BUCKET}/{PREFIX} of MinIO, written with temporary credentials"

    def _client(self) -> Any:
        return Session().create_client(
            "s3", region_name=REGION, endpoint_url=self.endpoint,
            aws_access_key_id=self._user, aws_secret_access_key=self._password,
            config=Config(s3={"addressing_style": "path"}),
        )  # fmt: skip


STORES: dict[str, type[Folder | Minio]] = {"local": Folder, "minio": Minio}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_ok(address: str) -> bool:
    """Return whether a GET of this address responds with 200."""
    try:
        with urllib.request.urlopen(address, timeout=2) as response:  # noqa: S310
            return bool(response.status == 200)  # noqa: PLR2004
    except (urllib.error.URLError, OSError):
        return False


def _find_minio() -> str:
    """Return the program on the path, or the one that `make parts` built."""
    built = sorted(settings.BASE_DIR.glob(".parts/minio-*/minio"))
    found = shutil.which("minio") or (str(built[-1]) if built else None)
    if found is None:
        raise CommandError(f"demo: the program `minio` is not installed. To get it: {HOW_TO_GET}")
    return found
