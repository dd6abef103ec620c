"""MinIO for one test run: S3 with STS; its data is deleted at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.parts.golang import GoProgram
from tests.parts.s3 import S3Server

PROGRAM = GoProgram("minio", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")


class Minio(S3Server):
    health_path = "/minio/health/ready"
    user, password, role_arn = "minio-root", "minio-root-password", None

    def command(self) -> Sequence[str | Path]:
        return [PROGRAM.require(), "server", self.home / "data", "--address", f"127.0.0.1:{self.port}"]

    def variables(self) -> dict[str, str]:
        quiet = {"MINIO_BROWSER": "off", "MINIO_SCANNER_SPEED": "slowest"}
        return {"MINIO_ROOT_USER": self.user, "MINIO_ROOT_PASSWORD": self.password, **quiet}
