"""Servers with S3 and STS: clients, buckets, and the profile of a warehouse."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import boto3
from botocore.config import Config

from tests.parts.relayed import RelayedServer

REGION = "us-east-1"


class S3Server(RelayedServer):
    """A server with one region, `REGION`, and one user who has every permission."""

    user: ClassVar[str]
    password: ClassVar[str]
    role_arn: ClassVar[str | None]
    """The role to assume for temporary credentials; None where every role will do, and none."""

    @property
    def endpoint(self) -> str:
        return f"{self.base_url}/"

    def client(self, service: str = "s3", **credentials: str) -> Any:
        """Return a boto3 client of `user`, or with other `credentials` (`aws_access_key_id`, ...)."""
        if service == "s3" and not credentials:
            return self._own_client
        return self._new_client(service, credentials)

    @cached_property
    def _own_client(self) -> Any:
        """One for the whole run: each new one computes for 20 ms, and connects again."""
        return self._new_client("s3", {})

    def _new_client(self, service: str, credentials: dict[str, str]) -> Any:
        own = {"aws_access_key_id": self.user, "aws_secret_access_key": self.password}
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, parameter_validation=False),
            **(credentials or own),
        )

    def create_bucket(self, name: str) -> str:
        self.client().create_bucket(Bucket=name)
        return name

    def profile(self, bucket: str, key_prefix: str | None = None, **members: Any) -> dict[str, Any]:
        """Return a storage profile of the management API for `bucket`."""
        return {
            "type": "s3", "bucket": bucket, "key-prefix": key_prefix, "region": REGION, "endpoint": self.endpoint,
            "path-style-access": True, "flavor": "s3-compat", "sts-enabled": True, "sts-role-arn": self.role_arn,
            **members,
        }  # fmt: skip

    @property
    def credential(self) -> dict[str, str]:
        """Return the storage credential of the management API for a profile: that of `user`."""
        return {
            "type": "s3",
            "credential-type": "access-key",
            "access-key-id": self.user,
            "secret-access-key": self.password,
        }

    def storage(self, bucket: str, key_prefix: str | None = None, **members: Any) -> dict[str, Any]:
        """Return profile and credential as members of a request that creates a warehouse."""
        return {
            "storage-profile": self.profile(bucket, key_prefix, **members),
            "storage-credential": self.credential,
        }

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """List the keys of all objects, in order."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]
