"""A real MinIO for one run: S3 with STS, and everything it holds gone at the end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Self

import boto3
import requests
from botocore.config import Config

from tests.parts import process
from tests.parts.golang import GoProgram
from tests.parts.process import PartError
from tests.parts.relay import Relay

PROGRAM = GoProgram("minio", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")
REGION = "us-east-1"
USER, PASSWORD = "minio-root", "minio-root-password"
SECONDS_TO_START = 60


class Minio:
    """One server with its folder at `home`, on 127.0.0.1. A context manager. It is asked through `relay`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log_path = home / "minio.log"
        self._port = process.free_port()
        self.relay = Relay(self._port)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}/"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        program = PROGRAM.find()
        if program is None:
            raise PartError("MinIO is missing: run `make parts`")
        self.home.mkdir(parents=True, exist_ok=True)
        self.relay.__enter__()
        self._process = process.start(
            [program, "server", self.home / "data", "--address", f"127.0.0.1:{self._port}"],
            log=self.log_path,
            env={**os.environ, "MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": PASSWORD, "MINIO_BROWSER": "off"},
        )
        try:
            process.wait_until_ready(self._is_ready, self._process, log=self.log_path, seconds=SECONDS_TO_START)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            process.kill(self._process)
            self._process = None
        self.relay.__exit__()

    def client(self, service: str = "s3", **credentials: str) -> Any:
        """A boto3 client, of root unless `credentials` say otherwise (`aws_access_key_id`, ...)."""
        root = {"aws_access_key_id": USER, "aws_secret_access_key": PASSWORD}
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, parameter_validation=False),
            **(credentials or root),
        )

    def create_bucket(self, name: str) -> str:
        self.client().create_bucket(Bucket=name)
        return name

    def profile(self, bucket: str, key_prefix: str | None = None, **members: Any) -> dict[str, Any]:
        """A storage profile of the management API for `bucket`."""
        return {
            "type": "s3", "bucket": bucket, "key-prefix": key_prefix, "region": REGION, "endpoint": self.endpoint,
            "path-style-access": True, "flavor": "s3-compat", "sts-enabled": True, **members,
        }  # fmt: skip

    @property
    def credential(self) -> dict[str, str]:
        """The storage credential of the management API that goes with a profile: root's."""
        return {
            "type": "s3",
            "credential-type": "access-key",
            "access-key-id": USER,
            "secret-access-key": PASSWORD,
        }

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Every object's key, in order."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"http://127.0.0.1:{self._port}/minio/health/ready", timeout=2).status_code == 200
        except requests.RequestException:
            return False
