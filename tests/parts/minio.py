"""A real MinIO for one run: S3 with STS, and everything it holds gone at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.parts.golang import GoProgram
from tests.parts.relayed import RelayedServer

PROGRAM = GoProgram("minio", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")
REGION = "us-east-1"
USER, PASSWORD = "minio-root", "minio-root-password"


class Minio(RelayedServer):
    """One server of one region; root is `USER` with `PASSWORD`."""

    health_path = "/minio/health/ready"

    @property
    def endpoint(self) -> str:
        return f"{self.base_url}/"

    def command(self) -> Sequence[str | Path]:
        return [PROGRAM.require(), "server", self.home / "data", "--address", f"127.0.0.1:{self.port}"]

    def variables(self) -> dict[str, str]:
        return {"MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": PASSWORD, "MINIO_BROWSER": "off"}

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
