"""Warehouses on MinIO with vended credentials and remote signing, and tables in them."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient
from tests.parts.minio import Minio

KEYS = {"s3.access-key-id", "s3.secret-access-key", "s3.session-token"}
VIEW = {
    "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}  # fmt: skip


def new_lake(minio: Minio, bucket: str, *, soft: bool = False, **members: Any) -> ApiClient:
    created = create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="lake",
        storage_profile=minio.profile(bucket, "wh", **members),
        storage_credential=minio.credential,
        delete_profile={"type": "soft", "expiration-seconds": 60} if soft else None,
    )
    client = ApiClient(f"/catalog/v1/{created.pk}")
    assert client.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return client


def create_table(lake: ApiClient, name: str = "t", **more: Any) -> dict[str, Any]:
    response = lake.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA, **more})
    assert response.status == 200, response.body
    return dict(response.json())


def client_of(config: dict[str, str]) -> Any:
    """Create an S3 client from a table's config, as an engine does."""
    return boto3.client(
        "s3",
        endpoint_url=config["s3.endpoint"],
        region_name=config["s3.region"],
        aws_access_key_id=config["s3.access-key-id"],
        aws_secret_access_key=config["s3.secret-access-key"],
        aws_session_token=config["s3.session-token"],
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
    )


def may_write(config: dict[str, str], location: str) -> bool:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    try:
        client_of(config).put_object(Bucket=bucket, Key=f"{key}/data/x", Body=b"x")
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDenied":
            raise
        return False
    return True
