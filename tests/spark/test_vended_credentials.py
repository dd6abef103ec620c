"""Iceberg's own S3 client with nothing but the credentials that are vended for one table's folder."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from storage.credentials import read_credential
from storage.profiles.kinds import read_profile
from storage.vending.client_config import credential_config
from storage.vending.delegation import FileAccess
from storage.vending.vend import issue
from tests.parts.minio import Minio

pytestmark = pytest.mark.django_db


def file_io(spark: SparkSession, minio: Minio, bucket: str, rights: FileAccess) -> Any:
    credential = read_credential(minio.credential)
    profile = read_profile(minio.profile(bucket, "wh"), credential)
    vended = issue(profile, credential, location=f"s3://{bucket}/wh/t1", rights=rights)
    assert vended is not None
    assert spark._jvm is not None
    io = spark._jvm.org.apache.iceberg.aws.s3.S3FileIO()
    io.initialize(credential_config(profile.as_json(), vended))
    return io


def listed(io: Any, prefix: str) -> list[str]:
    found = io.listPrefix(prefix).iterator()
    names = []
    while found.hasNext():
        names.append(found.next().location())
    return names


def write(io: Any, location: str) -> None:
    written = io.newOutputFile(location).createOrOverwrite()
    written.write(bytearray(b"seven\n\n"))
    written.close()


def test_one_folder_is_open(s3_spark: SparkSession, minio: Minio, bucket: str) -> None:
    table, sibling = f"s3://{bucket}/wh/t1", f"s3://{bucket}/wh/t10"
    minio.client().put_object(Bucket=bucket, Key="wh/t10/a", Body=b"others'")
    io = file_io(s3_spark, minio, bucket, FileAccess.READ_WRITE)
    try:
        for name in ("data/a", "data/b", "metadata/c"):
            write(io, f"{table}/{name}")
        assert io.newInputFile(f"{table}/data/a").exists()
        assert not io.newInputFile(f"{table}/data/none").exists()
        assert listed(io, f"{table}/") == [f"{table}/data/a", f"{table}/data/b", f"{table}/metadata/c"]
        assert listed(io, f"{table}/data/") == [f"{table}/data/a", f"{table}/data/b"]
        io.deleteFile(f"{table}/data/a")
        io.deletePrefix(f"{table}/data/")
        assert minio.keys(bucket) == ["wh/t1/metadata/c", "wh/t10/a"]
        for refused in (
            lambda: write(io, f"{sibling}/b"),
            lambda: io.newInputFile(f"{sibling}/a").getLength(),
            lambda: io.deleteFile(f"{sibling}/a"),
            lambda: listed(io, f"{sibling}/"),
            lambda: listed(io, table),  # which would list the sibling, too
            lambda: listed(io, f"s3://{bucket}/wh/"),
        ):
            with pytest.raises(Py4JJavaError, match=r"Status Code: 403|ForbiddenException"):
                refused()
        assert minio.keys(bucket) == ["wh/t1/metadata/c", "wh/t10/a"]
    finally:
        io.close()


def test_a_reader_cannot_write(s3_spark: SparkSession, minio: Minio, bucket: str) -> None:
    minio.client().put_object(Bucket=bucket, Key="wh/t1/a", Body=b"data")
    io = file_io(s3_spark, minio, bucket, FileAccess.READ)
    try:
        assert io.newInputFile(f"s3://{bucket}/wh/t1/a").getLength() == 4
        for refused in (lambda: write(io, f"s3://{bucket}/wh/t1/b"), lambda: io.deleteFile(f"s3://{bucket}/wh/t1/a")):
            with pytest.raises(Py4JJavaError, match=r"Status Code: 403|ForbiddenException"):
                refused()
        assert minio.keys(bucket) == ["wh/t1/a"]
    finally:
        io.close()
